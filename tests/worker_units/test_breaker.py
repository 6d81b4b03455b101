"""The circuit breaker of 004: sliding window, threshold, cooldown, one probe."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from euterpe.model.errors import InvalidInput
from euterpe.model.failures.circuit_breaker import (
    SLICES_PER_WINDOW,
    BreakerCode,
    BreakerPolicy,
    CircuitBreaker,
    Closed,
    HalfOpen,
    Open,
    Permit,
)

POLICY = BreakerPolicy(failure_threshold=0.5, window_us=1_000, cooldown_us=300, min_samples=4)


@dataclass
class HandClock:
    now_us: int = 0

    def __call__(self) -> int:
        return self.now_us


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def breaker(clock: HandClock) -> CircuitBreaker:
    return CircuitBreaker(POLICY, clock)


def acquire(breaker: CircuitBreaker) -> Permit:
    permit = breaker.try_acquire()
    assert permit is not None
    return permit


def code(breaker: CircuitBreaker) -> BreakerCode:
    return breaker.code


def trip(breaker: CircuitBreaker) -> None:
    breaker.record(acquire(breaker), failed=POLICY.min_samples)
    assert code(breaker) == BreakerCode.OPEN


def test_it_starts_closed_and_lets_every_call_through(breaker: CircuitBreaker) -> None:
    assert code(breaker) == BreakerCode.CLOSED
    assert all(breaker.try_acquire() for _ in range(100))
    assert breaker.retry_in_us == 0


def test_fewer_results_than_min_samples_never_open_it(breaker: CircuitBreaker) -> None:
    breaker.record(acquire(breaker), failed=3)
    assert code(breaker) == BreakerCode.CLOSED


def test_a_failure_rate_at_the_threshold_opens_it(breaker: CircuitBreaker) -> None:
    breaker.record(acquire(breaker), succeeded=2)
    breaker.record(acquire(breaker), failed=2)
    assert code(breaker) == BreakerCode.OPEN


def test_a_failure_rate_just_under_the_threshold_does_not_open_it(breaker: CircuitBreaker) -> None:
    breaker.record(acquire(breaker), succeeded=3)
    breaker.record(acquire(breaker), failed=2)
    assert code(breaker) == BreakerCode.CLOSED


def test_failures_older_than_the_window_are_forgotten(breaker: CircuitBreaker, clock: HandClock) -> None:
    breaker.record(acquire(breaker), failed=3)
    clock.now_us = POLICY.window_us
    breaker.record(acquire(breaker), failed=3)
    assert code(breaker) == BreakerCode.CLOSED


def test_failures_inside_the_window_add_up(breaker: CircuitBreaker, clock: HandClock) -> None:
    breaker.record(acquire(breaker), failed=3)
    clock.now_us = POLICY.window_us - POLICY.window_us // SLICES_PER_WINDOW
    breaker.record(acquire(breaker), failed=1)
    assert code(breaker) == BreakerCode.OPEN


def test_an_open_breaker_refuses_until_the_cooldown_is_over(breaker: CircuitBreaker, clock: HandClock) -> None:
    trip(breaker)
    assert breaker.try_acquire() is None
    assert breaker.retry_in_us == POLICY.cooldown_us
    clock.now_us += POLICY.cooldown_us - 1
    assert breaker.try_acquire() is None
    clock.now_us += 1
    assert breaker.try_acquire() is not None
    assert code(breaker) == BreakerCode.HALF_OPEN


def test_half_open_lets_exactly_one_probe_through(breaker: CircuitBreaker, clock: HandClock) -> None:
    trip(breaker)
    clock.now_us += POLICY.cooldown_us
    acquire(breaker)
    assert breaker.try_acquire() is None


def test_a_probe_that_succeeds_closes_it_with_an_empty_window(breaker: CircuitBreaker, clock: HandClock) -> None:
    trip(breaker)
    clock.now_us += POLICY.cooldown_us
    breaker.record(acquire(breaker), succeeded=1)
    assert isinstance(breaker.state, Closed)
    assert breaker.state.slices == ()
    breaker.record(acquire(breaker), failed=3)
    assert code(breaker) == BreakerCode.CLOSED


def test_a_probe_that_fails_opens_it_for_another_cooldown(breaker: CircuitBreaker, clock: HandClock) -> None:
    trip(breaker)
    clock.now_us += POLICY.cooldown_us
    breaker.record(acquire(breaker), failed=1)
    assert isinstance(breaker.state, Open)
    assert breaker.retry_in_us == POLICY.cooldown_us


def test_a_probe_that_never_reports_does_not_lock_it_for_ever(breaker: CircuitBreaker, clock: HandClock) -> None:
    trip(breaker)
    clock.now_us += POLICY.cooldown_us
    lost = acquire(breaker)
    clock.now_us += POLICY.cooldown_us
    second = acquire(breaker)
    breaker.record(lost, succeeded=1)
    assert isinstance(breaker.state, HalfOpen), "the lost probe's late answer is not the second probe's"
    breaker.record(second, succeeded=1)
    assert code(breaker) == BreakerCode.CLOSED


def test_a_slow_success_from_before_it_opened_does_not_close_it(breaker: CircuitBreaker, clock: HandClock) -> None:
    slow = acquire(breaker)
    trip(breaker)
    breaker.record(slow, succeeded=1)
    assert code(breaker) == BreakerCode.OPEN
    clock.now_us += POLICY.cooldown_us
    acquire(breaker)
    breaker.record(slow, succeeded=1)
    assert code(breaker) == BreakerCode.HALF_OPEN


def test_a_report_of_no_calls_changes_nothing(breaker: CircuitBreaker, clock: HandClock) -> None:
    trip(breaker)
    clock.now_us += POLICY.cooldown_us
    breaker.record(acquire(breaker))
    assert code(breaker) == BreakerCode.HALF_OPEN


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"failure_threshold": 0.0}, "failure_threshold"),
        ({"failure_threshold": 1.1}, "failure_threshold"),
        ({"window_us": 0}, "window_us"),
        ({"cooldown_us": 0}, "cooldown_us"),
        ({"min_samples": 0}, "min_samples"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused_by_name(wrong: dict[str, float], field: str) -> None:
    with pytest.raises(InvalidInput, match=field):
        BreakerPolicy(**wrong)  # type: ignore[arg-type]


@settings(deadline=None)
@given(
    results=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 3), st.integers(0, 3)), max_size=60),
    threshold=st.sampled_from([0.1, 0.5, 0.9, 1.0]),
)
def test_while_closed_it_agrees_with_a_plain_list_of_recent_results(
    results: list[tuple[int, int, int]], threshold: float
) -> None:
    """The oracle keeps every result; only the window's step (one slice) is granted to the breaker."""
    policy = BreakerPolicy(failure_threshold=threshold, window_us=1_000, cooldown_us=300, min_samples=4)
    clock = HandClock()
    breaker = CircuitBreaker(policy, clock)
    history: list[tuple[int, int, int]] = []
    for wait_us, succeeded, failed in results:
        clock.now_us += wait_us
        breaker.record(acquire(breaker), succeeded=succeeded, failed=failed)
        if succeeded + failed:
            history.append((clock.now_us, succeeded, failed))
        step_us = policy.window_us // SLICES_PER_WINDOW
        oldest_us = (clock.now_us // step_us - SLICES_PER_WINDOW + 1) * step_us
        recent = [(good, bad) for at_us, good, bad in history if at_us >= oldest_us]
        bad_total = sum(bad for _, bad in recent)
        total = bad_total + sum(good for good, _ in recent)
        must_open = succeeded + failed > 0 and total >= 4 and bad_total >= threshold * total
        assert (code(breaker) == BreakerCode.OPEN) == must_open
        if must_open:
            return
        assert isinstance(breaker.state, Closed)
        assert len(breaker.state.slices) <= SLICES_PER_WINDOW


def test_the_codes_are_those_of_the_metric() -> None:
    assert [(code.name, code.value) for code in BreakerCode] == [("CLOSED", 0), ("HALF_OPEN", 1), ("OPEN", 2)]
