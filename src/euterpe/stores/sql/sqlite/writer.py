"""One writer thread with group commit, and reader threads that never wait for it, over any SQLite library.

What waits when the writer becomes free is committed together, with one fsync; each program keeps its own savepoint,
so one that is rejected does not touch the others. The libraries (apsw, Python's own sqlite3, libsql) only connect,
run statements and say what their errors mean.
"""

from __future__ import annotations

import asyncio
import os
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, TypeVar

from euterpe.model.errors import DatabaseLocked, EuterpeError, OpenedBeforeFork, StoreUnavailable
from euterpe.ports import Clock
from euterpe.stores.sql.migrations import APPLIED, JOBS_TABLE, LEDGER, LEDGER_TABLE, missing
from euterpe.stores.sql.program import MakeProgram, Program, Row, Statement, run_sync
from euterpe.stores.sql.sqlite.library import (
    LOCK_PATIENCE_S,
    UNBINDABLE,
    Library,
    Session,
    lock_held,
    system_clock,
    unbindable,
    wait_for_lock,
)
from euterpe.stores.sql.sqlite.loop_commits import LoopCommits
from euterpe.stores.sql.sqlite.switch_interval import short_switch_interval
from euterpe.stores.sql.sqlite.tickets import ConnectionSlot, StopTicket, Ticket, Tickets, deliver_answers
from euterpe.stores.sql.statements import Family

T = TypeVar("T")

GROUP_LIMIT: Final = 500
READERS: Final = 2
SOON_S: Final = 0.5
JOIN_S: Final = 0.001
"""Who comes while so short a transaction runs still takes part in its commit. A worker's turn takes longer: its jobs
should start, and not wait for those of the next turn."""
LOCKED_S: Final = 1.0
"""A write lock that is held for longer makes a process not ready."""
LONG_S: Final = 0.002
"""A transaction that has run for so long is committed, and who still waits for it takes part in the next. The two lanes
of a worker would otherwise wait for one commit together, and nothing of theirs would run meanwhile."""


MEMORY: Final = ":memory:"


class GroupCommitEngine:
    """A SQLite database. Any number of processes may open its file; SQLite lets one write at a time."""

    family: Family = "sqlite"
    schema: str | None = None
    group_limit = GROUP_LIMIT

    def __init__(self, path: str, library: Library, clock: Clock | None = None) -> None:
        self.path = path if path == MEMORY else str(Path(path).absolute())
        self.library = library
        self.clock = clock
        self._now = clock or system_clock
        self._tickets: Tickets = queue.SimpleQueue()
        self._writer: threading.Thread | None = None
        self._on_loop: LoopCommits
        self._opened_by = 0
        self._executor: ThreadPoolExecutor | None = None
        self._local = threading.local()
        self._slots: list[ConnectionSlot] = []
        self._slots_lock = threading.Lock()
        self._waits_since = 0.0
        """When the writer thread began to wait for the file, also over several tries; 0: it does not wait."""

    @property
    def is_open(self) -> bool:
        return self._writer is not None

    async def open(self) -> None:
        if self._writer is not None:
            return
        self._make_file()
        loop = asyncio.get_running_loop()
        started: asyncio.Future[None] = loop.create_future()
        self._tickets = queue.SimpleQueue()
        slot = self._new_slot()
        self._on_loop = LoopCommits(loop, slot, self._tickets, self._commit_here)
        self._writer = threading.Thread(
            target=self._write_loop, args=(slot, self._tickets, started), name="euterpe-sqlite-writer", daemon=True
        )
        self._writer.start()
        self._opened_by = os.getpid()
        try:
            await started
        except BaseException:
            self._writer = None
            self._tickets.put(StopTicket())
            raise
        self._executor = ThreadPoolExecutor(READERS, thread_name_prefix="euterpe-sqlite-reader")

    async def close(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            self._on_loop.hand_over()
            self._tickets.put(StopTicket())
            await _in_thread(writer.join)
        executor, self._executor = self._executor, None
        if executor is not None:
            await _in_thread(executor.shutdown)
        with self._slots_lock:
            slots, self._slots = self._slots, []
        for slot in slots:
            with slot.lock:
                slot.close()
        self._local = threading.local()

    def change_library(self, library: Library) -> None:
        """Let go of the file, in every thread, and go on with another SQLite library. Blocks until that is so."""
        with self._slots_lock, ExitStack() as held:
            if self.library is library:
                return
            # All of them at once: while one thread still has the file open by the old library, none may by the new.
            for slot in self._slots:
                if not slot.lock.acquire(timeout=LOCK_PATIENCE_S * 2):
                    raise StoreUnavailable(f"{self.path} is in use and was not let go in time; try again")
                held.callback(slot.lock.release)
            for slot in self._slots:
                slot.close()
            self.library = library

    def _new_slot(self) -> ConnectionSlot:
        slot = ConnectionSlot()
        with self._slots_lock:
            self._slots.append(slot)
        return slot

    def expect_leases_of(self, seconds: float) -> None:
        """A transaction runs in one go here; who freezes in it holds up all, and no server can end it."""

    # --- programs ---------------------------------------------------------------------------------

    async def write(self, make: MakeProgram[T], *, patience_s: float = 0, is_small: bool = False) -> T:
        """A file is never away, but somebody may hold its lock: then patience counts from here."""
        if self._writer is None:
            raise StoreUnavailable(f"the store at {self.path} is not open; use `async with queue:`")
        if self._opened_by != os.getpid():
            raise OpenedBeforeFork
        loop = asyncio.get_running_loop()
        deadline = time.monotonic() + (min(patience_s, LOCK_PATIENCE_S) or LOCK_PATIENCE_S)
        ticket = Ticket(make, loop, loop.create_future(), deadline, is_small)
        answer: T
        if self._on_loop.take(ticket):
            answer = await ticket.future
        else:
            with short_switch_interval:  # The writer thread must have the interpreter's lock before it can begin.
                self._tickets.put(ticket)
                answer = await ticket.future
        return answer

    async def check_writable(self) -> None:
        """A transaction that writes nothing costs no fsync. If the writer already waits for the file for a call
        with more patience, its wait is the answer."""
        try:
            async with asyncio.timeout(LOCKED_S * 1.5):
                await self.write(_nothing, patience_s=LOCKED_S)
        except (TimeoutError, DatabaseLocked):
            if not self._waits_since:
                raise
            raise lock_held(self.path, time.monotonic() - self._waits_since) from None

    async def write_one(self, make: MakeProgram[T], *, patience_s: float = 0, is_small: bool = False) -> T:
        return await self.write(make, patience_s=patience_s, is_small=is_small)

    async def read(self, make: MakeProgram[T], *, patience_s: float = 0) -> T:
        if self.path == MEMORY:
            return await self.write(make, patience_s=patience_s)
        if self._executor is None:
            raise StoreUnavailable(f"the store at {self.path} is not open; use `async with queue:`")
        if self._opened_by != os.getpid():
            raise OpenedBeforeFork
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._read, make)

    def _read(self, make: MakeProgram[T]) -> T:
        slot: ConnectionSlot | None = getattr(self._local, "slot", None)
        if slot is None:
            slot = self._local.slot = self._new_slot()
        with slot.lock:
            library = self.library
            try:
                session = slot.session = slot.session or library.connect(self.path)
                return wait_for_lock(lambda: self._read_with(session, make), library.is_busy, self.path)
            except library.failures as error:
                if library.is_lost(error):
                    slot.close()
                raise library.explain(self.path, error, committing=False) from error

    def _read_with(self, session: Session, make: MakeProgram[T]) -> T:
        """One snapshot for the whole program."""
        session.run("BEGIN")
        try:
            return run_sync(make(), lambda statement: self._execute(session, statement))
        finally:
            if session.in_transaction:
                session.run("COMMIT")

    def _execute(self, session: Session, statement: Statement) -> list[Row]:
        try:
            return session.execute(statement, self._now)
        except UNBINDABLE as error:
            raise unbindable(self.path, error) from error

    async def migrate(self) -> list[str]:
        return await _in_thread(self._migrate)

    def _make_file(self) -> None:
        """For its owner alone: payloads and results are nobody else's. SQLite gives `-wal` and `-shm` the same rights,
        and a file that is there keeps those that it has."""
        if self.path != MEMORY:
            with suppress(OSError):  # SQLite will say what is wrong, in its own words
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))

    def _migrate(self) -> list[str]:
        self._make_file()
        slot = self._new_slot()
        try:
            with slot.lock:
                library = self.library
                try:
                    slot.session = library.connect(self.path)
                    return self._migrate_with(slot.session)
                except library.failures as error:
                    raise library.explain(self.path, error, committing=False) from error
                finally:
                    slot.close()
        finally:
            with self._slots_lock:
                self._slots.remove(slot)

    def _migrate_with(self, session: Session) -> list[str]:
        session.begin(LOCK_PATIENCE_S)
        try:
            has_ledger = _is_there(session, LEDGER_TABLE)
            applied = dict(session.run(APPLIED)) if has_ledger else {}
            todo = missing(self.family, applied, has_jobs=_is_there(session, JOBS_TABLE))
            if not has_ledger:
                session.run(LEDGER)
            for migration in todo:
                session.run_script(migration.sql)
                values = f"{migration.version}, '{migration.name}', {self._now()}"  # a name of our own file
                session.run(f"INSERT INTO euterpe_migrations (version, name, applied_at) VALUES ({values})")  # noqa: S608
            session.run("COMMIT")
        except BaseException:
            if session.in_transaction:
                session.run("ROLLBACK")
            raise
        return [migration.name for migration in todo]

    # --- the writer thread ------------------------------------------------------------------------

    def _write_loop(self, slot: ConnectionSlot, tickets: Tickets, started: asyncio.Future[None]) -> None:
        library = self.library
        try:
            with slot.lock:
                library = self.library
                slot.session = library.connect(self.path)
        except Exception as error:  # noqa: BLE001  # whatever it was, `open` waits for an answer
            known = isinstance(error, library.failures)
            _resolve(started, library.explain(self.path, error, committing=False) if known else error)
            return
        _resolve(started, None)
        stop, later = False, list[Ticket]()
        while later or not stop:
            group, later = later, []
            if not group:
                if isinstance(item := tickets.get(), StopTicket):
                    break
                group.append(item)
            stop = self._gather(group, tickets) or stop
            with slot.lock, short_switch_interval:
                stop = self._commit_together(slot, group, later, tickets) or stop
            deliver_answers(group)
        with slot.lock:
            slot.close()

    def _gather(self, group: list[Ticket], tickets: Tickets) -> bool:
        """Add those that wait; whether the end was among them."""
        while len(group) < self.group_limit:
            try:
                item = tickets.get_nowait()
            except queue.Empty:
                break
            if isinstance(item, StopTicket):
                return True
            group.append(item)
        return False

    def _commit_together(
        self, slot: ConnectionSlot, group: list[Ticket], later: list[Ticket], tickets: Tickets
    ) -> bool:
        """Whether the end was among those that joined on the way. Who is left for the next goes into `later`."""
        committing = stop = False
        library = self.library
        begun = time.monotonic()
        try:
            session = slot.session = slot.session or library.connect(self.path)
            self._begin(session, group, later)
            self._run_some(session, group, later)
            if not session.in_transaction:
                return stop  # A lone one was rejected. Who came meanwhile begins anew, as a writer.
            if time.monotonic() - begun < JOIN_S:
                # The claim that a submit brought about, and its like: two commits in one.
                first = len(group)
                stop = self._gather(group, tickets)
                for ticket in group[first:]:
                    self._run(session, ticket, alone=False)
            committing = True
            are_small = all(ticket.is_small for ticket in group)
            session.commit(is_small=are_small)
            if are_small:
                self._on_loop.took(time.monotonic() - begun)
        except Exception as error:  # noqa: BLE001  # whatever it was, every waiter must get an answer
            self._fail(slot, group, error, committing=committing)
        return stop

    def _fail(self, slot: ConnectionSlot, group: list[Ticket], error: Exception, *, committing: bool) -> None:
        """The whole group, but for those that were rejected on their own account: they keep their own reason."""
        library = self.library
        known = isinstance(error, library.failures)
        reason = library.explain(self.path, error, committing=committing) if known else error
        for ticket in group:
            if not isinstance(ticket.error, EuterpeError):
                ticket.error = reason
        if library.is_lost(error) or not _roll_back(slot.session):
            slot.close()

    def _commit_here(self, slot: ConnectionSlot, group: list[Ticket]) -> bool:
        """On the event loop's own thread, where nobody else is to be waited for; whether that is so."""
        session = slot.session
        if session is None:
            return False
        committing = False
        try:
            if not session.begin_at_once():
                return False
            for ticket in group:
                self._run(session, ticket, alone=len(group) == 1)
            if session.in_transaction:
                committing = True
                session.commit_at_once()
        except Exception as error:  # noqa: BLE001  # whatever it was, every waiter must get an answer
            self._fail(slot, group, error, committing=committing)
        except BaseException as interrupted:  # Ctrl-C may come in the middle of anything on this thread.
            for ticket in group:
                ticket.error = interrupted
            if not _roll_back(session):
                slot.close()
            raise
        return True

    def _begin(self, session: Session, group: list[Ticket], later: list[Ticket]) -> None:
        """Wait for other writers as long as the first of the group may; who may wait longer has another try."""
        first = min(ticket.deadline for ticket in group)
        began = time.monotonic()
        self._waits_since = self._waits_since or began
        try:
            session.begin(max(0.0, first - began))
            self._waits_since = 0.0
        except StoreUnavailable:
            later += [ticket for ticket in group if ticket.deadline > first + SOON_S]
            group[:] = [ticket for ticket in group if ticket.deadline <= first + SOON_S]
            raise

    def _run_some(self, session: Session, group: list[Ticket], later: list[Ticket]) -> None:
        """All of the group, if that does not take too long."""
        alone, begun = len(group) == 1, time.monotonic()
        for at, ticket in enumerate(group, 1):
            self._run(session, ticket, alone=alone)
            if at < len(group) and time.monotonic() - begun > LONG_S:
                later += group[at:]
                del group[at:]

    def _run(self, session: Session, ticket: Ticket, *, alone: bool) -> None:
        """One program inside the group's transaction; a rejected one is rolled back to its savepoint."""
        if not alone:
            session.run("SAVEPOINT program")
        try:
            ticket.answer = run_sync(ticket.make(), lambda statement: self._execute(session, statement))
        except Exception as error:
            ticket.error = error
            failed = isinstance(error, session.library.failures)
            # Disk full or I/O errors end the whole transaction; then nobody's work is safe.
            if not session.in_transaction or (failed and not session.library.is_programs_fault(error)):
                raise
            if failed:
                ticket.error = session.library.explain(self.path, error, committing=False)
            if alone:
                session.run("ROLLBACK")
            else:
                session.run("ROLLBACK TO program")
        if not alone:
            session.run("RELEASE program")


def _nothing() -> Program[None]:
    """Write nothing: only the lock is wanted."""
    yield from ()


def _is_there(session: Session, table: str) -> bool:
    return bool(session.run(f"SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = '{table}'"))  # noqa: S608  # our own


def _resolve(started: asyncio.Future[None], error: Exception | None) -> None:
    def resolve() -> None:
        if started.done():
            return
        if error is None:
            started.set_result(None)
        else:
            started.set_exception(error)

    started.get_loop().call_soon_threadsafe(resolve)


def _roll_back(session: Session | None) -> bool:
    """Whether the session is clean again."""
    if session is None:
        return True
    try:
        if session.in_transaction:
            session.run("ROLLBACK")
    except session.library.failures:
        return False
    return True


async def _in_thread(function: Callable[[], T]) -> T:
    """In a thread of its own: the loop's executor is the application's, who may have closed or filled it."""
    with_one_thread = ThreadPoolExecutor(1, thread_name_prefix="euterpe-sqlite-aside")
    try:
        return await asyncio.get_running_loop().run_in_executor(with_one_thread, function)
    finally:
        with_one_thread.shutdown(wait=False)
