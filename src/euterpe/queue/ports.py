"""What handles, job types, workflows and crons ask of their queue."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from euterpe.model.job import JobRow
from euterpe.model.state import State
from euterpe.model.submitting.batch import Draft
from euterpe.model.submitting.submission import Submission


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


class SubmitsCalls(Protocol):
    """Stores one call of a job type: what `render.submit(...)` and a cron's tick come down to."""

    async def submit_call(self, call: Any, connection: Any, options: Mapping[str, Any]) -> Any: ...


class StoresDrafts(Protocol):
    """Stores the jobs of a workflow, all or none."""

    def call_of(self, what: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...

    def make_submission(self, what: Any, payload: Any = None, /, **options: Any) -> Submission: ...

    async def store_drafts(self, drafts: Sequence[Draft], key: str | None, connection: Any) -> list[Any]: ...
