"""A job that was submitted: its id, and a way to wait for what comes of it."""

from __future__ import annotations

import time
from typing import Any, Generic, TypeVar

import msgspec

from euterpe.model.duration import DurationLike, parse_duration_us
from euterpe.model.errors import JobFailed, StoreUnavailable, UnprocessableRow
from euterpe.model.job import Job
from euterpe.model.state import TERMINAL, State
from euterpe.queue.ports import Home
from euterpe.runtime.wait import happens_within

R = TypeVar("R")

FIRST_LOOK_S = 0.01
LAST_LOOK_S = 0.5
PATIENCE_S = 30.0
"""How long a database may be away before waiting for a job is given up."""


class JobHandle(Generic[R]):
    """What `submit` returns. `replayed` tells that an idempotency key found an earlier job."""

    __slots__ = ("_queue", "_returns", "created_at", "id", "replayed", "state", "type")

    def __init__(
        self,
        queue: Home,
        job_id: str,
        job_type: str,
        state: str,
        created_at: str,
        *,
        replayed: bool,
        returns: Any = Any,
    ) -> None:
        self._queue = queue
        self._returns = returns
        self.id = job_id
        self.type = job_type
        self.state = State(state)
        """The state at submission; `await queue.get(job.id)` tells the present one."""
        self.created_at = created_at
        self.replayed = replayed

    def __repr__(self) -> str:
        return f"<job {self.id} {self.type}>"

    async def result(self, timeout: DurationLike | None = None) -> R:  # the promised name
        """What the handler returned. JobFailed when the job ended otherwise, TimeoutError when it did not end yet."""
        job = await self.wait(timeout)
        if job.state is not State.COMPLETED:
            raise JobFailed(job.id, job.state, job.error_document)
        value: R = decode_result(job, self._returns)
        return value

    async def wait(self, timeout: DurationLike | None = None) -> Job:  # the promised name
        """The job when it has ended, however it ended."""
        deadline = None if timeout is None else time.monotonic() + parse_duration_us(timeout, "timeout") / 1e6
        pause = FIRST_LOOK_S
        seen, seen_at = self.state, time.monotonic()
        with self._queue.watching(self.id) as ended:
            while True:
                try:
                    job = await self._queue.get(self.id)
                    seen, seen_at = job.state, time.monotonic()
                except StoreUnavailable:
                    if self._queue.loop is None or time.monotonic() - seen_at > PATIENCE_S:
                        raise
                else:
                    if job.state in TERMINAL:
                        return job
                left = pause if deadline is None else min(pause, deadline - time.monotonic())
                if left <= 0:
                    raise TimeoutError(f"job {self.id} is still {seen} after {timeout}")
                pause = min(pause * 1.5, LAST_LOOK_S)
                if await happens_within(left, ended):
                    ended.clear()


def decode_result(job: Job, returns: Any = Any) -> Any:
    if job.result is None:
        return None
    try:
        value = msgspec.json.decode(job.result)
    except msgspec.DecodeError:
        raise UnprocessableRow(job.id, "result") from None
    try:
        return msgspec.convert(value, returns)
    except (msgspec.ValidationError, TypeError):
        return value  # A return hint that JSON does not round-trip: the plain value serves better than an error.
