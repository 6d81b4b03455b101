"""An exception of a handler is described whatever it does to whoever looks at it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from euterpe.model.failures.failure import Failure
from euterpe.worker.failures import failure_of
from tests.worker.hostile import RAISES


def raised_by(act: Callable[[], Any]) -> BaseException:
    try:
        act()
    except BaseException as raised:  # noqa: BLE001  # that is what they are for
        return raised
    raise AssertionError("nothing was raised")


def described(error: BaseException) -> Failure | str:
    """Apart from the test: pytest itself could not show what some of them raise."""
    try:
        return failure_of(error)
    except BaseException as worse:  # noqa: BLE001
        return f"describing it raised {type(worse).__name__}"


@pytest.mark.parametrize(("act", "code"), RAISES.values(), ids=list(RAISES))
def test_every_exception_has_a_code_and_a_message(act: Callable[[], Any], code: str) -> None:
    failure = described(raised_by(act))
    assert isinstance(failure, Failure), failure
    assert failure.code == code
    assert type(failure.message) is str
    assert 0 < len(failure.message) <= 4000
    assert failure.retry_after_us is None
