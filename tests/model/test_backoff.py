"""Backoff: the four strategies of 003 section 5, jitter, and the cap that holds after jitter."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from euterpe.model.errors import InvalidInput
from euterpe.model.failures import backoff as module
from euterpe.model.failures.backoff import (
    DEFAULT_BACKOFF,
    HOUR_US,
    LONGEST_DELAY_US,
    SECOND_US,
    Backoff,
    Strategy,
    backoff_from_wire,
    backoff_to_wire,
    register_custom_delay,
)

attempts = st.integers(1, 10_000)
delays = st.integers(0, LONGEST_DELAY_US)


@st.composite
def backoffs(draw: st.DrawFn) -> Backoff:
    initial, longest = sorted((draw(delays), draw(delays)))
    return Backoff(
        draw(st.sampled_from([Strategy.CONSTANT, Strategy.LINEAR, Strategy.EXPONENTIAL])),
        initial,
        longest,
        draw(st.floats(1, 1000)),
        draw(st.floats(0, 1)),
    )


@pytest.fixture(autouse=True)
def _no_custom_functions_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_custom", {})


def seconds(backoff: Backoff, upto: int) -> list[float]:
    return [backoff.base_delay_us(n) / SECOND_US for n in range(1, upto + 1)]


def test_the_default_is_exponential_from_one_second_doubling_to_an_hour_with_ten_percent_jitter() -> None:
    assert (DEFAULT_BACKOFF.strategy, DEFAULT_BACKOFF.initial_us, DEFAULT_BACKOFF.max_us) == (
        Strategy.EXPONENTIAL,
        SECOND_US,
        HOUR_US,
    )
    assert (DEFAULT_BACKOFF.multiplier, DEFAULT_BACKOFF.jitter) == (2.0, 0.1)
    assert seconds(DEFAULT_BACKOFF, 14) == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 3600, 3600]


def test_a_constant_backoff_always_waits_the_same() -> None:
    assert seconds(Backoff(Strategy.CONSTANT, 5 * SECOND_US), 4) == [5, 5, 5, 5]


def test_a_linear_backoff_grows_with_the_attempt_up_to_its_cap() -> None:
    assert seconds(Backoff(Strategy.LINEAR, 5 * SECOND_US, 12 * SECOND_US), 4) == [5, 10, 12, 12]


def test_an_exponential_backoff_multiplies_with_each_attempt_up_to_its_cap() -> None:
    assert seconds(Backoff(Strategy.EXPONENTIAL, SECOND_US, 30 * SECOND_US, 3.0), 5) == [1, 3, 9, 27, 30]


def test_a_custom_backoff_asks_its_function_for_attempt_initial_and_max() -> None:
    register_custom_delay("fib", lambda n, initial, longest: initial * n * n + longest // 10)
    custom = Backoff(Strategy.CUSTOM, 2, 1000, name="fib")
    assert [custom.base_delay_us(n) for n in (1, 2, 3)] == [102, 108, 118]


def test_a_custom_delay_is_capped_and_never_negative() -> None:
    register_custom_delay("wild", lambda n, initial, longest: 0 if n == 1 else 10**30)
    custom = Backoff(Strategy.CUSTOM, 2, 1000, name="wild")
    assert [custom.base_delay_us(n) for n in (1, 2)] == [0, 1000]


def test_a_process_that_does_not_know_the_custom_function_backs_off_exponentially() -> None:
    custom = Backoff(Strategy.CUSTOM, SECOND_US, 8 * SECOND_US, name="registered elsewhere")
    assert seconds(custom, 5) == [1, 2, 4, 8, 8]


@given(backoffs(), attempts, st.randoms(use_true_random=False))
def test_the_cap_holds_after_jitter_and_no_delay_is_negative(backoff: Backoff, n: int, rng: Random) -> None:
    assert 0 <= backoff.delay_us(n, rng) <= backoff.max_us
    assert 0 <= backoff.full_jitter_us(n, rng) <= backoff.base_delay_us(n) <= backoff.max_us


@given(backoffs(), attempts, st.randoms(use_true_random=False))
def test_jitter_stays_inside_its_share(backoff: Backoff, n: int, rng: Random) -> None:
    base = backoff.base_delay_us(n)
    delay = backoff.delay_us(n, rng)
    assert base * (1 - backoff.jitter) - 1 <= delay <= base * (1 + backoff.jitter) + 1


@given(backoffs(), attempts)
def test_a_later_attempt_never_waits_less_before_jitter(backoff: Backoff, n: int) -> None:
    assert backoff.base_delay_us(n) <= backoff.base_delay_us(n + 1)


def test_jitter_reaches_both_sides_and_full_jitter_the_whole_width() -> None:
    rng = Random(1)
    half = Backoff(Strategy.CONSTANT, 1000, 10_000, jitter=0.1)
    drawn = [half.delay_us(1, rng) for _ in range(2000)]
    assert min(drawn) < 910 < 1090 < max(drawn)
    full = [half.full_jitter_us(1, rng) for _ in range(2000)]
    assert min(full) < 20 < 980 < max(full)


@given(backoffs())
def test_a_backoff_survives_its_journey_to_the_row_and_back(backoff: Backoff) -> None:
    assert backoff_from_wire(backoff_to_wire(backoff)) == backoff


def test_the_default_backoff_takes_no_room_in_the_row() -> None:
    assert backoff_to_wire(DEFAULT_BACKOFF) is None
    assert backoff_from_wire(None) is DEFAULT_BACKOFF
    assert backoff_to_wire(Backoff(jitter=0.0)) == {"jitter": 0.0}


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"initial_us": -1}, "backoff.initial"),
        ({"initial_us": 10, "max_us": 9}, "backoff.max"),
        ({"max_us": LONGEST_DELAY_US + 1}, "backoff.max"),
        ({"multiplier": 0.5}, "backoff.multiplier"),
        ({"multiplier": float("nan")}, "backoff.multiplier"),
        ({"multiplier": float("inf")}, "backoff.multiplier"),
        ({"jitter": -0.1}, "backoff.jitter"),
        ({"jitter": 1.1}, "backoff.jitter"),
        ({"jitter": float("nan")}, "backoff.jitter"),
        ({"strategy": Strategy.CUSTOM}, "backoff.name"),
        ({"name": "x"}, "backoff.name"),
    ],
)
def test_a_bad_backoff_is_refused_by_the_name_of_its_field(said: dict[str, float], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Backoff(**said)  # type: ignore[arg-type]
    assert refused.value.field == field
