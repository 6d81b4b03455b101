"""What operators do to jobs: cancel, retry, dead-letter, pause."""

from __future__ import annotations

from euterpe.model.claims.outcome import taken_away
from euterpe.model.errors import IllegalTransition, InvalidInput, JobNotFound, JobPruned
from euterpe.model.failures.failure import Category, Failure
from euterpe.model.job import JobRow
from euterpe.model.state import TERMINAL, By, State, check_move
from euterpe.model.submitting.batch import as_stored
from euterpe.model.submitting.changes import Changes, changed
from euterpe.model.submitting.submission import check_name
from euterpe.stores.sql.jobs import settle
from euterpe.stores.sql.jobs.effects import apply_effects, insert_events
from euterpe.stores.sql.jobs.keys import admit
from euterpe.stores.sql.program import Program, Row, one
from euterpe.stores.sql.rows import job_from, limit_key_of
from euterpe.stores.sql.statements import Family
from euterpe.stores.sql.submitting.unique import regain_unique

CANCELLED_BY_REQUEST = Failure(Category.CANCELLED, "cancelled on request", code="cancelled")
CANCELLED_BY_FORCE = Failure(Category.CANCELLED, "cancelled by force while it ran", code="cancelled")


def hold(job_id: str, requester_id: str | None) -> Program[JobRow]:
    """The job, held against other writers; JobNotFound also for another requester's."""
    stored_id = possible_id(job_id)
    rows = yield one("get_jobs_for_update", ids=[stored_id])
    return (yield from found(rows, stored_id, requester_id))


def possible_id(job_id: str) -> str:
    """The id as it is stored; JobNotFound for text that can be no id."""
    stored_id = as_stored(job_id)
    if stored_id is None:
        raise JobNotFound(job_id, f"{job_id[:100]!r} is not the id of a job")
    return stored_id


def found(rows: list[Row], job_id: str, requester_id: str | None) -> Program[JobRow]:
    """The job of these rows, or the error that says why there is none for this requester."""
    if rows:
        job = job_from(rows[0])
        if requester_id is None or job.requester_id == requester_id:
            return job
        raise JobNotFound(job_id)
    raise (yield from missing(job_id, requester_id))


def missing(job_id: str, requester_id: str | None) -> Program[JobNotFound | JobPruned]:
    """The error that says why there is no such job for this requester."""
    tombstones = yield one("get_tombstone", id=job_id)
    if tombstones and requester_id in (None, tombstones[0][0]):
        return JobPruned(job_id)
    return JobNotFound(job_id)


def cancel(job_id: str, requester_id: str | None, family: Family, *, force: bool) -> Program[State]:
    """Not running: ends at once. Running: the worker is asked, or with `force` fenced off and the job ended.

    Returns the job's state afterwards; `running` means that the request is on its way to the worker."""
    job = yield from hold(job_id, requester_id)
    if job.state in TERMINAL:
        if job.state is State.CANCELLED:
            return State.CANCELLED
        raise IllegalTransition(job.state, State.CANCELLED, "it has already ended")
    if job.state is State.RUNNING and not force:
        yield one("request_cancel", id=job.id, claim_version=job.claim_version)
        return State.RUNNING
    reason = CANCELLED_BY_FORCE if job.state is State.RUNNING else CANCELLED_BY_REQUEST
    settlement = taken_away(job, State.CANCELLED, reason, By.OPERATOR)
    yield from settle.take_away([(job, settlement)], family)
    return State.CANCELLED


def retry(job_id: str, requester_id: str | None) -> Program[JobRow]:
    """A failed job with budget left, scheduled again. Any other ended job as it is: terminal stays terminal, and a new
    one replays it."""
    job = yield from hold(job_id, requester_id)
    if job.state not in TERMINAL:
        raise IllegalTransition(job.state, State.SCHEDULED, "only an ended job can be retried")
    if job.state is State.FAILED and job.attempt_count < job.max_attempts:
        return (yield from schedule_again(job))
    return job


def schedule_again(job: JobRow) -> Program[JobRow]:
    """A failed job with budget left, which is held. IllegalTransition: another job has its unique key by now."""
    check_move(job.state, State.SCHEDULED, By.OPERATOR)
    rows = yield one("retry_failed", id=job.id, claim_version=job.claim_version, holds_key=False)
    if not rows:
        if not (yield from regain_unique(job)):
            why = "another job with its unique key waits or runs; retry it when that one has ended"
            raise IllegalTransition(job.state, State.SCHEDULED, why)
        rows = yield one("retry_failed", id=job.id, claim_version=job.claim_version, holds_key=True)
    again = job_from(rows[0])
    yield from insert_events([again])
    yield from _admit(again)
    return again


def _admit(job: JobRow) -> Program[None]:
    key = limit_key_of(job)
    if key is not None and job.state is State.SCHEDULED:
        yield from admit({key: 0}, left=[(key, job.id)])


def update(job_id: str, requester_id: str | None, changes: Changes) -> Program[JobRow]:
    """Change what may be changed; the job as it is then."""
    job = yield from hold(job_id, requester_id)
    after = changed(job, changes)
    rows = yield one(
        "update_metadata",
        id=job.id,
        claim_version=job.claim_version,
        state=job.state,
        priority=after.priority,
        tags=after.tags_json,
        correlation_id=after.correlation_id,
        callback_url=after.callback_url,
    )
    updated = job_from(rows[0])
    if updated.priority != job.priority:
        yield from _admit(updated)
    return updated


def dead_letter(job_id: str, requester_id: str | None) -> Program[State]:
    """Unrecoverable policy: a failed job goes to the dead letter."""
    job = yield from hold(job_id, requester_id)
    check_move(job.state, State.DEAD_LETTER, By.OPERATOR)
    rows = yield one("dead_letter_failed", id=job.id, claim_version=job.claim_version)
    # Its dependents were ended when it failed; only the event is new.
    yield from apply_effects(rows)
    return State.DEAD_LETTER


def pause(kind: str, name: str) -> Program[None]:
    if kind not in ("queue", "type"):
        raise InvalidInput("kind", f"{kind!r} is not queue or type")
    check_name("name", name)
    yield one("pause", kind=kind, name=name)


def resume(kind: str, name: str) -> Program[None]:
    yield one("resume", kind=kind, name=name)


def paused() -> Program[list[tuple[str, str]]]:
    rows = yield one("paused")
    return [(row[0], row[1]) for row in rows]
