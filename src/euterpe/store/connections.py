"""Connections that stay at hand between two uses.

asyncpg's pool gives a connection back by way of a task, a turn of the loop and a reset: more than a small statement
costs. Here it only opens connections, and forgets those that broke.
"""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg


class Connections:
    """At most `size` of them, the oldest first: what two can do is done by two, whose caches stay warm, on both sides.
    Made inside a running event loop."""

    def __init__(self, pool: asyncpg.Pool[asyncpg.Record], size: int) -> None:
        self._pool = pool
        self._size = size
        self._free = asyncio.Semaphore(size)
        self._by_age: list[Any] = []
        self._idle: set[Any] = set()

    async def acquire(self) -> Any:
        await self._free.acquire()
        try:
            return self._take() or await self._open()
        except BaseException:
            self._free.release()
            raise

    def release(self, connection: Any) -> None:
        """A connection that broke is none of ours any more: the pool has let go of it. One that was left inside a
        transaction, by two cancels in a row, would take the next statement into it."""
        if not is_gone(connection) and connection.is_in_transaction():
            connection.terminate()
        if is_gone(connection):
            self._by_age.remove(connection)
        else:
            self._idle.add(connection)
        self._free.release()

    def _take(self) -> Any | None:
        for connection in tuple(self._by_age):
            if connection in self._idle:
                self._idle.discard(connection)
                if not is_gone(connection):
                    return connection
                self._by_age.remove(connection)
        return None

    async def _open(self) -> Any:
        connection = await self._pool.acquire()
        self._by_age.append(connection)
        return connection

    async def close(self) -> None:
        """Waits for those in use."""
        for _ in range(self._size):
            await self._free.acquire()
        for connection in self._idle:
            await self._pool.release(connection)
        await self._pool.close()

    def terminate(self) -> None:
        self._pool.terminate()


def is_gone(connection: Any) -> bool:
    """A connection that broke has been taken away by the pool, and then any question to it is an error."""
    try:
        return bool(connection.is_closed())
    except asyncpg.InterfaceError:
        return True
