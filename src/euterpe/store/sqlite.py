"""SQLite through apsw: one writer thread with group commit, and reader threads that never wait for it.

What waits when the writer becomes free is committed together, with one fsync; each program keeps its own savepoint,
so one that is rejected does not touch the others. `synchronous=FULL`: durable when the await returns.
"""

from __future__ import annotations

import asyncio
import itertools
import queue
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import apsw
import msgspec

from euterpe.model.errors import EuterpeError, StoreUnavailable
from euterpe.ports import Clock
from euterpe.store.dialect import Family, numbered
from euterpe.store.migrations import APPLIED, LEDGER, missing
from euterpe.store.program import Each, MakeProgram, Row, Statement, run_sync

T = TypeVar("T")

GROUP_LIMIT: Final = 500
LOCK_PATIENCE_S: Final = 30.0
READERS: Final = 2


def system_clock() -> int:
    return time.time_ns() // 1000


@dataclass(slots=True)
class Ticket:
    """A program that waits for the writer, and where its answer goes."""

    make: MakeProgram[Any]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    answer: Any = None
    error: BaseException | None = None


class SqliteEngine:
    """One database file. Any number of processes may open it; SQLite lets one write at a time."""

    family: Family = "sqlite"

    def __init__(self, path: str, clock: Clock | None = None) -> None:
        self.path = path
        self.clock = clock
        self._now = clock or system_clock
        self._tickets: queue.SimpleQueue[Ticket | None] = queue.SimpleQueue()
        self._writer: threading.Thread | None = None
        self._readers: ThreadPoolExecutor | None = None
        self._local = threading.local()

    async def open(self) -> None:
        if self._writer is not None:
            return
        started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._writer = threading.Thread(
            target=self._write_loop, args=(started,), name="euterpe-sqlite-writer", daemon=True
        )
        self._writer.start()
        try:
            await started
        except BaseException:
            self._writer = None
            raise
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="euterpe-sqlite-reader")

    async def close(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            self._tickets.put(None)
            await asyncio.to_thread(writer.join)
        readers, self._readers = self._readers, None
        if readers is not None:
            await asyncio.to_thread(readers.shutdown)

    async def write(self, make: MakeProgram[T], *, patience_s: float = 0) -> T:  # noqa: ARG002  # a file is never away
        if self._writer is None:
            raise StoreUnavailable(f"the store at {self.path} is not open; use `async with queue:`")
        loop = asyncio.get_running_loop()
        ticket = Ticket(make, loop, loop.create_future())
        self._tickets.put(ticket)
        answer: T = await ticket.future
        return answer

    write_one = write

    async def read(self, make: MakeProgram[T], *, patience_s: float = 0) -> T:  # noqa: ARG002  # likewise
        if self.path == ":memory:":
            return await self.write(make)
        if self._readers is None:
            raise StoreUnavailable(f"the store at {self.path} is not open; use `async with queue:`")
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._read, make)

    def _read(self, make: MakeProgram[T]) -> T:
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = connect(self.path)
        try:
            connection.execute("BEGIN")
            try:
                return run_sync(make(), lambda statement: execute(connection, statement, self._now))
            finally:
                connection.execute("COMMIT")
        except apsw.Error as error:
            raise unavailable(self.path, error) from error

    async def migrate(self) -> list[str]:
        return await asyncio.to_thread(self._migrate)

    def _migrate(self) -> list[str]:
        connection = connect(self.path)
        try:
            begin(connection, self.path)
            connection.execute(LEDGER)
            applied = {row[0] for row in connection.execute(APPLIED)}
            todo = missing(self.family, applied)
            for migration in todo:
                connection.execute(migration.sql)
                connection.execute(
                    "INSERT INTO schema_migrations (version, name, applied_at) VALUES (?, ?, ?)",
                    (migration.version, migration.name, self._now()),
                )
            connection.execute("COMMIT")
            return [migration.name for migration in todo]
        except apsw.Error as error:
            raise unavailable(self.path, error) from error
        finally:
            connection.close()

    # --- the writer thread ------------------------------------------------------------------------

    def _write_loop(self, started: asyncio.Future[None]) -> None:
        loop = started.get_loop()
        try:
            connection = connect(self.path)
        except apsw.Error as error:
            loop.call_soon_threadsafe(started.set_exception, unavailable(self.path, error))
            return
        loop.call_soon_threadsafe(started.set_result, None)
        try:
            while (first := self._tickets.get()) is not None:
                group, stop = self._gather(first)
                self._commit_together(connection, group)
                hand_back(group)
                if stop:
                    return
        finally:
            connection.close()

    def _gather(self, first: Ticket) -> tuple[list[Ticket], bool]:
        group = [first]
        while len(group) < GROUP_LIMIT:
            try:
                ticket = self._tickets.get_nowait()
            except queue.Empty:
                break
            if ticket is None:
                return group, True
            group.append(ticket)
        return group, False

    def _commit_together(self, connection: apsw.Connection, group: list[Ticket]) -> None:
        try:
            begin(connection, self.path)
            for ticket in group:
                self._run(connection, ticket, alone=len(group) == 1)
            connection.execute("COMMIT")
        except Exception as error:  # noqa: BLE001  # whatever it was, every waiter must get an answer
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if isinstance(error, apsw.Error):
                error = unavailable(self.path, error)
            for ticket in group:
                # A ticket that was rejected on its own account keeps its own reason.
                if not isinstance(ticket.error, EuterpeError):
                    ticket.error = error

    def _run(self, connection: apsw.Connection, ticket: Ticket, *, alone: bool) -> None:
        """One program inside the group's transaction; a rejected one is rolled back to its savepoint."""
        if not alone:
            connection.execute("SAVEPOINT program")
        try:
            ticket.answer = run_sync(ticket.make(), lambda statement: execute(connection, statement, self._now))
        except Exception as error:
            ticket.error = error
            # Disk full or I/O errors end the whole transaction; then nobody's work is safe.
            if not connection.in_transaction or (isinstance(error, apsw.Error) and not _is_programs_fault(error)):
                raise
            if alone:
                connection.execute("ROLLBACK")
                connection.execute("BEGIN")
            else:
                connection.execute("ROLLBACK TO program")
        if not alone:
            connection.execute("RELEASE program")


def _is_programs_fault(error: apsw.Error) -> bool:
    return isinstance(
        error, (apsw.ConstraintError, apsw.MismatchError, apsw.TooBigError, apsw.RangeError, apsw.SQLError)
    )


def hand_back(group: list[Ticket]) -> None:
    """Resolve the futures on their loops, one wake-up a loop."""
    for loop, tickets in itertools.groupby(group, key=lambda ticket: ticket.loop):
        answered = list(tickets)
        try:
            loop.call_soon_threadsafe(_resolve, answered)
        except RuntimeError:
            continue  # The loop was closed meanwhile: nobody waits for these answers any more.


def _resolve(tickets: list[Ticket]) -> None:
    for ticket in tickets:
        if ticket.future.done():
            continue
        if ticket.error is not None:
            ticket.future.set_exception(ticket.error)
        else:
            ticket.future.set_result(ticket.answer)


def connect(path: str) -> apsw.Connection:
    connection = apsw.Connection(path, statementcachesize=200)
    connection.set_busy_handler(_patient_busy_handler())
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute("PRAGMA cache_size = -32000")
    # A checkpoint costs an fsync of the database file; fewer and larger ones cost less a job.
    connection.execute("PRAGMA wal_autocheckpoint = 4000")
    return connection


def _patient_busy_handler() -> Callable[[int], bool]:
    started = 0.0

    def wait(tries: int) -> bool:
        nonlocal started
        now = time.monotonic()
        if tries == 0:
            started = now
        # Short random naps: SQLite has no queue for writers, and long naps would starve the sleeper.
        time.sleep(random.uniform(0.0002, 0.002))
        return now - started < LOCK_PATIENCE_S

    return wait


def begin(connection: apsw.Connection, path: str) -> None:
    """IMMEDIATE: a transaction that starts as a reader and turns writer can only fail."""
    try:
        connection.execute("BEGIN IMMEDIATE")
    except apsw.BusyError as error:
        raise StoreUnavailable(
            f"another process has held the write lock of {path} for {LOCK_PATIENCE_S:.0f} s"
        ) from error


def execute(connection: apsw.Connection, statement: Statement, now: Clock) -> list[Row]:
    text = numbered("sqlite", statement.name, None, "?")
    if isinstance(statement, Each):
        columns = [
            itertools.repeat(now(), len(statement)) if name == "now" else statement.columns[name] for name in text.names
        ]
        return connection.cursor().executemany(text.sql, zip(*columns, strict=True)).fetchall()
    params = tuple(now() if name == "now" else as_sqlite(statement.params[name]) for name in text.names)
    return connection.cursor().execute(text.sql, params).fetchall()


def as_sqlite(value: Any) -> Any:
    return msgspec.json.encode(value).decode() if isinstance(value, list) else value


def unavailable(path: str, error: apsw.Error) -> EuterpeError:
    hint = {
        apsw.FullError: "the disk is full; free some space, nothing that was acknowledged is lost",
        apsw.CantOpenError: "the file cannot be opened; check that its folder exists and is writable",
        apsw.NotADBError: "the file is not a SQLite database",
        apsw.ReadOnlyError: "the file is read-only",
        apsw.CorruptError: "the file is damaged; restore it from a backup",
    }.get(type(error), str(error))
    return StoreUnavailable(f"SQLite at {path}: {hint}")
