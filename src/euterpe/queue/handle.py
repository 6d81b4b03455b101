"""A job that was submitted: its id, a way to wait for what comes of it, and to steer it."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec

from euterpe.model.duration import DurationLike, parse_duration_us
from euterpe.model.errors import JobFailed, StoreUnavailable, UnprocessableRow
from euterpe.model.failures.job_error import error_of
from euterpe.model.job import JobRow
from euterpe.model.reading.document import rfc3339
from euterpe.model.state import STATES, TERMINAL, State
from euterpe.model.submitting.references import ResultSource
from euterpe.queue.job import Job, Progress, job_of
from euterpe.queue.ports import JobSource
from euterpe.runtime.wait import happens_within
from euterpe.worker.handling.json_types import converted

R = TypeVar("R")

FIRST_POLL_S = 0.01
LONGEST_POLL_S = 0.5
OUTAGE_PATIENCE_S = 30.0
"""How long a database may be away before waiting for a job is given up."""


class JobHandle(ResultSource, Generic[R]):
    """A submitted job. It has `id`, `type`, the last known `state`, and methods to follow and change the job.

    `replayed` is True if an idempotency key found an earlier job. You can use a handle in `depends_on=[...]`, and as an
    argument of another job, which then receives the result.

    Example:
        job = await render.submit(report_id=7)
        print(job.id, job.created_at)
        pages = await job.result(timeout="30s")
    """

    __slots__ = ("_created_at", "_returns", "_source", "id", "replayed", "state", "type")

    id: str

    def __init__(
        self,
        source: JobSource,
        job_id: str,
        job_type: str,
        state: str,
        created_at: str,
        replayed: bool,
        returns: Any = Any,
    ) -> None:
        self._source = source
        self._returns = returns
        self._created_at = created_at
        self.id = job_id
        self.type = job_type
        self.state = STATES[state]
        """As it was at submission, or at the latest `refresh`."""
        self.replayed = replayed

    def __repr__(self) -> str:
        return f"<job {self.id} {self.type}>"

    @property
    def created_at(self) -> datetime:
        """When the job was stored, as an aware datetime in UTC."""
        return datetime.fromisoformat(self._created_at)

    async def result(self, timeout: DurationLike | None = None) -> R:  # the promised name
        """Wait for the end of the job and return what its handler returned, with the declared type.

        `timeout`: how long to wait, as `"30s"`, seconds or a timedelta. Without it, there is no limit.
        Raises JobFailed if the job ended without a result, and TimeoutError if it has not ended in time.

        Example:
            pages = await job.result(timeout="30s")
        """
        row = await self._wait(timeout)
        if row.state is not State.COMPLETED:
            raise JobFailed(row.id, row.state, error_of(row.error_document))
        value: R = decode_result(row, self._returns)
        return value

    async def wait(self, timeout: DurationLike | None = None) -> Job:  # the promised name
        """Wait until the job has ended in any state, and return it. Raises TimeoutError if it has not ended in time.

        Example:
            ended = await job.wait("1m")
            print(ended.state, ended.error)
        """
        return job_of(await self._wait(timeout))

    async def refresh(self) -> Job:
        """Read the job now, and update `state` of this handle. Raises JobNotFound if retention has removed the job.

        Example:
            if (await job.refresh()).state is euterpe.State.RETRYING: ...
        """
        job = job_of(await self._source.get(self.id))
        self.state = job.state
        return job

    async def progress(self) -> Progress | None:
        """Return the progress that the handler reported last; None if it has reported none.

        Example:
            told = await job.progress()
            print(told.percent if told else 0)
        """
        return (await self.refresh()).progress

    async def cancel(self, *, force: bool = False) -> State:
        """Cancel the job and return its new state. A waiting job is cancelled at once. A running handler is asked to
        stop; `force=True` takes the job away from it. Raises IllegalTransition if the job has already ended.

        Example:
            await job.cancel()
        """
        self.state = await self._source.cancel(self.id, force)
        return self.state

    async def retry(self) -> JobHandle[R]:
        """Run the ended job again. A failed job with attempts left keeps its id; any other becomes a new job. Returns
        the handle of the job that runs. Raises IllegalTransition if the job has not ended.

        Example:
            again = await job.retry()
        """
        return handle_of_row(self._source, await self._source.retry(self.id), self._returns)

    async def _wait(self, timeout: DurationLike | None) -> JobRow:
        deadline = None if timeout is None else time.monotonic() + parse_duration_us(timeout, "timeout") / 1e6
        pause = FIRST_POLL_S
        seen, seen_at = self.state, time.monotonic()
        with self._source.waiting_for(self.id) as ended:
            while True:
                try:
                    row = await self._source.get(self.id)
                    self.state = seen = row.state
                    seen_at = time.monotonic()
                except StoreUnavailable:
                    if self._source.loop is None or time.monotonic() - seen_at > OUTAGE_PATIENCE_S:
                        raise
                else:
                    if row.state in TERMINAL:
                        return row
                left = pause if deadline is None else min(pause, deadline - time.monotonic())
                if left <= 0:
                    raise TimeoutError(f"job {self.id} is still {seen} after {timeout}")
                pause = min(pause * 1.5, LONGEST_POLL_S)
                if await happens_within(left, ended):
                    ended.clear()


def handle_of_row(source: JobSource, row: JobRow, returns: Any) -> JobHandle[Any]:
    created_at = rfc3339(row.created_at) or ""
    return JobHandle(source, row.id, row.type, row.state, created_at, replayed=False, returns=returns)


def decode_result(row: JobRow, returns: Any = Any) -> Any:  # `returns` is an annotation, and decides
    if row.result is None:
        return None
    try:
        value = msgspec.json.decode(row.result)
    except msgspec.DecodeError:
        raise UnprocessableRow(row.id, "result") from None
    try:
        return converted(value, returns)
    except (msgspec.ValidationError, TypeError):
        return value  # A return hint that JSON does not round-trip: the plain value serves better than an error.
