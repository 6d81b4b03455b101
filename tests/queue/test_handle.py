"""Waiting for a job can be cancelled at any moment, also in the one in which the job ends."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from euterpe.model.job import JobRow
from euterpe.queue.handle import JobHandle
from euterpe.queue.queue import Queue, core_of


class Watched:
    """A queue whose job never ends, though its watch says that it has."""

    loop = None

    def __init__(self, job: JobRow) -> None:
        self._job = job
        self.ended = asyncio.Event()
        self.asked = asyncio.Event()

    async def get(self, _job_id: str) -> JobRow:
        self.asked.set()
        return self._job

    @contextmanager
    def waiting_for(self, _job_id: str) -> Iterator[asyncio.Event]:
        yield self.ended


@pytest.mark.parametrize("turns", range(5))
async def test_a_cancel_that_meets_the_end_of_the_job_is_not_swallowed(turns: int, sqlite_url: str) -> None:
    async with Queue(sqlite_url) as queue:
        submitted = await queue.submit("nobody.knows.it")
        watched: Any = Watched(await core_of(queue).get(submitted.id))
    handle: JobHandle[Any] = JobHandle(watched, submitted.id, "t", "scheduled", "", replayed=False)
    waiting = asyncio.get_running_loop().create_task(handle.wait())
    await watched.asked.wait()
    await asyncio.sleep(0)
    watched.ended.set()
    for _ in range(turns):
        await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait({waiting}, timeout=5)
    swallowed = not waiting.done()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not swallowed
