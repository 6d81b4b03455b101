"""LISTEN/NOTIFY between processes on one Postgres.

NOTIFY takes a lock over the whole server at commit, so it is never sent inside a hot transaction: announcements
are gathered for a moment and sent by the listening connection on its own. A listener can die without a word;
a heartbeat finds out, and everyone polls anyway.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Any, Final

from euterpe.transport.local import LocalWakeups

log = logging.getLogger("euterpe.transport")

GATHER_S: Final = 0.002
PULSE_S: Final = 15.0
PULSE_PATIENCE_S: Final = 5.0


class NotifyWakeups:
    """Local callbacks at once; other processes through Postgres."""

    def __init__(self, connect: Callable[[], Awaitable[Any]], channel: str) -> None:
        self._connect = connect
        self._channel = channel
        self._local = LocalWakeups()
        self._pending: set[str] = set()
        self._sendable = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._connection: Any = None
        self._last_sent = 0.0

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._listen()), loop.create_task(self._send())]

    async def close(self) -> None:
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._connection is not None:
            self._connection.terminate()

    def announce(self, queues: Iterable[str]) -> None:
        named = set(queues)
        self._local.announce(named)
        self._pending |= named
        self._sendable.set()

    def subscribe(self, wake: Callable[[], None], queues: Collection[str]) -> Callable[[], None]:
        return self._local.subscribe(wake, queues)

    async def _listen(self) -> None:
        while True:
            try:
                self._connection = connection = await self._connect()
                await connection.add_listener(self._channel, self._heard)
                self._local.announce_any()  # Whatever was said while nobody listened.
                while True:
                    await asyncio.sleep(PULSE_S)
                    await asyncio.wait_for(connection.fetchval("SELECT 1"), PULSE_PATIENCE_S)
            except asyncio.CancelledError:
                raise
            except Exception as error:  # any way a listener can die ends in listening again
                log.info("the listener is reconnecting", exc_info=error)
                if self._connection is not None:
                    self._connection.terminate()
                    self._connection = None
                await asyncio.sleep(random.uniform(0.2, 2.0))

    def _heard(self, _connection: Any, _pid: int, _channel: str, payload: str) -> None:
        self._local.announce([payload])

    async def _send(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._sendable.wait()
            pause = self._last_sent + GATHER_S - loop.time()
            if pause > 0:
                await asyncio.sleep(pause)
            self._sendable.clear()
            queues, self._pending = sorted(self._pending), set()
            self._last_sent = loop.time()
            connection = self._connection
            if connection is None or not queues:
                continue
            try:
                await connection.execute("SELECT pg_notify($1, q) FROM unnest($2::text[]) AS q", self._channel, queues)
            except Exception as error:  # a hint that was not sent costs a poll interval
                log.debug("a wake-up was not sent", exc_info=error)
