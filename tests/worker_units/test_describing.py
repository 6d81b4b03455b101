"""An exception of a handler is described whatever it does to whoever looks at it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from euterpe.worker.failures import failure_of
from tests.worker.hostile import RAISES


@pytest.mark.parametrize(("act", "code"), RAISES.values(), ids=list(RAISES))
def test_every_exception_has_a_code_and_a_message(act: Callable[[], Any], code: str) -> None:
    try:
        act()
    except BaseException as raised:  # noqa: BLE001  # that is what they are for
        failure = failure_of(raised)
    assert failure.code == code
    assert type(failure.message) is str
    assert 0 < len(failure.message) <= 4000
    assert failure.retry_after_us is None
