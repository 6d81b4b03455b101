"""Processes that ask: they submit and cancel, and note what was acknowledged."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import euterpe
from euterpe.model.errors import EuterpeError, IllegalTransition, UnknownDependency
from tests.campaign.plan import submission
from tests.faults.crew import Line


async def submitter(
    line: Line,
    url: str,
    token: str | None,
    seed: int,
    numbers: list[int],
    callback_url: str,
    pause_s: float,
    done: list[str],
) -> None:
    """Submits its numbers in order; one whose answer was lost is asked for again under its key."""
    acknowledged = list(done)
    async with _opened(euterpe.Queue(url, token=token)) as queue:
        for number in numbers[len(done) :]:
            planned = submission(seed, number, callback_url)
            options = {name: value for name, value in planned["options"].items() if value is not None}
            options["depends_on"] = [acknowledged[-back] for back in planned["after"] if back <= len(acknowledged)]
            if not options["depends_on"]:
                del options["dependency"]
            job_id = await _insist(queue, planned["payload"], options)
            line.note("submitted", job_id=job_id, number=number)
            acknowledged.append(job_id)
            await asyncio.sleep(pause_s)
    line.report("done")
    await line.order()


@asynccontextmanager
async def _opened(queue: euterpe.Queue) -> AsyncIterator[euterpe.Queue]:
    """A process may start while the database is away: then it tries again, as its supervisor would."""
    while True:
        try:
            await queue.__aenter__()
            break
        except EuterpeError:
            await asyncio.sleep(0.2)
    try:
        yield queue
    finally:
        await queue.__aexit__(None, None, None)


async def _insist(queue: euterpe.Queue, payload: dict[str, Any], options: dict[str, Any]) -> str:
    while True:
        try:
            handle = await queue.submit("work", payload, **options)
            return handle.id
        except UnknownDependency:
            raise
        except EuterpeError:
            await asyncio.sleep(0.1)


async def operator(line: Line, url: str, seed: int) -> None:
    """Cancels a job now and then, gently or by force."""
    rng = random.Random(seed)
    async with _opened(euterpe.Queue(url)) as queue:
        while not line.ordered():
            await asyncio.sleep(0.4)
            try:
                page = await queue.search(limit=50)
                if not page.jobs:
                    continue
                job = rng.choice(page.jobs)
                if str(await queue.cancel(job.id, force=rng.random() < 0.3)) == "cancelled":
                    line.note("cancelled", job_id=job.id)
            except (IllegalTransition, EuterpeError):
                continue
