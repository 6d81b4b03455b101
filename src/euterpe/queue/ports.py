"""What handles, job types, workflows and crons ask of their queue."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from euterpe.model.job import JobRow
from euterpe.model.state import State
from euterpe.model.submitting.batch import Draft
from euterpe.model.submitting.submission import Submission

if TYPE_CHECKING:  # They ask for these ports.
    from euterpe.queue.definition.job_type import Call
    from euterpe.queue.handle import JobHandle

R = TypeVar("R")


class JobSource(Protocol):
    """Where a handle finds its job."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """Where the queue is open, if it is."""
        ...

    async def get(self, job_id: str) -> JobRow: ...

    async def cancel(self, job_id: str, force: bool) -> State: ...

    async def retry(self, job_id: str) -> JobRow: ...

    def waiting_for(self, job_id: str) -> AbstractContextManager[asyncio.Event]: ...


class SubmitsTicks(Protocol):
    """Stores the call of a cron's tick. Nobody waits for its job."""

    async def submit_call(self, call: Call[Any], connection: object, options: Mapping[str, Any]) -> object: ...


class SubmitsCalls(Protocol):
    """Stores one call of a job type: what `render.submit(...)` comes down to."""

    async def submit_call(self, call: Call[R], connection: object, options: Mapping[str, Any]) -> JobHandle[R]: ...


class StoresDrafts(Protocol):
    """Stores the jobs of a workflow, all or none."""

    def call_of(
        self, what: object, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Call[Any] | str, object]: ...

    def make_submission(self, what: object, payload: object = None, /, **options: Any) -> Submission: ...

    async def store_drafts(
        self, drafts: Sequence[Draft], key: str | None, connection: object
    ) -> list[JobHandle[Any]]: ...
