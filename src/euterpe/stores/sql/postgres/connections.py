"""Connections that stay at hand between two uses.

asyncpg's pool gives a connection back by way of a task, a turn of the loop and a reset: more than a small statement
costs. Here giving back costs nothing, because only a connection whose last statement was answered is given back. One
whose user was cut off is first asked what it is doing, and is rolled back, or is closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeAlias

import asyncpg

from euterpe.model.errors import EuterpeError
from euterpe.stores.sql.postgres.errors import FAILURES, cannot_connect

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
Connect: TypeAlias = Callable[[], Awaitable[Connection]]

RECOVERY_S: Final = 1.0
"""A statement that was cut off is cancelled on the server, and a ROLLBACK takes no time: who does not answer in this
long is closed."""
LONG_S: Final = 2.0
"""A use of a connection that takes longer may wait for a lock."""
FAREWELL_S: Final = 1.0
"""How long a server may take to close its side."""


class Connections:
    """At most `size` of them, the oldest first: what two can do is done by two, whose caches stay warm, on both sides.
    Made inside a running event loop."""

    def __init__(self, connect: Connect, size: int, look_at: Callable[[Connection], Awaitable[None]]) -> None:
        """`look_at` is asked once about each use of a connection that lasts for LONG_S."""
        self._connect = connect
        self._size = size
        self._loop = asyncio.get_running_loop()
        self._free = asyncio.Semaphore(size)
        self._by_age: list[Connection] = []
        self._idle: set[Connection] = set()
        self._tasks: set[asyncio.Task[Connection] | asyncio.Task[None]] = set()
        self._is_closed = False
        self._look_at = look_at
        self._used_since: dict[Connection, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def is_one_at_hand(self) -> bool:
        """Whether `acquire` would not wait, neither for another user nor for the server."""
        for connection in self._idle:
            if not connection.is_closed():
                return not self._free.locked()
        return False

    async def acquire(self) -> Connection:
        await self._free.acquire()
        connection = self._take() or await self._open()
        self._used_since[connection] = self._loop.time()
        if self._timer is None:
            self._timer = self._loop.call_later(LONG_S, self._look)
        return connection

    def _look(self) -> None:
        """One timer for all connections: a timer for each use would cost more."""
        late = self._loop.time() - LONG_S
        for connection, since in tuple(self._used_since.items()):
            if since <= late:
                del self._used_since[connection]
                task = self._loop.create_task(_quietly(self._look_at(connection)))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        self._timer = self._loop.call_later(LONG_S / 2, self._look) if self._used_since else None

    def release(self, connection: Connection) -> None:
        """Every statement of the caller was answered, and no transaction is open."""
        self._used_since.pop(connection, None)
        if not connection.is_closed() and (self._is_closed or connection.is_in_transaction()):
            connection.terminate()
        if connection.is_closed():
            self._by_age.remove(connection)
        else:
            self._idle.add(connection)
        self._free.release()

    def recover(self, connection: Connection) -> None:
        """The caller was cut off: the server may be at its statement, or about to begin a transaction that the driver
        knows nothing of yet. The caller does not wait; the connection is used again when its state is known."""
        if connection.is_closed() or self._is_closed:
            self.release(connection)
            return

        def done(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            if task.cancelled() or task.exception() is not None:
                connection.terminate()
            self.release(connection)

        task = self._loop.create_task(_make_idle(connection))
        self._tasks.add(task)
        task.add_done_callback(done)

    def _take(self) -> Connection | None:
        for connection in tuple(self._by_age):
            if connection in self._idle:
                self._idle.discard(connection)
                if not connection.is_closed():
                    return connection
                self._by_age.remove(connection)
        return None

    async def _open(self) -> Connection:
        """In a task of its own: a driver that is cut off while it connects may leave a connection to nobody. One that
        comes too late for its caller is there for the next."""
        opened: Connection | None = None
        wanted = True

        def done(task: asyncio.Task[Connection]) -> None:
            nonlocal opened
            self._tasks.discard(task)
            if task.cancelled() or task.exception() is not None:
                self._free.release()
                return
            opened = task.result()
            self._by_age.append(opened)
            if not wanted:
                self.release(opened)

        task = self._loop.create_task(_connected(self._connect))
        self._tasks.add(task)
        task.add_done_callback(done)
        try:
            return await asyncio.shield(task)
        except BaseException:
            wanted = False
            if opened is not None:
                self.release(opened)
            raise

    async def close(self) -> None:
        """Waits for those in use."""
        for _ in range(self._size):
            await self._free.acquire()
        self._is_closed = True
        async with asyncio.timeout(FAREWELL_S):
            await asyncio.gather(*(connection.close() for connection in self._idle))

    def terminate(self) -> None:
        """At once: those in use break. One that is about to be open is closed when it is."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        for connection in tuple(self._by_age):
            connection.terminate()


class BorrowedConnection:
    """`async with` for one use of a connection. A generator would cost a tenth of a small statement."""

    __slots__ = ("_connection", "_connections")
    _connection: Connection

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def __aenter__(self) -> Connection:
        try:
            self._connection = await self._connections.acquire()
        except FAILURES as error:
            raise cannot_connect(error) from error
        return self._connection

    async def __aexit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        try:
            if isinstance(error, Exception):
                await _roll_back(self._connection)
        except BaseException:
            self._connections.recover(self._connection)
            raise
        if error is None or isinstance(error, Exception):
            self._connections.release(self._connection)
        else:  # Cut off in the middle of anything: what the driver says of it no longer counts.
            self._connections.recover(self._connection)


async def _roll_back(connection: Connection) -> None:
    """End a transaction that is still open. Its last statement was answered, so the driver knows whether it is."""
    try:
        if not connection.is_closed() and connection.is_in_transaction():
            await connection.execute("ROLLBACK")
    except FAILURES:
        connection.terminate()


async def _quietly(look: Awaitable[None]) -> None:
    with suppress(*FAILURES, EuterpeError):
        await look


async def _connected(connect: Connect) -> Connection:
    return await connect()


async def _make_idle(connection: Connection) -> None:
    """The driver sends nothing before the statement that was cut off is over, and the answer to any other statement
    tells whether a transaction is open."""
    async with asyncio.timeout(RECOVERY_S):
        with suppress(asyncpg.InFailedSQLTransactionError):
            await connection.execute("SELECT 1")
        if connection.is_in_transaction():
            await connection.execute("ROLLBACK")
