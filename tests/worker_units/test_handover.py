"""The switch interval is short while someone writes, and as it was afterwards."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from euterpe.stores.sql.sqlite.switch_interval import SOON_S, ShortSwitchInterval


@pytest.fixture(autouse=True)
def _interval() -> Iterator[None]:
    before = sys.getswitchinterval()
    yield
    sys.setswitchinterval(before)


def test_the_last_one_out_puts_the_interval_back() -> None:
    sys.setswitchinterval(0.0071)
    sooner = ShortSwitchInterval()
    for _ in range(100):
        with sooner:
            pass
    with sooner:
        with sooner:
            assert sys.getswitchinterval() == pytest.approx(SOON_S, abs=2e-6)
        assert sys.getswitchinterval() == pytest.approx(SOON_S, abs=2e-6)
    assert sys.getswitchinterval() == pytest.approx(0.0071, abs=2e-6)


def test_an_interval_that_is_shorter_already_stays() -> None:
    sys.setswitchinterval(0.0001)
    with ShortSwitchInterval():
        assert sys.getswitchinterval() == pytest.approx(0.0001, abs=2e-6)
