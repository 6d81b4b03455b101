"""What a handler says (an outcome) and what is then written (a settlement).

Workers, sweeps, timeouts and operators all end an attempt through `settle`: one function decides, one
statement writes.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from random import Random
from typing import Final, assert_never

import msgspec

from euterpe.model.errors import UnprocessableRow
from euterpe.model.failures.backoff import UnusableDelay
from euterpe.model.failures.failure import BUDGET_SPENT, Category, Failure, unprocessable
from euterpe.model.failures.fingerprint import fingerprint_of
from euterpe.model.failures.retry import RetryPolicy
from euterpe.model.job import JobRow
from euterpe.model.state import By, State, check_move

log = logging.getLogger("euterpe.worker")

MAX_RELEASES: Final = 20
FAILURES: Final = frozenset({State.FAILED, State.DEAD_LETTER})
FIRST_UNFIT_US: Final = 1_000_000
LONGEST_UNFIT_US: Final = 600_000_000
UNFIT_CLAIMS: Final = "unfit_claims"
"""In the error document: how many workers in a row could not use the arguments."""
check_move(State.RUNNING, State.COMPLETED, By.WORKER)  # What `settle` does without asking.


class Success(msgspec.Struct, frozen=True, tag="success", gc=False):
    """The handler returned; `result` is its JSON."""

    result: bytes | None = None


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """The attempt went wrong; the failure's category decides what follows."""

    failure: Failure


class Released(msgspec.Struct, frozen=True, tag="released"):
    """Given back unharmed (shutdown before or during the run); the attempt is refunded."""


class Cancelled(msgspec.Struct, frozen=True, tag="cancelled"):
    """The handler stopped because it was asked to."""

    reason: str = "cancelled on request"


Outcome = Success | Failed | Released | Cancelled


class Settlement(msgspec.Struct, frozen=True, gc=False):
    """The write that ends an attempt. `delay_us` is how long a retry waits; `refund` gives the attempt back."""

    job_id: str
    claim_version: int
    state: State
    outcome: str
    result: bytes | None = None
    error: str | None = None
    delay_us: int = 0
    refund: bool = False
    is_release: bool = False
    """Counts as one of the releases that a job may have."""
    last_stage: str | None = None
    """Where the job's type declares stages: the only one from which it may complete."""
    hold_key_us: int = 0
    """How long the handler was told to wait: a rate of the job's key holds the others up as long."""
    take_away: bool = False
    """Fence first: the version is raised, so that whoever still runs the job can write nothing more."""
    fingerprint: str | None = None
    """Of a failure: what it has in common with others of the same cause."""
    log: str | None = None
    """What the handler logged, to be kept with the attempt."""


def settle(job: JobRow, outcome: Outcome, rng: Random, by: By = By.WORKER) -> Settlement:
    """Decide what an outcome means for this job. Pure: the caller writes it, fenced."""
    if type(outcome) is Success and by is By.WORKER:  # Thousands a second; the table allows it, see below.
        if job.stages_json is None:
            return Settlement(job.id, job.claim_version, State.COMPLETED, "completed", outcome.result)
        return _completed_stages(job, outcome.result)
    match outcome:
        case Success(result):
            settlement = Settlement(job.id, job.claim_version, State.COMPLETED, "completed", result)
        case Failed(failure):
            settlement = _settle_failure(job, failure, rng, by)
        case Released():
            settlement = _settle_release(job, rng, by)
        case Cancelled(reason):
            failure = Failure(Category.CANCELLED, reason, code="cancelled")
            settlement = _ended(job, State.CANCELLED, failure)
        case _:
            assert_never(outcome)
    check_move(State.RUNNING, settlement.state, by)
    return settlement


def settle_logged(job: JobRow, outcome: Outcome, rng: Random, log: str | None) -> Settlement:
    """The same of an attempt that logged something."""
    settlement = settle(job, outcome, rng)
    return settlement if log is None else msgspec.structs.replace(settlement, log=log)


def _completed_stages(job: JobRow, result: bytes | None) -> Settlement:
    """A row that was spoilt while the job ran makes no failure of a success."""
    try:
        last = job.stages[-1]
    except UnprocessableRow:
        last = None
    return Settlement(job.id, job.claim_version, State.COMPLETED, "completed", result, last_stage=last)


def stages_unfinished(job: JobRow, last_stage: str) -> Settlement:
    """The handler returned before its job had walked the stages that its type declares: the next try would, too."""
    message = f"it returned in stage {job.current_stage!r}; a job of this type completes from {last_stage!r} only"
    return _ended(job, State.FAILED, Failure(Category.PERMANENT, message, code="illegal_transition"))


def _settle_failure(job: JobRow, failure: Failure, rng: Random, by: By) -> Settlement:
    if failure.category is Category.CANCELLED:
        return _ended(job, State.CANCELLED, failure)
    if failure.unfit:
        return _left_to_others(job, failure, rng)
    if failure.give_up:
        return _ended(job, State.DEAD_LETTER, failure)
    if failure.category is Category.PERMANENT:
        return _ended(job, State.FAILED if by is By.WORKER else State.DEAD_LETTER, failure)
    try:
        policy = job.retry
    except UnprocessableRow as unreadable:
        return _ended(job, State.DEAD_LETTER, unprocessable(f"{unreadable.column} cannot be read; {failure.message}"))
    if not policy.retries(failure.category):
        # Only a worker may say that a job failed; one that a sweep may not retry waits for a human.
        return _ended(job, State.FAILED if by is By.WORKER else State.DEAD_LETTER, failure)
    if job.attempt_count >= job.max_attempts:
        return _ended(job, State.DEAD_LETTER, failure)
    return Settlement(
        job.id,
        job.claim_version,
        State.RETRYING,
        str(failure.category),
        error=_error_json(job, failure, retryable=True),
        delay_us=_delay_us(job, policy, failure, rng),
        hold_key_us=failure.retry_after_us or 0 if job.concurrency_key is not None else 0,
    )


def _left_to_others(job: JobRow, failure: Failure, rng: Random) -> Settlement:
    """Its arguments are of another version. The attempt is refunded and not counted as a release: only the lifetime
    ends a job that nobody can run. It waits longer each time, so that workers that do not fit are not kept busy."""
    before = job.error_document or {}
    try:
        claims = int(before.get(UNFIT_CLAIMS, 0)) + 1
    except (TypeError, ValueError):
        claims = 1
    delay_us = min(FIRST_UNFIT_US * 2 ** min(claims - 1, 20), LONGEST_UNFIT_US) * rng.uniform(0.9, 1.1)
    counted = msgspec.structs.replace(failure, details={**(failure.details or {}), UNFIT_CLAIMS: str(claims)})
    return Settlement(
        job.id,
        job.claim_version,
        State.RETRYING,
        "released",
        error=_error_json(job, counted, retryable=True),
        delay_us=int(delay_us),
        refund=True,
    )


def _delay_us(job: JobRow, policy: RetryPolicy, failure: Failure, rng: Random) -> int:
    try:
        return policy.delay_us(failure, job.attempt_count, rng)
    except UnusableDelay as error:
        # Whoever settles this, a worker or a sweep, settles others with it: they must not wait for one bad function.
        fields = {"type": job.type, "job_id": job.id}
        log.warning("a job type's own backoff is of no use; the default stands in", extra=fields, exc_info=error)
        return RetryPolicy(policy.backoff.stand_in()).delay_us(failure, job.attempt_count, rng)


def _settle_release(job: JobRow, rng: Random, by: By) -> Settlement:
    if job.release_count >= MAX_RELEASES:
        # A job that is only ever handed back would circle for ever; from here on it pays for its attempts.
        failure = Failure(Category.SYSTEM, f"released {MAX_RELEASES} times without an end", code="released_too_often")
        return _settle_failure(job, failure, rng, by)
    return Settlement(job.id, job.claim_version, State.SCHEDULED, "released", refund=True, is_release=True)


def _ended(job: JobRow, state: State, failure: Failure) -> Settlement:
    return Settlement(
        job.id,
        job.claim_version,
        state,
        str(failure.category),
        error=_error_json(job, failure, retryable=False),
        fingerprint=fingerprint_of(job.type, failure.code, failure.message) if state in FAILURES else None,
    )


def _error_json(job: JobRow, failure: Failure, *, retryable: bool) -> str:
    return msgspec.json.encode(failure.as_error(job.attempt_count, retryable=retryable)).decode()


def taken_away(job: JobRow, state: State, failure: Failure, by: By) -> Settlement:
    """Lifetime and forced cancel: the job ends here and its claim, if any, is fenced off."""
    check_move(job.state, state, by)
    ended = _ended(job, state, failure)
    return msgspec.structs.replace(ended, take_away=job.state is State.RUNNING)


def unprocessable_row(job: JobRow, columns: Sequence[str]) -> Settlement:
    """A claimed job whose row cannot be read is not handed to anybody: it ends, and says why."""
    check_move(State.RUNNING, State.DEAD_LETTER, By.WORKER)
    return _ended(job, State.DEAD_LETTER, unprocessable(f"{', '.join(columns)} cannot be read"))


def exhausted(job: JobRow) -> Settlement:
    """A waiting retry whose budget is gone (someone lowered it)."""
    check_move(job.state, State.DEAD_LETTER, By.SWEEP)
    return _ended(job, State.DEAD_LETTER, BUDGET_SPENT)
