"""Idle connections, each kept for a few seconds under the exact address and name that it was opened for.

The key holds the checked address, so a name that now resolves elsewhere cannot be served by an old
connection; and it holds the name, so a certificate that was checked for one name never vouches for another.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Final, NamedTuple

from euterpe.egress.http1 import Connection

_CLOSE_GRACE_S: Final = 1.0


class PoolKey(NamedTuple):
    """What a connection was opened for."""

    address: str
    port: int
    is_tls: bool
    host: str


class IdlePool:
    """Last in, first out per route. When it is full, a connection that comes back is closed."""

    def __init__(self, *, idle_s: float, max_idle: int) -> None:
        self._idle_s = idle_s
        self._max_idle = max_idle
        self._idle: dict[PoolKey, deque[tuple[float, Connection]]] = {}
        self._count = 0
        self._sweep: asyncio.TimerHandle | None = None

    def take(self, route: PoolKey) -> Connection | None:
        waiting = self._idle.get(route)
        oldest_allowed = time.monotonic() - self._idle_s
        while waiting:
            since, connection = waiting.pop()
            self._count -= 1
            if not waiting:
                del self._idle[route]
            if connection.is_open and since >= oldest_allowed:
                return connection
            connection.abort()
        return None

    def give(self, route: PoolKey, connection: Connection) -> None:
        if self._count >= self._max_idle:
            connection.abort()
            return
        self._idle.setdefault(route, deque()).append((time.monotonic(), connection))
        self._count += 1
        if self._sweep is None:
            self._sweep = asyncio.get_running_loop().call_later(self._idle_s, self._drop_old)

    async def close(self) -> None:
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        connections = [connection for waiting in self._idle.values() for _, connection in waiting]
        self._idle.clear()
        self._count = 0
        for connection in connections:
            connection.abort()
        if connections:
            await asyncio.wait([connection.closed for connection in connections], timeout=_CLOSE_GRACE_S)

    def __len__(self) -> int:
        return self._count

    def _drop_old(self) -> None:
        oldest_allowed = time.monotonic() - self._idle_s
        for route in list(self._idle):
            waiting = self._idle[route]
            while waiting and (waiting[0][0] < oldest_allowed or not waiting[0][1].is_open):
                waiting.popleft()[1].abort()
                self._count -= 1
            if not waiting:
                del self._idle[route]
        self._sweep = None
        if self._idle:
            self._sweep = asyncio.get_running_loop().call_later(self._idle_s, self._drop_old)
