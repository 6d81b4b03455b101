"""Postgres through asyncpg: READ COMMITTED, SKIP LOCKED, the database's clock.

Held connections, and a pool whose release costs no round trip. Deadlocks and serialization failures are run again;
a broken connection is told apart by whether the commit had been sent.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

import asyncpg

from euterpe.model.errors import (
    CommitUnknown,
    DatabaseLocked,
    EuterpeError,
    OpenedBeforeFork,
    SchemaMismatch,
    StoreUnavailable,
)
from euterpe.ports import Clock
from euterpe.stores.sql.engine import LockTimeout
from euterpe.stores.sql.migrations import APPLIED, JOBS_TABLE, LEDGER, LEDGER_TABLE, Migration, missing, no_rights
from euterpe.stores.sql.postgres import session as postgres_session
from euterpe.stores.sql.postgres.connections import BorrowedConnection, Connection, Connections
from euterpe.stores.sql.postgres.errors import (
    FAILURES,
    LOCK_TIMEOUT,
    LOST,
    Conflict,
    cannot_connect,
    is_lost,
    is_useless,
    meaning,
    message,
)
from euterpe.stores.sql.postgres.lock_holders import lasting, lock_holders
from euterpe.stores.sql.postgres.session import plan_of, split_url
from euterpe.stores.sql.program import Each, MakeProgram, Program, Row, Statement
from euterpe.stores.sql.statements import Family, Text, numbered

T = TypeVar("T")
log = logging.getLogger("euterpe.store")

MIGRATION_LOCK: Final = 0x45757465
IS_THERE: Final = "SELECT to_regclass($1) IS NOT NULL"
TRIES: Final = 10
STATEMENTS_KEPT: Final = 100
CONNECT_TIMEOUT_S: Final = 10.0
ANSWER_TIMEOUT_S: Final = 30.0
"""A statement of ours takes milliseconds; who waits this long waits on a network that swallows packets."""
SHORTEST_TRY_S: Final = 0.1
TELL_AGAIN_S: Final = 30.0
"""A log line about the same holder of a lock comes no sooner again."""
TOLD_S: Final = 1.0
"""From the end of a wait for a lock until the server has told of it, on a busy machine."""


__all__ = ["PostgresEngine", "split_url"]


class PostgresEngine:
    """One database, optionally in a schema of its own (`?schema=name`)."""

    family: Family = "postgres"

    def __init__(self, url: str, clock: Clock | None = None) -> None:
        self.dsn, options = split_url(url)
        self.session = plan_of(options)
        self.schema = self.session.schema
        self.clock = clock
        self._connections: Connections | None = None
        self._opened_by = 0
        self._holders: WeakKeyDictionary[Connection, str] = WeakKeyDictionary()
        """Per connection: the session that its statement waits for."""
        self._told: dict[int, float] = {}

    async def open(self) -> None:
        if self._connections is not None:
            return
        connections = Connections(self._connect_to_work, self.session.pool_size, self._look_at_wait)
        try:
            connections.release(await connections.acquire())
        except BaseException as error:
            connections.terminate()
            if isinstance(error, FAILURES):
                raise cannot_connect(error) from error
            raise
        self._connections = connections
        self._opened_by = os.getpid()

    def can_listen(self) -> bool:
        """LISTEN belongs to a session; behind a pooler ours ends with each transaction."""
        return not self.session.through_pooler

    def expect_leases_of(self, seconds: float) -> None:
        self.session.expect_leases_of(seconds)

    async def close(self) -> None:
        connections, self._connections = self._connections, None
        if connections is not None:
            try:
                async with asyncio.timeout(5):
                    await connections.close()
            except LOST:
                pass
            finally:
                connections.terminate()

    async def connect(self) -> Connection:
        """A connection outside the pool, for a loop that holds it (LISTEN) or for what is done once."""
        return await self._connect_with()

    async def connect_to_notify(self) -> Connection:
        """One that writes nothing. A NOTIFY is a commit, and waits for the disk like any other, for nothing: what was
        told is forgotten in a crash anyway."""
        return await self._connect_with(synchronous_commit="off")

    async def _connect_with(self, **settings: str) -> Connection:
        try:
            return await self._dial(None, settings)
        except FAILURES as error:
            raise cannot_connect(error) from error

    async def _connect_to_work(self) -> Connection:
        return await self._dial(ANSWER_TIMEOUT_S, {})

    async def _dial(self, answer_timeout_s: float | None, settings: dict[str, str]) -> Connection:
        session = self.session
        try:
            return await asyncpg.connect(
                self.dsn,
                timeout=CONNECT_TIMEOUT_S,
                command_timeout=answer_timeout_s,
                # A statement that was prepared in one session is not there in the next.
                statement_cache_size=0 if session.through_pooler else STATEMENTS_KEPT,
                server_settings=session.startup if session.through_pooler else session.startup | settings,
            )
        except asyncpg.ProtocolViolationError as error:
            if session.through_pooler or "unsupported startup parameter" not in str(error):
                raise
        log.warning(
            "a pooler (PgBouncer) stands before Postgres: every statement goes in a transaction, and jobs of other "
            "processes are found by polling; `pooler=transaction` in the URL says so beforehand"
        )
        session.through_pooler = True
        return await self._dial(answer_timeout_s, settings)

    async def write(self, make: MakeProgram[T], *, patience_s: float = 0, is_small: bool = False) -> T:  # noqa: ARG002  # a server is never here
        return await self._persist(lambda: self._transaction(make), patience_s)

    async def write_one(self, make: MakeProgram[T], *, patience_s: float = 0, is_small: bool = False) -> T:  # noqa: ARG002  # a server is never here
        if self.session.through_pooler:
            return await self._persist(lambda: self._transaction(make), patience_s)
        first: Callable[[], Awaitable[T]] | None = None
        if patience_s and self._connections is not None and self._connections.is_one_at_hand():
            # The usual submit waits for nothing but its statement, and the driver has a timer for that.
            first = partial(self._single, make, patience_s)
        return await self._persist(partial(self._single, make), patience_s, first)

    async def read(self, make: MakeProgram[T], *, patience_s: float = 0) -> T:
        async def once() -> T:
            if self.session.through_pooler:
                return await self._transaction(make)
            async with self._acquired() as connection:
                try:
                    return await self.pump(connection, make())
                except FAILURES as error:
                    raise self._translated(connection, error) from error

        return await self._persist(once, patience_s)

    async def _transaction(self, make: MakeProgram[T]) -> T:
        async with self._acquired() as connection:
            committing = False
            try:
                await connection.execute(self.session.begin)
                answer = await self.pump(connection, make())
                committing = True
                await connection.execute("COMMIT")
                return answer
            except FAILURES as error:
                raise self._translated(connection, error, committing=committing) from error

    async def _single(self, make: MakeProgram[T], timeout_s: float | None = None) -> T:
        async with self._acquired() as connection:
            try:
                return await self.pump(connection, make(), timeout_s)
            except FAILURES as error:
                raise self._translated(connection, error, committing=True) from error

    def _translated(self, connection: Connection, error: BaseException, *, committing: bool = False) -> EuterpeError:
        """What the error means. A connection that is of no use is closed here: nothing that it says later may count."""
        if is_useless(error):
            connection.terminate()
        return meaning(error, committing=committing, holder=self._holders.pop(connection, ""))

    async def check_writable(self) -> None:
        """Asks the list of locks, and so waits for none."""
        holder = lasting(await self.read(lambda: lock_holders(self.schema)))
        if holder is not None:
            raise DatabaseLocked("Postgres: a table is locked", LOCK_TIMEOUT, str(holder))

    async def _look_at_wait(self, waiting: Connection) -> None:
        """A statement takes long: if it waits for a lock, say for whose, while the server still knows. On a connection
        of its own, because all others may wait likewise."""
        pid = None if self.session.through_pooler else waiting.get_server_pid()
        connection = await self._dial(CONNECT_TIMEOUT_S, {})
        try:
            async with self._begun(connection):
                holders = await self.pump(connection, lock_holders(self.schema, pid))
        finally:
            connection.terminate()
        if not holders:
            return
        self._holders[waiting] = str(holders[0])
        now = time.monotonic()
        if now - self._told.get(holders[0].pid, -TELL_AGAIN_S) >= TELL_AGAIN_S:
            self._told = {holders[0].pid: now}
            log.warning("a statement waits for a lock", extra={"blocked_by": str(holders[0])})

    def _acquired(self) -> BorrowedConnection:
        if self._connections is None:
            raise StoreUnavailable("the store is not open; use `async with queue:`")
        if self._opened_by != os.getpid():
            raise OpenedBeforeFork
        return BorrowedConnection(self._connections)

    async def _persist(
        self, run: Callable[[], Awaitable[T]], patience_s: float, first: Callable[[], Awaitable[T]] | None = None
    ) -> T:
        """Run again after a deadlock at once, and while the database is away until patience ends. `first` is the first
        try, where that ends by itself in time."""
        deadline = time.monotonic() + patience_s
        for attempt in itertools.count(1):
            try:
                if first is not None and attempt == 1:
                    return await first()
                return await (run() if not patience_s else _answered(run, deadline))
            except Conflict as conflict:
                if attempt >= TRIES:
                    raise conflict.verdict from conflict.__cause__
            except (CommitUnknown, SchemaMismatch):
                raise
            except StoreUnavailable as error:
                pause_s = min(0.05 * 2**attempt, 1.0)
                # A try that waits for the same lock again must be told about it before the time is over.
                needs_s = pause_s + postgres_session.LOCK_WAIT_S + TOLD_S if isinstance(error, LockTimeout) else 0
                if self._connections is None or time.monotonic() + needs_s >= deadline:
                    raise
                await asyncio.sleep(pause_s)
        raise AssertionError("unreachable")

    async def pump(self, connection: Any, program: Program[T], timeout_s: float | None = None) -> T:
        """Drive a program over an asyncpg connection, ours or a caller's. `timeout_s` is for each statement."""
        try:
            statement = next(program)
            while True:
                statement = program.send(await self.execute(connection, statement, timeout_s))
        except StopIteration as stop:
            answer: T = stop.value
            return answer

    async def execute(self, connection: Any, statement: Statement, timeout_s: float | None = None) -> list[Row]:
        rows: list[Row]
        text = numbered("postgres", statement.name, self.schema, "$")
        if not isinstance(statement, Each):
            rows = await connection.fetch(*self._bind(text, statement.params), timeout=timeout_s)
            return rows
        if text.batched:
            rows = await connection.fetch(*self._bind(text, statement.columns), timeout=timeout_s)
            return rows
        rows = []
        names = list(statement.columns)
        for values in zip(*statement.columns.values(), strict=True):
            bound = self._bind(text, dict(zip(names, values, strict=True)))
            rows += await connection.fetch(*bound, timeout=timeout_s)
        return rows

    def _bind(self, text: Text, params: Mapping[str, Any]) -> list[Any]:
        bound = [text.sql, *text.values(params)]
        if text.now_at is not None:
            bound.insert(1 + text.now_at, self.clock() if self.clock is not None else None)
        return bound

    async def migrate(self) -> list[str]:
        connection = await self.connect()
        try:
            # A look first: even CREATE ... IF NOT EXISTS needs the right to create, and most users shall not have it.
            async with self._begun(connection):
                todo = await _missing(connection)
            return await self._migrate_on(connection) if todo else []
        except (asyncpg.InsufficientPrivilegeError, asyncpg.ReadOnlySQLTransactionError) as error:
            raise no_rights("Postgres", message(error)) from error
        except FAILURES as error:
            raise (cannot_connect(error) if is_lost(error) else meaning(error)) from error
        finally:
            await connection.close()

    @asynccontextmanager
    async def _begun(self, connection: Connection) -> AsyncIterator[None]:
        """A transaction on a connection that is closed when anything fails."""
        await connection.execute(self.session.begin)
        yield
        await connection.execute("COMMIT")

    async def _migrate_on(self, connection: Connection) -> list[str]:
        async with self._begun(connection):
            await connection.execute("SET LOCAL lock_timeout = 0")  # Another process migrates as long as it takes.
            await connection.execute("SELECT pg_advisory_xact_lock($1)", MIGRATION_LOCK)
            if self.schema:
                await connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{self.schema}"')
            todo = await _missing(connection)
            if not await connection.fetchval(IS_THERE, LEDGER_TABLE):
                await connection.execute(LEDGER)
            for migration in todo:
                await connection.execute(migration.sql)
                await connection.execute(
                    "INSERT INTO euterpe_migrations (version, name, applied_at) VALUES ($1, $2, $3)",
                    migration.version,
                    migration.name,
                    time.time_ns() // 1000,
                )
        return [migration.name for migration in todo]


async def _missing(connection: Connection) -> list[Migration]:
    """Looks for the jobs first: another process may commit them and the ledger between the two looks."""
    has_jobs = await connection.fetchval(IS_THERE, JOBS_TABLE)
    has_ledger = await connection.fetchval(IS_THERE, LEDGER_TABLE)
    applied = {row[0]: row[1] for row in await connection.fetch(APPLIED)} if has_ledger else {}
    return missing("postgres", applied, has_jobs=has_jobs)


async def _answered(run: Callable[[], Awaitable[T]], deadline: float) -> T:
    """Whatever the network does, the caller is answered in time."""
    try:
        async with asyncio.timeout(max(SHORTEST_TRY_S, deadline - time.monotonic())):
            return await run()
    except TimeoutError as error:
        raise CommitUnknown("Postgres gave no answer in the time of a submission; it may be stored") from error
