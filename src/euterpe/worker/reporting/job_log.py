"""What the log tells of jobs: which one, whose attempt, how it failed and when it is tried again."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from euterpe.model.claims.exchange import Report, SettleResult
from euterpe.model.claims.outcome import Cancelled, Failed, Outcome
from euterpe.model.failures.failure import CIRCUIT_OPEN, HANDLER_NOT_STARTED, NOT_ITS_TURN
from euterpe.model.failures.trace import AttemptTrace
from euterpe.model.job import Claim, JobRow
from euterpe.model.reading.document import tags_of
from euterpe.model.state import State

log = logging.getLogger("euterpe.worker")


def job_keys(job: JobRow, span_keys: Mapping[str, str] | None = None) -> dict[str, str | int | None]:
    """The keys of a log line about a running job. An attempt without a span has the ids of the trace that its job came
    with, if any."""
    if span_keys is None and (job.correlation_id or job.tags_json):
        from euterpe.observe.tracing import parent_of  # Lines are rare, and most processes trace nothing.

        parent = parent_of(job.correlation_id, tags_of(job))
        span_keys = None if parent is None else parent.log_keys()
    return {
        **(span_keys or {}),
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


def report_end(finished: Report, verdict: SettleResult, span_keys: Mapping[str, str] | None) -> None:
    """A line for an attempt of this process, once its end is written."""
    job, outcome = finished.claim.job, finished.outcome
    report_attempt(job, outcome, verdict.state, verdict.delay_us, finished.took_s, span_keys)


def report_attempt(
    job: JobRow,
    outcome: Outcome,
    state: State | None,
    delay_us: int,
    took_s: float,
    span_keys: Mapping[str, str] | None,
) -> None:
    """With the places of its traceback. The message of the error is in the database: it may quote a payload."""
    keys = {**job_keys(job, span_keys), "state": state, "duration_ms": round(took_s * 1000)}
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
        case State.RETRYING if outcome.failure.code == HANDLER_NOT_STARTED:
            log.debug("no thread or process for a handler; the job goes back uncharged", extra=keys)
        case State.RETRYING if outcome.failure.code == NOT_ITS_TURN.code:
            log.debug("a suspect of a lost worker, or a job beside one, waits for its turn", extra=keys)
        case State.RETRYING if outcome.failure.code == CIRCUIT_OPEN:
            log.debug("a job waits because its circuit breaker is open", extra={**keys, "delay_ms": delay_us // 1000})
        case State.RETRYING if outcome.failure.unfit:
            keys["delay_ms"] = delay_us // 1000
            if outcome.failure.code == "bad_payload":
                log.warning("a job's arguments do not fit this worker's handler; it is left to others", extra=keys)
            else:
                log.warning("this worker cannot run the job now; it is left to others, uncharged", extra=keys)
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
