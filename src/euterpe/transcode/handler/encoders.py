"""The encoders of one process: how many encode at the same time, and whose turn it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from euterpe.stores.sql.engine import Engine
from euterpe.stores.sql.program import Program, one
from euterpe.transcode.schema.request import JOB_TYPE
from euterpe.worker.context import Context
from euterpe.worker.failures import GivenBack

AHEAD: Final = 1
"""How many jobs a worker claims beyond its encoders: their sources are fetched while others encode."""
MOST_TURNS_GIVEN: Final = 5
"""How often one job makes room for a more urgent one: its source is fetched again each time."""


class Encoders:
    """With a database, an encoder that falls free goes to the most urgent job of all, not only of those here."""

    def __init__(self, count: int, database: Engine | None = None) -> None:
        self.count = count
        self._free = asyncio.Semaphore(count)
        self._database = database

    @property
    def worker_limit(self) -> int:
        """How many transcodes one worker may have under way."""
        return self.count + AHEAD

    @asynccontextmanager
    async def turn(self, ctx: Context) -> AsyncIterator[None]:
        """One encoder. The time until it is free does not count against the attempt's timeout. Raises GivenBack when a
        more urgent job came meanwhile: this one goes back to the queue, and its place here is the other's."""
        has_to_wait = self._free.locked()
        if has_to_wait:
            async with ctx.clock_stopped():
                await self._free.acquire()
        else:
            await self._free.acquire()
        try:
            if has_to_wait and await self._more_urgent_waits(ctx):
                raise GivenBack("a more urgent transcode goes first")
            yield
        finally:
            self._free.release()

    async def _more_urgent_waits(self, ctx: Context) -> bool:
        if self._database is None or ctx.priority == 0:
            return False
        return await self._database.read(lambda: _more_urgent(ctx))


def _more_urgent(ctx: Context) -> Program[bool]:
    rows = yield one(
        "transcode/more_urgent",
        queue=ctx.queue,
        type=JOB_TYPE,
        priority=ctx.priority,
        job_id=ctx.job_id,
        most=MOST_TURNS_GIVEN,
    )
    return bool(rows)
