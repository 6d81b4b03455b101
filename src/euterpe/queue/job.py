"""A job as its user sees it: a document with decoded values and aware times, and not a row of the database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, overload

import msgspec

from euterpe.model.dependency import Dependency
from euterpe.model.errors import UnprocessableRow
from euterpe.model.failures.job_error import JobError, error_of
from euterpe.model.job import AttemptRow, JobRow, read_error
from euterpe.model.priority import Priority
from euterpe.model.state import TERMINAL, State

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a job: `percent` from 0 to 100, and the message of its handler."""

    percent: float
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as it was when it was read. `queue.get`, `queue.search`, `queue.update` and `handle.refresh` return it.

    Times are aware datetimes in UTC. `payload`, `result` and `checkpoint` are decoded; bytes stay bytes. `attempt` is
    the number of executions so far. `error` is the latest failure, also while the job waits for a retry. `depends_on`
    has the ids of the jobs that it waits or waited for; the payload shows a reference to the result of one of them as
    it was submitted. `replay_of` is the id of the job that this one repeats. `parent_id` is the id of the job that
    spawned it.

    Example:
        job = await queue.get(job_id)
        print(job.state, job.created_at.isoformat(), job.tags.get("team"))
        if job.progress is not None:
            print(f"{job.progress.percent:.0f} %")
    """

    id: str
    type: str
    queue: str
    state: State
    stage: str | None
    status: str
    priority: Priority
    attempt: int
    max_attempts: int
    payload: Any
    result: Any
    error: JobError | None
    progress: Progress | None
    checkpoint: Any
    tags: dict[str, str]
    correlation_id: str | None
    callback_url: str | None
    callback_events: str
    idempotency_key: str | None
    dependency: Dependency | None
    depends_on: tuple[str, ...]
    pending_dependencies: int
    parent_id: str | None
    replay_of: str | None
    cancel_requested: bool
    timeout: timedelta
    concurrency_key: str | None
    concurrency_limit: int | None
    worker_id: str | None
    attempt_id: str | None
    previous_attempt_id: str | None
    created_at: datetime
    updated_at: datetime
    run_at: datetime
    scheduled_at: datetime | None
    started_at: datetime | None
    completed_at: datetime | None
    expires_at: datetime
    heartbeat_at: datetime | None
    lease_expires_at: datetime | None

    @property
    def is_ended(self) -> bool:
        """Whether the job is completed, failed, cancelled or dead-lettered."""
        return self.state in TERMINAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One execution of a job, as `queue.attempts` returns it. `outcome` and `ended_at` are None while it runs.

    Example:
        for attempt in await queue.attempts(job_id):
            print(attempt.number, attempt.outcome, attempt.error and attempt.error.message)
    """

    id: str
    job_id: str
    number: int
    worker_id: str | None
    started_at: datetime
    ended_at: datetime | None
    outcome: str | None
    error: JobError | None


@dataclass(frozen=True, slots=True)
class Page:
    """A page of `queue.search`, newest jobs first. Pass `cursor` to get the next page. It is None on the last page.

    Example:
        page = await queue.search(state="failed")
        while page.cursor is not None:
            page = await queue.search(state="failed", cursor=page.cursor)
    """

    jobs: list[Job]
    cursor: str | None


@dataclass(frozen=True, slots=True)
class Stats:
    """Numbers of jobs by state, by queue and state, and by type and state. `oldest_age` is the age of the oldest
    waiting job of each queue. There are also the jobs that ended in the last minute, and webhook events, by state.
    `estimated` names the states with more than 50,000 jobs, whose counts are estimates.

    Example:
        stats = await queue.stats()
        print(stats.by_state.get("scheduled", 0), stats.oldest_age.get("default"))
    """

    by_state: dict[str, int]
    by_queue: dict[str, dict[str, int]]
    by_type: dict[str, dict[str, int]]
    oldest_age: dict[str, timedelta]
    per_minute: dict[str, int]
    outbox: dict[str, int]
    estimated: tuple[str, ...] = ()


def job_of(row: JobRow) -> Job:
    """The document of a stored row. What cannot be decoded stays bytes: it must not hide the job."""
    return Job(
        id=row.id,
        type=row.type,
        queue=row.queue,
        state=row.state,
        stage=row.stage,
        status=row.status,
        priority=Priority(row.priority),
        attempt=row.attempt_count,
        max_attempts=row.max_attempts,
        payload=_decoded(row.payload) if row.payload_format == "json" else row.payload,
        result=None if row.result is None else _decoded(row.result),
        error=error_of(row.error_document),
        progress=None if row.progress is None else Progress(row.progress, row.progress_message),
        checkpoint=_checkpoint(row.checkpoint),
        tags=_tags(row),
        correlation_id=row.correlation_id,
        callback_url=row.callback_url,
        callback_events=row.callback_events,
        idempotency_key=row.idempotency_key,
        dependency=None if row.dependency is None else Dependency(row.dependency),
        depends_on=row.depends_on or (),
        pending_dependencies=row.pending_dependencies,
        parent_id=row.parent_id,
        replay_of=row.replay_of,
        cancel_requested=row.cancel_requested,
        timeout=timedelta(microseconds=row.execution_timeout_us),
        concurrency_key=row.concurrency_key,
        concurrency_limit=row.concurrency_limit,
        worker_id=row.worker_id,
        attempt_id=row.attempt_id,
        previous_attempt_id=row.previous_attempt_id,
        created_at=utc(row.created_at),
        updated_at=utc(row.updated_at),
        run_at=utc(row.run_at),
        scheduled_at=utc(row.scheduled_at),
        started_at=utc(row.started_at),
        completed_at=utc(row.completed_at),
        expires_at=utc(row.expires_at),
        heartbeat_at=utc(row.heartbeat_at),
        lease_expires_at=utc(row.lease_expires_at),
    )


def jobs_of(rows: Sequence[JobRow]) -> list[Job]:
    return [job_of(row) for row in rows]


def attempt_of(row: AttemptRow) -> Attempt:
    return Attempt(
        id=row.attempt_id,
        job_id=row.job_id,
        number=row.attempt,
        worker_id=row.worker_id,
        started_at=utc(row.started_at),
        ended_at=utc(row.ended_at),
        outcome=row.outcome,
        error=error_of(read_error(row.error)) if row.error else None,
    )


@overload
def utc(at_us: int) -> datetime: ...
@overload
def utc(at_us: int | None) -> datetime | None: ...
def utc(at_us: int | None) -> datetime | None:
    if at_us is None:
        return None
    try:
        return _EPOCH + timedelta(microseconds=at_us)
    except OverflowError:  # Only a hand can have written it; the job is to be seen all the same.
        return datetime.max.replace(tzinfo=UTC) if at_us > 0 else datetime.min.replace(tzinfo=UTC)


def _decoded(stored: bytes) -> object:
    try:
        return msgspec.json.decode(stored)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return stored


def _checkpoint(stored: bytes | None) -> object:
    """The first byte tells bytes and JSON apart."""
    if not stored:
        return None
    return stored[1:] if stored[:1] == b"b" else _decoded(stored[1:])


def _tags(row: JobRow) -> dict[str, str]:
    try:
        return row.tags
    except UnprocessableRow:
        return {}
