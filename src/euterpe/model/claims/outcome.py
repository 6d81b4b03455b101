"""What a handler says (an outcome) and what is then written (a settlement).

Workers, sweeps, timeouts and operators all end an attempt through `settle`: one function decides, one
statement writes.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from random import Random
from typing import Final, assert_never

import msgspec

from euterpe.model.errors import UnprocessableRow
from euterpe.model.failures.backoff import UnusableDelay
from euterpe.model.failures.failure import (
    BUDGET_SPENT,
    HANDLER_NOT_STARTED,
    LOST_LEASE,
    NOT_ITS_TURN,
    Category,
    Failure,
    unprocessable,
)
from euterpe.model.failures.fingerprint import fingerprint_of
from euterpe.model.failures.retry import RetryPolicy
from euterpe.model.job import LOST_ATTEMPTS, REFUNDED_LOSSES, UNFIT_CLAIMS, JobRow
from euterpe.model.state import TRANSCODE, By, State, check_move

log = logging.getLogger("euterpe.worker")

MAX_RELEASES: Final = 20
FAILURES: Final = frozenset({State.FAILED, State.DEAD_LETTER})
FIRST_UNFIT_US: Final = 1_000_000
LONGEST_UNFIT_US: Final = 600_000_000
LONGEST_WAITS_US: Final = {NOT_ITS_TURN.code: 8_000_000, HANDLER_NOT_STARTED: 60_000_000}
"""By error code, where a later moment is enough: a suspect's turn comes soon, and a worker gets its threads back."""
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
    """The write that ends an attempt. `delay_us` is how long a retry waits; `refund` gives so many attempts back."""

    job_id: str
    claim_version: int
    state: State
    outcome: str
    result: bytes | None = None
    error: str | None = None
    delay_us: int = 0
    refund: int = 0
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
    outcome_hash: bytes | None = None
    """Of the report of an HTTP worker."""

    @property
    def in_time(self) -> bool:
        """Whether it is refused after the attempt's deadline: past that, an HTTP worker can only tell of a failure."""
        return self.outcome_hash is not None and self.state in (State.COMPLETED, State.SCHEDULED)


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


def settle_logged(
    job: JobRow, outcome: Outcome, rng: Random, log: str | None, outcome_hash: bytes | None = None
) -> Settlement:
    """The same of an attempt that logged something, or that an HTTP worker reported."""
    settlement = settle(job, outcome, rng)
    if log is None and outcome_hash is None:
        return settlement
    return msgspec.structs.replace(settlement, log=log, outcome_hash=outcome_hash)


def lacks_outputs(job: JobRow, result: bytes | None) -> str:
    """Why this result is not one of a transcode; empty if it is, or if the job is none."""
    if job.type != TRANSCODE:
        return ""
    try:
        outputs = msgspec.json.decode(result or b"null", type=_TranscodeResult).outputs
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        outputs = []
    return "" if outputs else "a transcode completes with its `outputs` only; leave it to Euterpe's own workers"


class _TranscodeResult(msgspec.Struct):
    outputs: list[dict[str, msgspec.Raw]]


def _completed_stages(job: JobRow, result: bytes | None) -> Settlement:
    """A row that was spoilt while the job ran makes no failure of a success."""
    if why := lacks_outputs(job, result):
        return _ended(job, State.FAILED, Failure(Category.PERMANENT, why, code="result.no_outputs"))
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
    is_lost = by is By.SWEEP and failure.code == LOST_LEASE.code
    # An outcome of its own clears a suspect.
    given_back = 0 if is_lost else job.lost_attempts - job.refunded_losses
    if failure.category is Category.PERMANENT:
        return _ended(job, State.FAILED if by is By.WORKER else State.DEAD_LETTER, failure, given_back)
    try:
        policy = job.retry
    except UnprocessableRow as unreadable:
        return _ended(job, State.DEAD_LETTER, unprocessable(f"{unreadable.column} cannot be read; {failure.message}"))
    if not policy.retries(failure.category):
        # Only a worker may say that a job failed; one that a sweep may not retry waits for a human.
        return _ended(job, State.FAILED if by is By.WORKER else State.DEAD_LETTER, failure, given_back)
    if is_lost:
        lost, refunded = job.lost_attempts + 1, job.refunded_losses
        if job.attempt_count >= job.max_attempts and lost == 1 < job.attempt_count:
            # Its own failures have used the rest of its budget, and a neighbour may have killed the worker: once more.
            given_back = refunded = 1
        failure = _with_counts(failure, {LOST_ATTEMPTS: lost, REFUNDED_LOSSES: refunded})
    charged = job.attempt_count - given_back
    if charged >= job.max_attempts:
        return _ended(job, State.DEAD_LETTER, failure)
    return Settlement(
        job.id,
        job.claim_version,
        State.RETRYING,
        str(failure.category),
        error=_error_json(job, failure, retryable=True),
        delay_us=_delay_us(job, policy, failure, charged, rng),
        refund=given_back,
        hold_key_us=failure.retry_after_us or 0 if job.concurrency_key is not None else 0,
    )


def _left_to_others(job: JobRow, failure: Failure, rng: Random) -> Settlement:
    """This worker cannot run it now, or its circuit is open. The attempt is refunded and not counted as a release: only
    the lifetime ends a job that nobody can run. It waits longer each time, so that workers are not kept busy. A suspect
    stays one."""
    claims = job.times_left + 1
    first_us = failure.retry_after_us or FIRST_UNFIT_US
    longest_us = max(first_us, LONGEST_WAITS_US.get(failure.code, LONGEST_UNFIT_US))
    delay_us = min(first_us * 2 ** min(claims - 1, 20), longest_us) * rng.uniform(0.9, 1.1)
    lost, refunded = job.lost_attempts, job.refunded_losses
    counted = _with_counts(failure, {UNFIT_CLAIMS: claims, LOST_ATTEMPTS: lost, REFUNDED_LOSSES: refunded})
    return Settlement(
        job.id,
        job.claim_version,
        State.RETRYING,
        "released",
        error=_error_json(job, counted, retryable=True),
        delay_us=int(delay_us),
        refund=1,
    )


def _with_counts(failure: Failure, counts: Mapping[str, int]) -> Failure:
    """With these counts in its error document; a count of nothing is left out."""
    said = {name: str(count) for name, count in counts.items() if count}
    return msgspec.structs.replace(failure, details={**(failure.details or {}), **said})


def _delay_us(job: JobRow, policy: RetryPolicy, failure: Failure, attempt: int, rng: Random) -> int:
    try:
        return policy.delay_us(failure, attempt, rng)
    except UnusableDelay as error:
        # Whoever settles this, a worker or a sweep, settles others with it: they must not wait for one bad function.
        fields = {"type": job.type, "job_id": job.id}
        log.warning("a job type's own backoff is of no use; the default stands in", extra=fields, exc_info=error)
        return RetryPolicy(policy.backoff.stand_in()).delay_us(failure, attempt, rng)


def _settle_release(job: JobRow, rng: Random, by: By) -> Settlement:
    if job.release_count >= MAX_RELEASES:
        # A job that is only ever handed back would circle for ever; from here on it pays for its attempts.
        failure = Failure(Category.SYSTEM, f"released {MAX_RELEASES} times without an end", code="released_too_often")
        return _settle_failure(job, failure, rng, by)
    return Settlement(job.id, job.claim_version, State.SCHEDULED, "released", refund=1, is_release=True)


def _ended(job: JobRow, state: State, failure: Failure, refund: int = 0) -> Settlement:
    return Settlement(
        job.id,
        job.claim_version,
        state,
        str(failure.category),
        error=_error_json(job, failure, retryable=False),
        refund=refund,
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
