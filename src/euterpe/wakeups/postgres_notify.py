"""LISTEN/NOTIFY between processes on one Postgres.

NOTIFY takes a lock over the whole server at commit, so it is never sent inside a hot transaction: announcements
are gathered for a moment and sent by the listening connection on its own. Only a submit after a quiet moment notifies
in its own commit, which spares a round trip. A listener can die without a word; a pulse finds out, and everyone polls
anyway.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import random
import time
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Any, Final

from euterpe.ports import CommitNotice
from euterpe.runtime.wait import happens_within
from euterpe.wakeups.local import LocalWakeups

log = logging.getLogger("euterpe.wakeups")

GATHER_S: Final = (0.002, 0.016)
"""How long to gather after a notification; longer, up to the second, while there is always more to tell."""
QUIET_S: Final = 0.02
"""After this long without an announcement a commit may notify by itself."""
PULSE_S: Final = 15.0
LISTEN_TIMEOUT_S: Final = 5.0
FAREWELL_S: Final = 1.0
CHANNEL_LIMIT: Final = 63
NOTIFY: Final = "SELECT pg_notify($1, q) FROM unnest($2::text[]) AS q"


class NotifyWakeups:
    """Local callbacks at once; other processes through Postgres. One task owns the connection and does everything on
    it, because a connection carries one statement at a time."""

    def __init__(
        self, connect: Callable[[], Awaitable[Any]], channel: str, can_listen: Callable[[], bool] = lambda: True
    ) -> None:
        """`can_listen` is asked once connected: behind a transaction pooler one can tell others and hears nothing."""
        self._connect = connect
        self._can_listen = can_listen
        self.channel = channel_name(channel)
        self._local = LocalWakeups()
        self._pending: set[str] = set()
        self._notified_at = 0.0
        self._pid: int | None = None
        self._attention = asyncio.Event()
        self._leaving = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        if self._task is None:
            self._attention, self._leaving = asyncio.Event(), asyncio.Event()  # of this loop
            self._task = asyncio.get_running_loop().create_task(self._keep_connected())

    async def close(self) -> None:
        """Sends what still waits: a script that submits and ends must be heard too.

        The task is asked to end and not cancelled: a driver that is cut off in the middle of a statement, or while it
        connects, leaves an error behind that nobody can catch."""
        task, self._task = self._task, None
        if task is None:
            return
        self._leaving.set()
        self._attention.set()
        try:
            await asyncio.wait({task}, timeout=FAREWELL_S)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def notify_before_commit(self, queue: str) -> CommitNotice:
        quiet = time.monotonic() - self._notified_at > QUIET_S
        if not quiet or self._local.has_listeners(queue):
            return CommitNotice(self.announce)  # Who listens here would hear of it twice.
        self._notified_at = time.monotonic()
        return CommitNotice(self._local.announce, self.channel)

    def announce(self, queues: Iterable[str]) -> None:
        named = set(queues)
        self._notified_at = time.monotonic()
        self._local.announce(named)
        self._pending |= named
        self._attention.set()

    def subscribe(self, wake: Callable[[], None], queues: Collection[str]) -> Callable[[], None]:
        return self._local.subscribe(wake, queues)

    async def _keep_connected(self) -> None:
        while self._pending or not self._leaving.is_set():
            try:
                await self._listen_and_send()
            except Exception as error:  # noqa: BLE001  # any way a listener can die ends in listening again
                log.info("the listener is reconnecting", extra={"error_code": type(error).__name__})
            if await happens_within(random.uniform(0.2, 1.0), self._leaving):
                return  # What could not be sent costs a poll interval.

    async def _listen_and_send(self) -> None:
        """Until the connection dies or we leave."""
        connection = await self._connect()
        try:
            if not self._leaving.is_set() and self._can_listen():
                self._pid = connection.get_server_pid()
                connection.add_termination_listener(self._hung_up)
                await connection.add_listener(self.channel, self._on_notify)
                self._local.announce_any()  # Whatever was said while nobody listened.
            await self._notify_and_listen(connection)
        finally:
            connection.terminate()

    async def _notify_and_listen(self, connection: Any) -> None:
        shortest_s, longest_s = GATHER_S
        gather_s = shortest_s
        while not connection.is_closed():
            if self._pending:
                async with asyncio.timeout(LISTEN_TIMEOUT_S):
                    await self._send(connection)
                if not self._leaving.is_set():
                    await asyncio.sleep(gather_s)
                    gather_s = min(2 * gather_s, longest_s) if self._pending else shortest_s
            elif self._leaving.is_set():
                return
            elif await happens_within(PULSE_S, self._attention):
                self._attention.clear()
            else:
                async with asyncio.timeout(LISTEN_TIMEOUT_S):
                    await connection.fetchval("SELECT 1")

    async def _send(self, connection: Any) -> None:
        queues, self._pending = sorted(self._pending), set()
        if queues:
            try:
                await connection.execute(NOTIFY, self.channel, queues)
            except BaseException:
                self._pending |= set(queues)
                raise

    def _on_notify(self, _connection: Any, pid: int, _channel: str, payload: str) -> None:
        if pid != self._pid:  # Our own were told at once.
            self._local.announce([payload])

    def _hung_up(self, _connection: Any) -> None:
        self._attention.set()


def channel_name(wanted: str) -> str:
    """Postgres takes 63 characters."""
    if len(wanted) <= CHANNEL_LIMIT:
        return wanted
    return f"{wanted[:40]}_{hashlib.sha256(wanted.encode()).hexdigest()[:16]}"
