"""A process that submits what lists have a place for, and notes what was acknowledged and when."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import euterpe
from tests.campaign.parts import insist, opened
from tests.campaign.plan import submission
from tests.faults.crew import Line

KEPT = ("priority", "max_attempts", "delay", "idempotency_key")


async def submitter(line: Line, url: str, seed: int, numbers: list[int], pause_s: float) -> None:
    """One whose answer was lost is asked for again under its key."""
    async with opened(euterpe.Queue(url)) as queue:
        for number in numbers:
            planned = submission(seed, number, "")
            options: dict[str, Any] = {name: planned["options"][name] for name in KEPT}
            job_id = await insist(queue, planned["payload"], options)
            line.note("submitted", job_id=job_id, number=number, at=time.time())
            await asyncio.sleep(pause_s)
    line.report("done")
    await line.order()
