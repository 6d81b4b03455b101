"""Processes that submit, and note what was acknowledged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import euterpe
from euterpe.model.errors import EuterpeError, UnknownDependency
from tests.campaign.plan import lot, submission
from tests.faults.crew import Line

OF_A_LOT = "of a lot"


async def submitter(
    line: Line,
    url: str,
    token: str | None,
    transport: str | None,
    seed: int,
    numbers: list[int],
    callback_url: str,
    pause_s: float,
    done: list[str],
) -> None:
    """Submits its numbers in order; one whose answer was lost is asked for again under its key."""
    acknowledged = list(done)
    async with opened(euterpe.Queue(url, token=token, transport=transport)) as queue:
        for number in numbers[len(done) :]:
            planned = submission(seed, number, callback_url)
            options = {name: value for name, value in planned["options"].items() if value is not None}
            options["depends_on"] = [acknowledged[-back] for back in planned["after"] if back <= len(acknowledged)]
            if not options["depends_on"]:
                del options["dependency"]
            job_id = await insist(queue, planned["payload"], options)
            line.note("submitted", job_id=job_id, number=number)
            acknowledged.append(job_id)
            if (planned_lot := lot(seed, number)) is not None:
                for job_id in await submit_lot(queue, **planned_lot):
                    line.note("submitted", job_id=job_id, number=OF_A_LOT)
            await asyncio.sleep(pause_s)
    line.report("done")
    await line.order()


@asynccontextmanager
async def opened(queue: euterpe.Queue) -> AsyncIterator[euterpe.Queue]:
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


async def insist(queue: euterpe.Queue, payload: dict[str, Any], options: dict[str, Any]) -> str:
    while True:
        try:
            handle = await queue.submit("work", payload, **options)
            return handle.id
        except UnknownDependency:
            raise
        except EuterpeError:
            await asyncio.sleep(0.1)


async def submit_lot(
    queue: euterpe.Queue, count: int, payload: dict[str, Any], options: dict[str, Any]
) -> Sequence[str]:
    """Once, acknowledged or not: they have no key by which to ask again."""
    try:
        return [job.id for job in await queue.submit_many([("work", payload)] * count, **options)]
    except EuterpeError:
        return ()  # the database is away, by plan
