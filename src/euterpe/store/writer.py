"""One writer thread with group commit, and reader threads that never wait for it, over any SQLite library.

What waits when the writer becomes free is committed together, with one fsync; each program keeps its own savepoint,
so one that is rejected does not touch the others. The libraries (apsw, Python's own sqlite3, libsql) only connect,
run statements and say what their errors mean.
"""

from __future__ import annotations

import asyncio
import itertools
import queue
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from euterpe.model.errors import EuterpeError, StoreUnavailable
from euterpe.ports import Clock
from euterpe.store.dialect import Family
from euterpe.store.library import LOCK_PATIENCE_S, Library, Session, patiently, system_clock
from euterpe.store.migrations import APPLIED, LEDGER, missing
from euterpe.store.program import MakeProgram, run_sync

T = TypeVar("T")

GROUP_LIMIT: Final = 500
READERS: Final = 2


@dataclass(slots=True)
class Ticket:
    """A program that waits for the writer, and where its answer goes."""

    make: MakeProgram[Any]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    answer: Any = None
    error: BaseException | None = None


@dataclass(slots=True)
class Handover:
    """Asks the writer to let go of the file; it connects again, by the engine's library of then, when work comes."""

    done: threading.Event = field(default_factory=threading.Event)


@dataclass(slots=True)
class Stop:
    """Ends the writer."""


@dataclass(slots=True)
class Reader:
    """A thread's session, or none yet. The lock keeps it open while it is used, and lets others close it."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    session: Session | None = None

    def close(self) -> None:
        with self.lock:
            if self.session is not None:
                self.session.close()
                self.session = None


Tickets = queue.SimpleQueue[Ticket | Handover | Stop]


class GroupCommitEngine:
    """A SQLite database. Any number of processes may open its file; SQLite lets one write at a time."""

    family: Family = "sqlite"
    schema: str | None = None
    group_limit = GROUP_LIMIT

    def __init__(self, path: str, library: Library, clock: Clock | None = None) -> None:
        self.path = path
        self.library = library
        self.clock = clock
        self._now = clock or system_clock
        self._tickets: Tickets = queue.SimpleQueue()
        self._writer: threading.Thread | None = None
        self._executor: ThreadPoolExecutor | None = None
        self._local = threading.local()
        self._readers: list[Reader] = []

    @property
    def is_open(self) -> bool:
        return self._writer is not None

    async def open(self) -> None:
        if self._writer is not None:
            return
        started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._tickets = queue.SimpleQueue()
        self._writer = threading.Thread(
            target=self._write_loop, args=(self._tickets, started), name="euterpe-sqlite-writer", daemon=True
        )
        self._writer.start()
        try:
            await started
        except BaseException:
            self._writer = None
            self._tickets.put(Stop())
            raise
        self._executor = ThreadPoolExecutor(READERS, thread_name_prefix="euterpe-sqlite-reader")

    async def close(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            self._tickets.put(Stop())
            await asyncio.to_thread(writer.join)
        executor, self._executor = self._executor, None
        if executor is not None:
            await asyncio.to_thread(executor.shutdown)
        self._close_readers()

    def _close_readers(self) -> None:
        for reader in tuple(self._readers):
            reader.close()

    def change_library(self, library: Library) -> None:
        """Let go of the file, everywhere, and go on with another SQLite library. Blocks until that is so."""
        self.library = library
        if self._writer is not None:
            handover = Handover()
            self._tickets.put(handover)
            if not handover.done.wait(LOCK_PATIENCE_S * 2):
                raise StoreUnavailable(f"the writer of {self.path} did not let go of the file in time; try again")
        self._close_readers()

    # --- programs ---------------------------------------------------------------------------------

    async def write(self, make: MakeProgram[T], *, patience_s: float = 0) -> T:  # noqa: ARG002  # a file is never away
        if self._writer is None:
            raise StoreUnavailable(f"the store at {self.path} is not open; use `async with queue:`")
        loop = asyncio.get_running_loop()
        ticket = Ticket(make, loop, loop.create_future())
        self._tickets.put(ticket)
        answer: T = await ticket.future
        return answer

    async def write_one(self, make: MakeProgram[T], *, patience_s: float = 0) -> T:
        return await self.write(make, patience_s=patience_s)

    async def read(self, make: MakeProgram[T], *, patience_s: float = 0) -> T:
        if self.path == ":memory:":
            return await self.write(make, patience_s=patience_s)
        if self._executor is None:
            raise StoreUnavailable(f"the store at {self.path} is not open; use `async with queue:`")
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._read, make)

    def _read(self, make: MakeProgram[T]) -> T:
        reader: Reader | None = getattr(self._local, "reader", None)
        if reader is None:
            reader = self._local.reader = Reader()
            self._readers.append(reader)
        with reader.lock:
            library = reader.session.library if reader.session is not None else self.library
            try:
                if reader.session is None:
                    reader.session = library.connect(self.path)
                session = reader.session
                return patiently(lambda: self._read_with(session, make), library.is_busy, self.path)
            except library.failures as error:
                if library.is_lost(error) and reader.session is not None:
                    reader.session.close()
                    reader.session = None
                raise library.explain(self.path, error, committing=False) from error

    def _read_with(self, session: Session, make: MakeProgram[T]) -> T:
        """One snapshot for the whole program."""
        session.run("BEGIN")
        try:
            return run_sync(make(), lambda statement: session.execute(statement, self._now))
        finally:
            if session.in_transaction:
                session.run("COMMIT")

    async def migrate(self) -> list[str]:
        return await asyncio.to_thread(self._migrate)

    def _migrate(self) -> list[str]:
        reader = Reader()
        self._readers.append(reader)
        try:
            with reader.lock:
                library = self.library
                try:
                    reader.session = library.connect(self.path)
                    return self._migrate_with(reader.session)
                except library.failures as error:
                    raise library.explain(self.path, error, committing=False) from error
        finally:
            reader.close()
            self._readers.remove(reader)

    def _migrate_with(self, session: Session) -> list[str]:
        session.begin()
        try:
            session.run(LEDGER)
            applied = {row[0] for row in session.run(APPLIED)}
            todo = missing(self.family, applied)
            for migration in todo:
                session.run_script(migration.sql)
                values = f"{migration.version}, '{migration.name}', {self._now()}"  # a name of our own file
                session.run(f"INSERT INTO schema_migrations (version, name, applied_at) VALUES ({values})")  # noqa: S608
            session.run("COMMIT")
        except BaseException:
            if session.in_transaction:
                session.run("ROLLBACK")
            raise
        return [migration.name for migration in todo]

    # --- the writer thread ------------------------------------------------------------------------

    def _write_loop(self, tickets: Tickets, started: asyncio.Future[None]) -> None:
        session: Session | None = None
        library = self.library
        try:
            session = library.connect(self.path)
        except library.failures as error:
            _tell(started, library.explain(self.path, error, committing=False))
            return
        _tell(started, None)
        try:
            item = tickets.get()
            while not isinstance(item, Stop):
                if isinstance(item, Handover):
                    _close(session)
                    session = None
                    item.done.set()
                    item = tickets.get()
                    continue
                group, following = self._gather(item, tickets)
                session = self._commit_together(session, group)
                hand_back(group)
                item = following or tickets.get()
        finally:
            _close(session)

    def _gather(self, first: Ticket, tickets: Tickets) -> tuple[list[Ticket], Handover | Stop | None]:
        group = [first]
        while len(group) < self.group_limit:
            try:
                item = tickets.get_nowait()
            except queue.Empty:
                break
            if not isinstance(item, Ticket):
                return group, item
            group.append(item)
        return group, None

    def _commit_together(self, session: Session | None, group: list[Ticket]) -> Session | None:
        """Returns the session to go on with; None: connect anew."""
        committing = False
        library = self.library if session is None else session.library
        try:
            if session is None:
                session = library.connect(self.path)
            session.begin()
            for ticket in group:
                self._run(session, ticket, alone=len(group) == 1)
            committing = True
            session.run("COMMIT")
            return session
        except Exception as error:  # noqa: BLE001  # whatever it was, every waiter must get an answer
            known = isinstance(error, library.failures)
            reason = library.explain(self.path, error, committing=committing) if known else error
            for ticket in group:
                # A ticket that was rejected on its own account keeps its own reason.
                if not isinstance(ticket.error, EuterpeError):
                    ticket.error = reason
            if session is None or (not library.is_lost(error) and _roll_back(session)):
                return session
            session.close()
            return None

    def _run(self, session: Session, ticket: Ticket, *, alone: bool) -> None:
        """One program inside the group's transaction; a rejected one is rolled back to its savepoint."""
        if not alone:
            session.run("SAVEPOINT program")
        try:
            ticket.answer = run_sync(ticket.make(), lambda statement: session.execute(statement, self._now))
        except Exception as error:
            ticket.error = error
            failed = isinstance(error, session.library.failures)
            # Disk full or I/O errors end the whole transaction; then nobody's work is safe.
            if not session.in_transaction or (failed and not session.library.is_programs_fault(error)):
                raise
            if failed and session.library.is_unmigrated(error):
                ticket.error = session.library.explain(self.path, error, committing=False)
            if alone:
                session.run("ROLLBACK")
                session.run("BEGIN")
            else:
                session.run("ROLLBACK TO program")
        if not alone:
            session.run("RELEASE program")


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


def _tell(started: asyncio.Future[None], error: Exception | None) -> None:
    def resolve() -> None:
        if started.done():
            return
        if error is None:
            started.set_result(None)
        else:
            started.set_exception(error)

    started.get_loop().call_soon_threadsafe(resolve)


def _close(session: Session | None) -> None:
    if session is not None:
        session.close()


def _roll_back(session: Session) -> bool:
    """Whether the session is clean again."""
    try:
        if session.in_transaction:
            session.run("ROLLBACK")
    except session.library.failures:
        return False
    return True
