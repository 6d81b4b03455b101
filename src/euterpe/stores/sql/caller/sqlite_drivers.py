"""sqlite3, aiosqlite, apsw and libsql connections: the numbered SQLite texts as they are."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final, TypeVar

from euterpe.stores.sql.caller.calls import Calls, DriverCall
from euterpe.stores.sql.caller.drive import Interruption, drive, drive_sync
from euterpe.stores.sql.caller.joined import Joined, rows_of_values
from euterpe.stores.sql.caller.target import Target
from euterpe.stores.sql.program import MakeProgram, Row, Statement
from euterpe.stores.sql.sqlite.library import as_sqlite
from euterpe.stores.sql.statements import Family, numbered

T = TypeVar("T")

BEGIN = "BEGIN IMMEDIATE"
STOP_S: Final = 5.0
"""For a thread of aiosqlite to end the statement that it is at."""
UNCOMMITTABLE: Final = (
    "PRAGMA foreign_keys = ON",
    "BEGIN",
    "CREATE TEMP TABLE euterpe_undo_failed (id INTEGER PRIMARY KEY)",
    "CREATE TEMP TABLE euterpe_roll_back (id REFERENCES euterpe_undo_failed(id) DEFERRABLE INITIALLY DEFERRED)",
    "INSERT INTO euterpe_roll_back VALUES (1)",
)
"""A reference to a row that is not there, which is looked for at the commit."""


class SqliteJoined(Joined):
    """SAVEPOINT would begin a transaction by itself and RELEASE commit it, so the open one is looked for first."""

    family: Family = "sqlite"
    how_to_begin = 'connection.execute("BEGIN IMMEDIATE")'

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def bind(self, statement: Statement, target: Target) -> Iterator[DriverCall]:
        text = numbered("sqlite", statement.name, None, "?")
        for values in rows_of_values(statement, text, target):
            yield DriverCall(text.sql, [as_sqlite(values[name]) for name in text.names])

    def break_connection(self) -> None:
        self._connection.close()

    def begin(self) -> Calls[bool]:
        if self._connection.in_transaction:
            return False
        if not begins_by_itself(self._connection):
            raise self.no_transaction()
        yield DriverCall(BEGIN, whole=True)
        return True


def begins_by_itself(connection: Any) -> bool:
    """The usual mode of Python's sqlite3: the first write opens a transaction, which `commit()` ends. So we may too."""
    return (
        getattr(connection, "isolation_level", None) is not None and getattr(connection, "autocommit", -1) is not True
    )


class PythonSqliteJoined(SqliteJoined):
    is_async = False
    sqlite_library = "sqlite3"

    def break_connection(self) -> None:
        # A closed connection keeps its locks as long as a cursor of it lives, which an exception may hold for long.
        self._connection.rollback()
        self._connection.close()

    def run_sync(self, make: MakeProgram[T], target: Target, interruption: Interruption | None = None) -> T:
        cursor = self._connection.cursor()
        cursor.row_factory = None
        text_factory, self._connection.text_factory = self._connection.text_factory, str
        try:
            return drive_sync(
                self.calls(make, target), lambda call: cursor.execute(call.sql, call.params).fetchall(), interruption
            )
        finally:
            with suppress(sqlite3.ProgrammingError):  # it was broken on purpose
                self._connection.text_factory = text_factory
                cursor.close()


class AiosqliteJoined(SqliteJoined):
    is_async = True
    sqlite_library = "sqlite3"
    how_to_begin = 'await connection.execute("BEGIN IMMEDIATE")'

    _stopped: asyncio.Future[object] | None = None

    def break_connection(self) -> None:
        self._stopped = self._connection.stop()

    async def run(self, make: MakeProgram[T], target: Target) -> T:
        async def fetch(call: DriverCall) -> list[Row]:
            return [tuple(row) for row in await self._connection.execute_fetchall(call.sql, call.params)]

        try:
            return await drive(self.calls(make, target), fetch)
        finally:
            if self._stopped is not None:
                # A close() by the caller before its thread has ended would wait for that thread for ever.
                await asyncio.wait({self._stopped}, timeout=STOP_S)


class ApswJoined(SqliteJoined):
    is_async = False
    sqlite_library = "apsw"

    def run_sync(self, make: MakeProgram[T], target: Target, interruption: Interruption | None = None) -> T:
        cursor = self._connection.cursor()
        # Cursors of their own traces: the connection's may turn rows into something else.
        cursor.row_trace = None
        return drive_sync(
            self.calls(make, target), lambda call: cursor.execute(call.sql, call.params).fetchall(), interruption
        )


class LibsqlJoined(SqliteJoined):
    is_async = False
    sqlite_library = "libsql"

    def break_connection(self) -> None:
        """The driver's commit() says nothing where no transaction is open, and a closed connection panics at its next
        use. So a transaction is left open that cannot be committed, and that locks nothing."""
        with suppress(Exception):  # the transaction may be gone already
            self._connection.execute("ROLLBACK")
        try:
            for sql in UNCOMMITTABLE:
                self._connection.execute(sql)
        except Exception:
            self._connection.close()
            raise

    def run_sync(self, make: MakeProgram[T], target: Target, interruption: Interruption | None = None) -> T:
        from euterpe.stores.sql.sqlite.libsql import fetch

        return drive_sync(
            self.calls(make, target), lambda call: fetch(self._connection, call.sql, call.params), interruption
        )
