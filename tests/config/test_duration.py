"""Durations: what people write becomes whole microseconds, or an error that names the value."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from euterpe.model.duration import LONGEST_US, InvalidDuration, format_duration, parse_duration_us
from euterpe.model.errors import InvalidInput


@pytest.mark.parametrize(
    ("written", "duration_us"),
    [
        ("500ms", 500_000),
        ("30s", 30_000_000),
        ("5m", 300_000_000),
        ("1h30m", 5_400_000_000),
        ("7d", 7 * 86_400_000_000),
        ("1d2h3m4s5ms6us", 93_784_005_006),
        ("1.5h", 5_400_000_000),
        ("0.25s", 250_000),
        (" 30s ", 30_000_000),
        ("0", 0),
        ("0s", 0),
        (0, 0),
        (30, 30_000_000),
        (0.5, 500_000),
        (0.1 + 0.2, 300_000),
        (timedelta(minutes=2, microseconds=1), 120_000_001),
    ],
)
def test_text_numbers_and_timedeltas_become_microseconds(written: object, duration_us: int) -> None:
    assert parse_duration_us(written) == duration_us


MALFORMED = [
    "s",
    "5",
    "5.5",
    "5x",
    "-5s",
    "+5s",
    "1m1h",
    "1m1m",
    "1h30",
    "1.s",
    ".5s",
    "1e3s",
    "٣s",
    "5S",
    "0.0000001s",
    "3651d",
    "1h,30m",
    "P1D",
]


@pytest.mark.parametrize("wrong", [*MALFORMED, "", " ", "5 s", "5m\x00", "9" * 30 + "s", "1s" * 40])
def test_text_that_is_no_duration_is_refused_and_shown(wrong: str) -> None:
    with pytest.raises(InvalidDuration) as caught:
        parse_duration_us(wrong, "timeout")
    assert caught.value.field == "timeout"
    assert repr(wrong)[:20] in str(caught.value)


@pytest.mark.parametrize(
    "wrong",
    [None, True, [30], {"s": 1}, b"30s", -1, -0.5, float("nan"), float("inf"), 1e12, timedelta(seconds=-1)],
)
def test_values_that_are_no_duration_are_refused(wrong: object) -> None:
    with pytest.raises(InvalidDuration, match=r"^delay: "):
        parse_duration_us(wrong, "delay")


def test_a_number_without_its_unit_is_told_what_to_write() -> None:
    with pytest.raises(InvalidDuration, match="did you mean 30s"):
        parse_duration_us("30")


def test_a_very_long_value_is_cut_in_the_message() -> None:
    with pytest.raises(InvalidDuration) as caught:
        parse_duration_us("x" * 100_000)
    assert len(str(caught.value)) < 200


def test_the_error_is_the_same_kind_as_any_other_wrong_input() -> None:
    assert issubclass(InvalidDuration, InvalidInput)


def test_the_longest_duration_is_ten_years() -> None:
    assert parse_duration_us("3650d") == LONGEST_US


@settings(deadline=None)
@given(st.integers(0, LONGEST_US))
def test_formatting_and_parsing_are_inverse(duration_us: int) -> None:
    assert parse_duration_us(format_duration(duration_us)) == duration_us


@settings(deadline=None)
@given(st.text(alphabet="0123456789.dhmsu -", max_size=20))
def test_any_text_parses_or_raises_the_typed_error(text: str) -> None:
    try:
        duration_us = parse_duration_us(text)
    except InvalidDuration:
        return
    assert 0 <= duration_us <= LONGEST_US


def test_formatting_reads_as_people_write() -> None:
    assert [format_duration(value) for value in (0, 1, 500_000, 90_000_000, 5_400_000_000)] == [
        "0s",
        "1us",
        "500ms",
        "1m30s",
        "1h30m",
    ]


def test_a_negative_number_of_microseconds_cannot_be_formatted() -> None:
    with pytest.raises(InvalidDuration):
        format_duration(-1)
