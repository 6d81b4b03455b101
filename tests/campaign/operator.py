"""An operator with a heavy hand: cancels, retries, buries, replays, pauses and changes jobs while they run."""

from __future__ import annotations

import asyncio
import random
from typing import Any, Final

import euterpe
from euterpe.model.errors import EuterpeError
from euterpe.model.state import State
from tests.campaign.parts import opened
from tests.campaign.plan import ATTIC
from tests.faults.crew import Line

PAUSE_S: Final = 0.3
ENDED: Final = (State.FAILED, State.DEAD_LETTER, State.COMPLETED, State.CANCELLED)
PAUSES: Final = ({"queue": "default"}, {"type": "leaf"}, {"type": "work"})


async def operator(line: Line, url: str, transport: str | None, seed: int) -> None:
    rng = random.Random(f"operator {seed}")
    async with opened(euterpe.Queue(url, transport=transport)) as queue:
        acts = (_cancel, _cancel, _retry, _retry, _dead_letter, _replay, _pause, _update)
        while not line.ordered():
            await asyncio.sleep(PAUSE_S)
            try:
                await rng.choice(acts)(queue, line, rng)
            except EuterpeError:
                continue  # the move is not for this job, or the database is away, by plan
        await _resume(queue)
    line.report("done")


async def _cancel(queue: euterpe.Queue, line: Line, rng: random.Random) -> None:
    job = await _any(queue, rng)
    if job is not None and await queue.cancel(job.id, force=rng.random() < 0.4) is State.CANCELLED:
        line.note("cancelled", job_id=job.id)


async def _retry(queue: euterpe.Queue, line: Line, rng: random.Random) -> None:
    """A failed job with budget left runs again as itself, another one as a new job."""
    job = await _any(queue, rng, State.FAILED)
    if job is not None:
        await _run_again(queue, line, job.id)


async def _replay(queue: euterpe.Queue, line: Line, rng: random.Random) -> None:
    job = await _any(queue, rng, rng.choice(ENDED))
    if job is not None:
        await _run_again(queue, line, job.id)


async def _run_again(queue: euterpe.Queue, line: Line, job_id: str) -> None:
    again = await queue.retry(job_id)
    line.note("retried" if again.id == job_id else "submitted", job_id=again.id)


async def _dead_letter(queue: euterpe.Queue, line: Line, rng: random.Random) -> None:
    job = await _any(queue, rng, State.FAILED)
    if job is not None and rng.random() < 0.3 and await queue.dead_letter(job.id) is State.DEAD_LETTER:
        line.note("buried", job_id=job.id)


async def _update(queue: euterpe.Queue, _line: Line, rng: random.Random) -> None:
    job = await _any(queue, rng)
    if job is not None:
        await queue.update(job.id, priority=rng.randrange(5), tags={"by": "operator"})


async def _pause(queue: euterpe.Queue, line: Line, rng: random.Random) -> None:
    paused = rng.choice(PAUSES)
    line.note("paused", **paused)
    try:
        await queue.pause(**paused)
        await asyncio.sleep(rng.uniform(0.1, 1.0))
    finally:
        await _resume(queue)


async def _resume(queue: euterpe.Queue) -> None:
    """Whatever is broken now: a queue that stays paused never drains."""
    for paused in PAUSES:
        while True:
            try:
                await queue.resume(**paused)
                break
            except EuterpeError:
                await asyncio.sleep(0.1)


async def _any(queue: euterpe.Queue, rng: random.Random, state: State | None = None) -> Any:
    page = await queue.search(limit=50, state=state)
    jobs = [job for job in page.jobs if job.queue != ATTIC]
    return rng.choice(jobs) if jobs else None
