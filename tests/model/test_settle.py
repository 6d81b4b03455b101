"""`settle` decides what an outcome means: properties that hold for every job, outcome and number of attempts."""

from __future__ import annotations

from random import Random

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from euterpe.model.claims.outcome import (
    MAX_RELEASES,
    Cancelled,
    Failed,
    Outcome,
    Released,
    Settlement,
    Success,
    exhausted,
    settle,
    taken_away,
)
from euterpe.model.errors import IllegalTransition
from euterpe.model.failures.failure import BUDGET_SPENT, LIFETIME_OVER, LOST_LEASE, Category, Failure
from euterpe.model.failures.retry import RetryPolicy
from euterpe.model.job import JobRow
from euterpe.model.state import LIVE, MOVES, TERMINAL, By, State
from tests.model.samples import JOB_ID, a_job, with_policy

failures = st.builds(
    Failure,
    st.sampled_from(list(Category)),
    st.text(max_size=20),
    retry_after_us=st.none() | st.integers(0, 10**15),
    http_status=st.sampled_from([None, 400, 423, 429, 500, 503]),
)
outcomes: st.SearchStrategy[Outcome] = st.one_of(
    st.builds(Success, st.none() | st.just(b"1")),
    st.builds(Failed, failures),
    st.just(Released()),
    st.builds(Cancelled),
)
policies = st.builds(RetryPolicy, on_timeout=st.booleans(), on_system=st.booleans())


@st.composite
def running_jobs(draw: st.DrawFn) -> JobRow:
    longest = draw(st.integers(1, 30))
    return with_policy(
        draw(policies),
        max_attempts=longest,
        attempt_count=draw(st.integers(1, longest)),
        release_count=draw(st.integers(0, MAX_RELEASES)),
        claim_version=draw(st.integers(1, 100)),
    )


def decide(job: JobRow, outcome: Outcome, by: By = By.WORKER) -> Settlement:
    return settle(job, outcome, Random(0), by)


def error_of(settlement: Settlement) -> dict[str, object]:
    error: dict[str, object] = msgspec.json.decode(settlement.error or "null")
    return error


@given(running_jobs(), outcomes)
def test_every_settlement_is_a_legal_move_of_this_very_claim(job: JobRow, outcome: Outcome) -> None:
    settlement = decide(job, outcome)
    assert By.WORKER in MOVES[(State.RUNNING, settlement.state)]
    assert (settlement.job_id, settlement.claim_version) == (job.id, job.claim_version)
    assert not settlement.take_away


@given(running_jobs(), failures)
def test_a_retry_is_given_only_while_attempts_are_left(job: JobRow, failure: Failure) -> None:
    settlement = decide(job, Failed(failure))
    if settlement.state is State.RETRYING:
        assert job.attempt_count < job.max_attempts
        assert not settlement.refund
    if settlement.state is State.DEAD_LETTER:
        assert job.attempt_count == job.max_attempts


@given(running_jobs(), st.lists(outcomes, max_size=60))
def test_attempts_never_exceed_the_maximum_whatever_the_outcomes(job: JobRow, script: list[Outcome]) -> None:
    """Plays a job through: claim charges, refunds give back, a retry is claimed again."""
    attempt, releases = job.attempt_count, job.release_count
    for outcome in script:
        assert attempt <= job.max_attempts
        now = msgspec.structs.replace(job, attempt_count=attempt, release_count=releases)
        settlement = decide(now, outcome)
        attempt -= settlement.refund
        releases += settlement.refund
        assert releases <= MAX_RELEASES
        if settlement.state in TERMINAL:
            break
        attempt += 1
    assert attempt <= job.max_attempts


@given(running_jobs())
def test_a_permanent_failure_is_never_retried(job: JobRow) -> None:
    settlement = decide(job, Failed(Failure(Category.PERMANENT, "no")))
    assert (settlement.state, settlement.outcome) == (State.FAILED, "permanent")
    assert error_of(settlement)["retryable"] is False


@given(running_jobs())
def test_a_cancelled_category_ends_cancelled(job: JobRow) -> None:
    for outcome in (Failed(Failure(Category.CANCELLED, "stop")), Cancelled("stop")):
        settlement = decide(job, outcome)
        assert (settlement.state, settlement.outcome) == (State.CANCELLED, "cancelled")
        assert error_of(settlement)["category"] == "cancelled"


@given(running_jobs(), st.none() | st.just(b'{"a": 1}'))
def test_a_success_completes_and_carries_its_result_and_no_error(job: JobRow, result: bytes | None) -> None:
    settlement = decide(job, Success(result))
    assert (settlement.state, settlement.result, settlement.error) == (State.COMPLETED, result, None)


@given(running_jobs())
def test_a_release_is_refunded_at_most_twenty_times(job: JobRow) -> None:
    settlement = decide(job, Released())
    if job.release_count < 20:
        assert (settlement.state, settlement.refund, settlement.delay_us) == (State.SCHEDULED, True, 0)
    else:
        assert not settlement.refund
        assert settlement.state in {State.RETRYING, State.DEAD_LETTER, State.FAILED}


@given(running_jobs(), failures)
def test_timeout_and_system_failures_follow_the_jobs_own_policy(job: JobRow, failure: Failure) -> None:
    assume(failure.category in {Category.TIMEOUT, Category.SYSTEM})
    settlement = decide(job, Failed(failure))
    assert (settlement.state is State.FAILED) == (not job.retry.retries(failure.category))


@given(running_jobs(), failures)
def test_only_a_retry_waits_and_only_failures_carry_an_error(job: JobRow, failure: Failure) -> None:
    settlement = decide(job, Failed(failure))
    assert (settlement.delay_us > 0) <= (settlement.state is State.RETRYING)
    error = error_of(settlement)
    assert error["attempt"] == job.attempt_count
    assert error["retryable"] == (settlement.state is State.RETRYING)
    assert error["category"] == str(failure.category)


@given(running_jobs(), st.data())
def test_a_sweep_retries_a_lost_lease_while_it_may_and_else_buries_the_job(job: JobRow, data: st.DataObject) -> None:
    """Never `failed`: that is the worker's word, and a move the table does not let a sweep make. A job whose own
    failures have used the rest of its budget is tried once more after its first loss."""
    lost = data.draw(st.integers(0, job.attempt_count - 1))
    if lost:
        job = msgspec.structs.replace(job, error=f'{{"code": "lost_lease", "lost_attempts": "{lost}"}}')
    settlement = decide(job, Failed(LOST_LEASE), By.SWEEP)
    has_budget = job.attempt_count < job.max_attempts or (lost == 0 and job.attempt_count > 1)
    may_retry = job.retry.on_system and has_budget
    assert settlement.state is (State.RETRYING if may_retry else State.DEAD_LETTER)


@pytest.mark.parametrize("outcome", [Success(), Released(), Failed(Failure(Category.PERMANENT, "x"))])
def test_a_sweep_cannot_speak_for_a_worker(outcome: Outcome) -> None:
    if isinstance(outcome, Failed):
        assert decide(a_job(), outcome, By.SWEEP).state is State.DEAD_LETTER
    else:
        with pytest.raises(IllegalTransition):
            decide(a_job(), outcome, By.SWEEP)


@pytest.mark.parametrize("state", sorted(LIVE))
def test_taking_a_job_away_fences_it_exactly_when_it_runs(state: State) -> None:
    over = taken_away(a_job(state=state), State.DEAD_LETTER, LIFETIME_OVER, By.SWEEP)
    assert (over.state, over.take_away) == (State.DEAD_LETTER, state is State.RUNNING)
    assert error_of(over)["code"] == "lifetime_exceeded"


@pytest.mark.parametrize("state", sorted(TERMINAL - {State.FAILED}))
def test_an_ended_job_cannot_be_taken_away(state: State) -> None:
    with pytest.raises(IllegalTransition):
        taken_away(a_job(state=state), State.DEAD_LETTER, LIFETIME_OVER, By.SWEEP)


@pytest.mark.parametrize("state", sorted(set(State) - {State.RETRYING}))
def test_only_sweepable_jobs_can_be_exhausted(state: State) -> None:
    job = a_job(state=state)
    if (state, State.DEAD_LETTER) in MOVES and By.SWEEP in MOVES[(state, State.DEAD_LETTER)]:
        assert exhausted(job).state is State.DEAD_LETTER
    else:
        with pytest.raises(IllegalTransition):
            exhausted(job)


def test_a_spent_retry_says_so() -> None:
    settlement = exhausted(a_job(state=State.RETRYING))
    assert (settlement.job_id, error_of(settlement)["code"]) == (JOB_ID, BUDGET_SPENT.code)
