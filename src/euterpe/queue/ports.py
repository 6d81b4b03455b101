"""What the small things of this room (handles, job types, workflows, crons, the sync face) ask of their queue."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from euterpe.model.batch import Draft
from euterpe.model.job import Job
from euterpe.model.submission import Submission


class Home(Protocol):
    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """Where the queue is open, if it is."""
        ...

    async def get(self, job_id: str) -> Job: ...

    async def submit_call(self, call: Any, connection: Any, options: Mapping[str, Any]) -> Any: ...

    def watching(self, job_id: str) -> AbstractContextManager[asyncio.Event]: ...

    def call_of(self, what: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...

    def make_submission(self, what: Any, payload: Any = None, /, **options: Any) -> Submission: ...

    async def store_drafts(self, drafts: Sequence[Draft], key: str | None, connection: Any) -> list[Any]: ...
