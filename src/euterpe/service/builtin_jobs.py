"""Job types that Euterpe brings along, so that a system without an app of the user's has something to run."""

from __future__ import annotations

from typing import Any

from euterpe.queue.queue import Queue
from euterpe.worker.context import Context


def builtin_queue(url: str, *, payload_limit: int) -> Queue:
    """A queue that knows `euterpe.echo`: it gives its payload back. Jobs of other types are left to other workers."""
    queue = Queue(url, payload_limit=payload_limit)

    @queue.job("euterpe.echo")
    async def echo(_ctx: Context, /, **payload: Any) -> dict[str, Any]:
        return payload

    return queue
