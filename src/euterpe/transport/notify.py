"""LISTEN/NOTIFY between processes on one Postgres.

NOTIFY takes a lock over the whole server at commit, so it is never sent inside a hot transaction: announcements
are gathered for a moment and sent by the listening connection on its own. A listener can die without a word;
a pulse finds out, and everyone polls anyway.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import random
from collections.abc import Awaitable, Callable, Collection, Iterable
from contextlib import suppress
from typing import Any, Final

from euterpe.transport.local import LocalWakeups

log = logging.getLogger("euterpe.transport")

GATHER_S: Final = 0.002
PULSE_S: Final = 15.0
PATIENCE_S: Final = 5.0
FAREWELL_S: Final = 2.0
CHANNEL_LIMIT: Final = 63
NOTIFY: Final = "SELECT pg_notify($1, q) FROM unnest($2::text[]) AS q"


class NotifyWakeups:
    """Local callbacks at once; other processes through Postgres. One task owns the connection and does everything on
    it, because a connection carries one statement at a time."""

    def __init__(self, connect: Callable[[], Awaitable[Any]], channel: str) -> None:
        self._connect = connect
        self.channel = channel_name(channel)
        self._local = LocalWakeups()
        self._pending: set[str] = set()
        self._attention = asyncio.Event()
        self._connected = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._connecting: asyncio.Future[Any] | None = None
        self._connection: Any = None

    async def open(self) -> None:
        if self._task is None:
            self._attention, self._connected = asyncio.Event(), asyncio.Event()  # of this loop
            self._task = asyncio.get_running_loop().create_task(self._keep_connected())

    async def close(self) -> None:
        """Sends what still waits: a script that submits and ends must be heard too."""
        task, self._task = self._task, None
        if task is None:
            return
        if self._pending:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._connected.wait(), FAREWELL_S)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await self._hang_up_what_is_dialling()
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):  # a hint that was not sent costs a poll interval
                await asyncio.wait_for(self._send(connection), FAREWELL_S)
            connection.terminate()

    def announce(self, queues: Iterable[str]) -> None:
        named = set(queues)
        self._local.announce(named)
        self._pending |= named
        self._attention.set()

    def subscribe(self, wake: Callable[[], None], queues: Collection[str]) -> Callable[[], None]:
        return self._local.subscribe(wake, queues)

    async def _keep_connected(self) -> None:
        while True:
            try:
                await self._listen_and_send()
            except Exception as error:  # any way a listener can die ends in listening again
                log.info("the listener is reconnecting", exc_info=error)
            self._connected.clear()
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.terminate()
            await asyncio.sleep(random.uniform(0.2, 1.0))

    async def _listen_and_send(self) -> None:
        """Until the connection dies."""
        # Shielded: a driver that is cut off while it connects leaves an error that nobody can catch.
        self._connecting = asyncio.ensure_future(self._connect())
        self._connection = connection = await asyncio.shield(self._connecting)
        self._connecting = None
        connection.add_termination_listener(self._hung_up)
        await connection.add_listener(self.channel, self._heard)
        self._connected.set()
        self._local.announce_any()  # Whatever was said while nobody listened.
        while not connection.is_closed():
            # Not wait_for: in Python 3.11 it swallows a cancel that meets the end of what it waits for, and `close`
            # would wait for ever.
            try:
                async with asyncio.timeout(PULSE_S):
                    await self._attention.wait()
            except TimeoutError:
                async with asyncio.timeout(PATIENCE_S):
                    await connection.fetchval("SELECT 1")
                continue
            self._attention.clear()
            if self._pending and not connection.is_closed():
                async with asyncio.timeout(PATIENCE_S):
                    await self._send(connection)
                await asyncio.sleep(GATHER_S)

    async def _hang_up_what_is_dialling(self) -> None:
        connecting, self._connecting = self._connecting, None
        if connecting is not None:
            await asyncio.wait({connecting}, timeout=FAREWELL_S)
            if connecting.done() and not connecting.cancelled() and connecting.exception() is None:
                connecting.result().terminate()

    async def _send(self, connection: Any) -> None:
        queues, self._pending = sorted(self._pending), set()
        if queues:
            try:
                await connection.execute(NOTIFY, self.channel, queues)
            except BaseException:
                self._pending |= set(queues)
                raise

    def _heard(self, connection: Any, pid: int, _channel: str, payload: str) -> None:
        if pid != connection.get_server_pid():  # Our own were told at once.
            self._local.announce([payload])

    def _hung_up(self, _connection: Any) -> None:
        self._attention.set()


def channel_name(wanted: str) -> str:
    """Postgres takes 63 characters."""
    if len(wanted) <= CHANNEL_LIMIT:
        return wanted
    return f"{wanted[:40]}_{hashlib.sha256(wanted.encode()).hexdigest()[:16]}"
