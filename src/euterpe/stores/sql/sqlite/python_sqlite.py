"""SQLite through Python's own sqlite3 module, for a file that the application opens with that module too."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

from euterpe.model.errors import Unsupported
from euterpe.ports import Clock
from euterpe.stores.sql.json_rows import unpack_rows
from euterpe.stores.sql.program import Each, Row, Statement
from euterpe.stores.sql.sqlite.library import Library, bound, wait_for_lock
from euterpe.stores.sql.statements import numbered

OLDEST: Final = (3, 38, 0)
"""STRICT tables came the version before, the arrow that reads JSON with it."""


class PythonLibrary(Library):
    name = "sqlite3"
    failures = (sqlite3.Error,)

    def connect(self, path: str) -> PythonSession:
        if sqlite3.sqlite_version_info < OLDEST:
            raise Unsupported(
                f"this process opens {path} with Python's sqlite3, whose SQLite {sqlite3.sqlite_version} is too old "
                "for the queue's tables; it must be 3.38 or newer"
            )
        # No waiting inside SQLite: its naps grow to 100 ms and starve a writer among many.
        connection = sqlite3.connect(
            path, timeout=0, isolation_level=None, check_same_thread=False, cached_statements=200
        )
        if sys.version_info >= (3, 12):
            connection.setconfig(sqlite3.SQLITE_DBCONFIG_ENABLE_QPSG)  # As apsw's connections: see `engine.connect`.
        session = PythonSession(connection, path)
        try:
            for pragma in ("journal_mode = WAL", "synchronous = FULL", "temp_store = MEMORY", "cache_size = -32000",
                           "wal_autocheckpoint = 4000"):  # fmt: skip
                wait_for_lock(partial(session.run, f"PRAGMA {pragma}"), self.is_busy, path)
        except BaseException:
            connection.close()
            raise
        return session

    def code_of(self, error: Exception) -> int | None:
        code = getattr(error, "sqlite_errorcode", None)
        if code is None:
            # Raised by the module itself, for parameters that it cannot bind.
            return 25 if isinstance(error, (sqlite3.ProgrammingError, sqlite3.InterfaceError)) else None
        return int(code) & 0xFF


PYTHON: Final = PythonLibrary()


class PythonSession:
    library = PYTHON
    __slots__ = ("_connection", "_path")

    def __init__(self, connection: sqlite3.Connection, path: str) -> None:
        self._connection = connection
        self._path = path

    @property
    def in_transaction(self) -> bool:
        return self._connection.in_transaction

    def begin(self, patience_s: float) -> None:
        wait_for_lock(lambda: self._connection.execute("BEGIN IMMEDIATE"), PYTHON.is_busy, self._path, patience_s)

    def begin_at_once(self) -> bool:
        return False

    def commit(self, *, is_small: bool) -> None:  # noqa: ARG002  # its checkpoints are always the library's
        self.run("COMMIT")

    def commit_at_once(self) -> None:
        self.run("COMMIT")

    def run(self, sql: str) -> list[Row]:
        return self._connection.execute(sql).fetchall()

    def run_script(self, sql: str) -> None:
        for statement in statements(sql):  # executescript() would commit first
            self._connection.execute(statement)

    def execute(self, statement: Statement, now: Clock) -> list[Row]:
        return execute(statement, now, lambda sql, params: self._connection.execute(sql, params).fetchall())

    def close(self) -> None:
        self._connection.close()


def execute(statement: Statement, now: Clock, fetch: Callable[[str, Sequence[Any]], list[Row]]) -> list[Row]:
    """Run the statement by `fetch`, which takes a numbered text and its values: once, or for each row of an Each."""
    text = numbered("sqlite", statement.name, None, "?")
    rows: list[Row] = []
    if isinstance(statement, Each) and not text.batched:
        columns = [[now()] * len(statement) if name == "now" else statement.columns[name] for name in text.names]
        for values in zip(*columns, strict=True):
            rows += fetch(text.sql, values)
        return rows
    rows = fetch(text.sql, bound(statement, text, now))
    return rows if text.packed is None else unpack_rows(rows[0][0], text.packed)


def statements(script: str) -> Iterator[str]:
    """The single statements of a script."""
    gathered = ""
    for line in script.splitlines(keepends=True):
        gathered += line
        if sqlite3.complete_statement(gathered):
            yield gathered
            gathered = ""
    if gathered.strip():
        yield gathered
