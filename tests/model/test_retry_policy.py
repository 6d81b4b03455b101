"""When a failure is worth another try, and how long it waits: categories, Retry-After, the 429 bucket."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from euterpe.model.failures.backoff import LONGEST_DELAY_US, SECOND_US, Backoff, Strategy
from euterpe.model.failures.failure import Category, Failure, category_of_status
from euterpe.model.failures.retry import DEFAULT_RETRY, RetryPolicy, retry_from_wire, retry_to_wire

STEADY = RetryPolicy(Backoff(jitter=0.0))


def delay_s(attempt: int, **said: int) -> float:
    return STEADY.delay_us(Failure(Category.TEMPORARY, "x", **said), attempt, Random(0)) / SECOND_US  # type: ignore[arg-type]


def test_a_failure_waits_for_the_delay_of_its_attempt() -> None:
    assert [delay_s(n) for n in (1, 2, 3, 4)] == [1, 2, 4, 8]


def test_a_rate_limit_waits_two_buckets_longer() -> None:
    assert [delay_s(n, http_status=429) for n in (1, 2, 3)] == [4, 8, 16]


@pytest.mark.parametrize("status", [423, 500, 502, 503, 504])
def test_no_other_status_jumps_ahead(status: int) -> None:
    assert delay_s(2, http_status=status) == 2


def test_a_retry_after_wins_when_it_is_longer_and_only_then() -> None:
    assert delay_s(3, retry_after_us=10 * SECOND_US) == 10
    assert delay_s(3, retry_after_us=1 * SECOND_US) == 4
    assert delay_s(1, retry_after_us=10 * SECOND_US, http_status=429) == 10
    assert delay_s(1, retry_after_us=3 * SECOND_US, http_status=429) == 4


@given(st.integers(0, 10**40), st.integers(1, 1000), st.sampled_from([None, 429, 503]))
def test_no_retry_after_is_too_long_to_be_written(retry_after_us: int, attempt: int, status: int | None) -> None:
    failure = Failure(Category.TEMPORARY, "x", retry_after_us=retry_after_us, http_status=status)
    assert 0 <= DEFAULT_RETRY.delay_us(failure, attempt, Random(0)) <= LONGEST_DELAY_US


@pytest.mark.parametrize(
    ("category", "retried"),
    [
        (Category.TEMPORARY, True),
        (Category.PERMANENT, False),
        (Category.TIMEOUT, True),
        (Category.CANCELLED, False),
        (Category.SYSTEM, True),
    ],
)
def test_the_category_decides_whether_a_failure_is_retried(category: Category, retried: bool) -> None:
    assert DEFAULT_RETRY.retries(category) is retried


def test_timeouts_and_system_failures_are_configurable_and_nothing_else_is() -> None:
    strict = RetryPolicy(on_timeout=False, on_system=False)
    assert {c for c in Category if strict.retries(c)} == {Category.TEMPORARY}
    assert {c for c in Category if RetryPolicy(on_timeout=False).retries(c)} == {Category.TEMPORARY, Category.SYSTEM}


def test_the_statuses_of_the_contract_are_temporary_and_every_other_is_permanent() -> None:
    temporary = {code for code in range(100, 600) if category_of_status(code) is Category.TEMPORARY}
    assert temporary == {423, 429, 500, 502, 503, 504}
    assert {category_of_status(code) for code in range(100, 600)} == {Category.TEMPORARY, Category.PERMANENT}


@pytest.mark.parametrize(
    "policy",
    [
        DEFAULT_RETRY,
        RetryPolicy(on_timeout=False),
        RetryPolicy(on_system=False),
        RetryPolicy(Backoff(Strategy.LINEAR, 5, 50), on_timeout=False),
        RetryPolicy(Backoff(Strategy.CUSTOM, 5, 50, name="mine")),
    ],
)
def test_a_policy_survives_its_journey_to_the_row_and_back(policy: RetryPolicy) -> None:
    assert retry_from_wire(retry_to_wire(policy)) == policy


def test_the_default_policy_takes_no_room_in_the_row() -> None:
    assert retry_to_wire(DEFAULT_RETRY) is None
    assert retry_from_wire(None) is DEFAULT_RETRY
