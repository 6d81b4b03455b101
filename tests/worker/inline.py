"""A worker inside the test's own loop, for what needs no second process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from euterpe.queue.queue import Queue

AT_ONCE = {"strategy": "constant", "initial": "10ms", "jitter": 0}


@asynccontextmanager
async def working(queue: Queue, **settings: Any) -> AsyncIterator[asyncio.Event]:
    """Work until the block ends, then drain; the event stops it earlier. Leases are kept on this loop."""
    stop = asyncio.Event()
    worker = asyncio.create_task(queue.work(stop=stop, **{"keeper": False, "grace": "10s", **settings}))
    try:
        async with queue:
            yield stop
    finally:
        stop.set()
        await worker
