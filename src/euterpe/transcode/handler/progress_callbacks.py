"""Progress that a requester asked to be called back about, every so many seconds."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

import msgspec

from euterpe.model.errors import EuterpeError
from euterpe.stores.sql.engine import Engine
from euterpe.stores.sql.jobs.effects import insert_events
from euterpe.stores.sql.program import Program, one
from euterpe.stores.sql.rows import jobs_from
from euterpe.transcode.storage.ports import UploadAttempt

log = logging.getLogger("euterpe.transcode")


class ProgressCallbacks:
    """Those of one attempt: one event at a time, and none for an attempt that has lost its claim."""

    def __init__(
        self,
        engine: Engine,
        attempt: UploadAttempt,
        every_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine = engine
        self._attempt = attempt
        self._every_s = every_s
        self._clock = clock
        self._next = clock() + every_s
        self._writing: asyncio.Task[None] | None = None

    def moved(self, percent: float, message: str) -> None:
        now = self._clock()
        if now >= self._next and (self._writing is None or self._writing.done()):
            self._next = now + self._every_s
            self._writing = asyncio.create_task(self._write(percent, message))

    async def close(self) -> None:
        """What is being written is written before the attempt ends."""
        if self._writing is not None:
            await asyncio.wait({self._writing})

    async def _write(self, percent: float, message: str) -> None:
        try:
            await self._engine.write(lambda: progress_callback(self._attempt, percent, message))
        except EuterpeError as error:
            log.warning("progress was not called back", extra={"error_code": type(error).__name__})


def progress_callback(attempt: UploadAttempt, percent: float, message: str) -> Program[None]:
    rows = yield one(
        "transcode/note_progress",
        job_id=attempt.job_id,
        claim_version=attempt.claim_version,
        progress=percent,
        message=message,
    )
    ((now_us,),) = yield one("clock")
    yield from insert_events(msgspec.structs.replace(job, updated_at=now_us) for job in jobs_from(rows))
