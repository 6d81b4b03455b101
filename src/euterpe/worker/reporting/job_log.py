"""What the log tells of jobs: which one, whose attempt, how it failed and when it is tried again."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from euterpe.model.claims.exchange import Report, SettleResult
from euterpe.model.claims.outcome import Cancelled, Failed, Outcome
from euterpe.model.failures.trace import AttemptTrace
from euterpe.model.job import Claim, JobRow
from euterpe.model.state import State

log = logging.getLogger("euterpe.worker")


def job_keys(job: JobRow) -> dict[str, str | int | None]:
    """The keys of a log line about a running job."""
    return {
        "job_id": job.id,
        "type": job.type,
        "queue": job.queue,
        "worker_id": job.worker_id,
        "claim_version": job.claim_version,
        "attempt": job.attempt_count,
    }


def report_starts(claims: Sequence[Claim]) -> None:
    """A line for each attempt that begins, for those who look closely."""
    for claim in claims:
        log.debug("an attempt begins", extra=job_keys(claim.job))


def report_end(finished: Report, verdict: SettleResult) -> None:
    """A line for an attempt of this process, once its end is written."""
    report_attempt(finished.claim.job, finished.outcome, verdict.state, verdict.delay_us, finished.took_s)


def report_attempt(job: JobRow, outcome: Outcome, state: State | None, delay_us: int, took_s: float) -> None:
    """With the places of its traceback. The message of the error is in the database: it may quote a payload."""
    keys = {**job_keys(job), "state": state, "duration_ms": round(took_s * 1000)}
    if isinstance(outcome, Cancelled):
        log.info("a job was cancelled while it ran", extra=keys)
        return
    if not isinstance(outcome, Failed):
        log.debug("an attempt ended", extra=keys)
        return
    trace = AttemptTrace(job.type, job.id, job.attempt_count, outcome.failure)
    keys["error_code"] = outcome.failure.code
    keys["category"] = outcome.failure.category.value
    match state:
        case State.RETRYING if outcome.failure.unfit:
            keys["delay_ms"] = delay_us // 1000
            log.warning("a job's arguments do not fit this worker's handler; it is left to others", extra=keys)
        case State.RETRYING:
            keys["delay_ms"] = delay_us // 1000
            log.warning("an attempt failed; the job is tried again", extra=keys, exc_info=trace)
        case State.DEAD_LETTER:
            log.error(
                "an attempt failed, and it was the last: the job is in the dead letter", extra=keys, exc_info=trace
            )
        case State.CANCELLED:
            log.info("a job was cancelled while it ran", extra=keys)
        case _:
            log.error("an attempt failed for good: the job is not tried again", extra=keys, exc_info=trace)
