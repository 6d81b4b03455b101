"""A worker inside the test's own loop, for what needs no second process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from euterpe.queue.queue import Queue, submitter_of
from euterpe.queue.worker import ServiceOptions, Worker

AT_ONCE = {"strategy": "constant", "initial": "10ms", "jitter": 0}


async def work_on(queue: Queue, concurrency: int = 100, **settings: Any) -> None:
    """`queue.work(...)`, with what only a role of the service says."""
    service = {name: settings.pop(name) for name in ServiceOptions.__struct_fields__ if name in settings}
    options: Any = settings
    await Worker(submitter_of(queue), concurrency, options, ServiceOptions(**service)).run()


@asynccontextmanager
async def working(queue: Queue, **settings: Any) -> AsyncIterator[asyncio.Event]:
    """Work until the block ends, then drain; the event stops it earlier. Leases are kept on this loop."""
    stop = asyncio.Event()
    worker = asyncio.create_task(work_on(queue, stop=stop, **{"keeper": False, "grace": "10s", **settings}))
    try:
        async with queue:
            yield stop
    finally:
        stop.set()
        await worker
