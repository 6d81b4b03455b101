"""SQLite through apsw, which brings a current library of its own; `synchronous=FULL`: durable when the await returns.

The system's SQLite may be old enough to have the WAL-reset bug. It is used only where the application opens the
same file with it in this process: see `one_library`.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Final

import apsw

from euterpe.ports import Clock
from euterpe.stores.sql.json_rows import unpack_rows
from euterpe.stores.sql.program import Each, Row, Statement
from euterpe.stores.sql.sqlite import one_library
from euterpe.stores.sql.sqlite.library import (
    CHECKPOINT_PAGES,
    LOCK_PATIENCE_S,
    SMALL_CHECKPOINT_PAGES,
    Library,
    as_sqlite,
    bound,
    lock_held,
    nap,
    system_clock,
    wait_for_lock,
)
from euterpe.stores.sql.sqlite.writer import GroupCommitEngine
from euterpe.stores.sql.statements import numbered

CHANGES: Final = "SELECT changes()"
"""The driver answers it without a step."""

__all__ = ["APSW", "ApswLibrary", "SqliteEngine", "as_sqlite", "connect", "execute", "library_version", "system_clock"]


class SqliteEngine(GroupCommitEngine):
    """One database file. A `library` that is named stays; else apsw's, or Python's if the application uses that."""

    def __init__(self, path: str, clock: Clock | None = None, library: Library | None = None) -> None:
        super().__init__(path, library or APSW, clock)
        if library is None:
            one_library.watch(self)

    async def open(self) -> None:
        self._settle_library()
        await super().open()

    async def migrate(self) -> list[str]:
        self._settle_library()
        return await super().migrate()

    def _settle_library(self) -> None:
        if not self.is_open and one_library.is_watched(self) and one_library.is_open_by_python(self.path):
            one_library.switch_library(self)


def library_version() -> str:
    """The SQLite that apsw brings, and apsw's own version."""
    return f"{apsw.sqlite_lib_version()} (apsw {apsw.apsw_version()})"


class ApswLibrary(Library):
    name = "apsw"
    failures = (apsw.Error,)

    def connect(self, path: str) -> ApswSession:
        wait = BusyWait()
        return ApswSession(connect(path, wait), path, wait)

    def code_of(self, error: Exception) -> int | None:
        return getattr(error, "result", None)

    def is_busy(self, error: Exception) -> bool:  # noqa: ARG002  # its busy handler has waited long enough by then
        return False


APSW: Final = ApswLibrary()


class ApswSession:
    library = APSW
    __slots__ = ("_connection", "_path", "_wait", "_written_before")

    def __init__(self, connection: apsw.Connection, path: str, wait: BusyWait) -> None:
        self._connection = connection
        self._path = path
        self._wait = wait
        self._written_before = 0
        """Pages, at the last commit that was followed by a checkpoint where one was due."""

    @property
    def in_transaction(self) -> bool:
        return self._connection.in_transaction

    def begin(self, patience_s: float) -> None:
        patience_s = min(patience_s, LOCK_PATIENCE_S)
        try:
            self._begin(patience_s)
        except apsw.BusyError as error:
            raise lock_held(self._path, patience_s) from error
        self._written_before = self._written()

    def begin_at_once(self) -> bool:
        if self._written() - self._written_before >= SMALL_CHECKPOINT_PAGES:
            return False
        try:
            self._begin(0.0)
        except apsw.BusyError:
            return False
        return True

    def _begin(self, patience_s: float) -> None:
        self._wait.patience_s = patience_s
        self._connection.execute("BEGIN IMMEDIATE")

    def commit(self, *, is_small: bool) -> None:
        self._connection.wal_autocheckpoint(SMALL_CHECKPOINT_PAGES if is_small else CHECKPOINT_PAGES)
        self.run("COMMIT")

    def commit_at_once(self) -> None:
        self._connection.wal_autocheckpoint(0)
        self._connection.execute("COMMIT")

    def _written(self) -> int:
        return self._connection.status(apsw.SQLITE_DBSTATUS_CACHE_WRITE)[0]

    def run(self, sql: str) -> list[Row]:
        return self._connection.execute(sql).fetchall()

    def run_script(self, sql: str) -> None:
        self._connection.execute(sql)

    def execute(self, statement: Statement, now: Clock) -> list[Row]:
        return execute(self._connection, statement, now)

    def close(self) -> None:
        self._connection.close()


def connect(path: str, wait: Callable[[int], bool] | None = None) -> apsw.Connection:
    one_library.opens_by_apsw(path)
    connection = apsw.Connection(path, statementcachesize=200)
    connection.set_busy_handler(wait or BusyWait())
    # On a new file this needs the file alone, and SQLite then says busy at once, without asking the handler.
    wait_for_lock(
        lambda: connection.execute("PRAGMA journal_mode = WAL"), lambda error: isinstance(error, apsw.BusyError), path
    )
    # Else it plans every statement with a LIMIT, or a value beside a partial index, anew at each run, by the values.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute("PRAGMA cache_size = -32000")
    connection.wal_autocheckpoint(CHECKPOINT_PAGES)
    return connection


class BusyWait:
    """SQLite asks it, with the number of tries so far, whether to go on waiting for a lock."""

    __slots__ = ("_started", "patience_s")

    def __init__(self) -> None:
        self.patience_s = LOCK_PATIENCE_S
        self._started = 0.0

    def __call__(self, tries: int) -> bool:
        now = time.monotonic()
        if tries == 0:
            self._started = now
        if self.patience_s <= 0:
            return False
        nap()
        return now - self._started < self.patience_s


def execute(connection: apsw.Connection, statement: Statement, now: Clock) -> list[Row]:
    """Every step of a statement hands the interpreter's lock over, and a busy event loop keeps it for a while."""
    text = numbered("sqlite", statement.name, None, "?")
    if text.sql == CHANGES:
        return [(connection.changes(),)]
    if isinstance(statement, Each) and not text.batched:
        columns = [
            itertools.repeat(now(), len(statement)) if name == "now" else statement.columns[name] for name in text.names
        ]
        return connection.cursor().executemany(text.sql, zip(*columns, strict=True)).fetchall()
    cursor = connection.cursor().execute(text.sql, bound(statement, text, now))
    if text.packed is not None or text.contract.is_one_row:
        rows = [next(cursor)]
        cursor.close()  # Instead of a step that finds no second row.
    else:
        rows = cursor.fetchall()
    return rows if text.packed is None else unpack_rows(rows[0][0], text.packed)
