"""A rate as people write it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from euterpe.model.rate import Rate, format_rate, parse_rate


@pytest.mark.parametrize("text", ["5/s", "3/s", "100/m", "7/m", "5000/h", "1/d", "1/7s", "1/900d"])
def test_a_rate_is_shown_as_it_was_written(text: str) -> None:
    assert format_rate(parse_rate(text)) == text


@given(st.integers(1, 10**12))
def test_what_is_shown_is_the_same_rate(interval_us: int) -> None:
    assert parse_rate(format_rate(Rate(interval_us))).interval_us == interval_us
