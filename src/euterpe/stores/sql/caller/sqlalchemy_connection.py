"""SQLAlchemy sessions and connections, blocking or asynchronous, on Postgres or SQLite: texts with `:name` parameters.

The asynchronous ones run the blocking code inside SQLAlchemy's own bridge (`run_sync`), so there is one way.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from typing import Any, Final, TypeVar

from euterpe.model.errors import InvalidInput
from euterpe.stores.sql.caller.calls import Calls, DriverCall
from euterpe.stores.sql.caller.drive import Interruption, drive_sync, to_the_end
from euterpe.stores.sql.caller.joined import Joined, rows_of_values
from euterpe.stores.sql.caller.sqlite_drivers import BEGIN, begins_by_itself
from euterpe.stores.sql.caller.target import Target
from euterpe.stores.sql.program import MakeProgram, Row, Statement
from euterpe.stores.sql.sqlite.library import as_sqlite
from euterpe.stores.sql.statements import Family, text_of

T = TypeVar("T")

FAMILIES: Final[dict[str, Family]] = {"postgresql": "postgres", "sqlite": "sqlite"}
UNDO_TIMEOUT_S: Final = 1.0
"""SQLAlchemy throws the connection away under a statement that is cancelled; one that waits for no lock ends sooner."""
SQLITE_DRIVERS: Final = ("pysqlite", "aiosqlite")


class SqlalchemyJoined(Joined):
    """A Session or a Connection."""

    is_async = False
    how_to_begin = 'leave the isolation level "AUTOCOMMIT" off for this connection'

    def __init__(self, session_or_connection: Any) -> None:
        session = session_or_connection
        if hasattr(session, "registry"):
            session = session.registry()
        self._connection = session.connection() if hasattr(session, "get_bind") else session
        self._dialect = self._connection.dialect
        if self.family == "sqlite" and self._dialect.driver not in SQLITE_DRIVERS:
            raise InvalidInput("connection", f"SQLAlchemy's SQLite driver {self._dialect.driver} cannot be joined")
        self.sqlite_library = "sqlite3" if self.family == "sqlite" else None
        self.may_change_thread = self.family == "postgres"

    @property
    def family(self) -> Family:
        try:
            return FAMILIES[self._dialect.name]
        except KeyError:
            raise InvalidInput("connection", f"is to {self._dialect.name}, which holds no queue") from None

    def bind(self, statement: Statement, target: Target) -> Iterator[DriverCall]:
        text = text_of(self.family, statement.name, target.schema)
        adapt = as_sqlite if self.family == "sqlite" else _same
        for values in rows_of_values(statement, text, target):
            yield DriverCall(text.sql, {name: adapt(values[name]) for name in text.names})

    def begin(self) -> Calls[bool]:
        if self.family != "sqlite":
            return False
        yield DriverCall("SELECT 1")  # SQLAlchemy begins by itself, and may be set up to tell SQLite so
        raw = self._connection.connection.driver_connection
        if raw.in_transaction:
            return False
        if not begins_by_itself(raw):
            raise self.no_transaction()
        yield DriverCall(BEGIN, whole=True)
        return False  # It is the session's transaction now, and its to roll back.

    def break_connection(self) -> None:
        self._connection.invalidate()

    def run_sync(self, make: MakeProgram[T], target: Target, interruption: Interruption | None = None) -> T:
        return drive_sync(self.calls(make, target), self._fetch, interruption)

    def _fetch(self, call: DriverCall) -> list[Row]:
        text = sys.modules["sqlalchemy"].text
        result = self._connection.execute(text(call.sql), call.params or {})
        return result.fetchall() if result.returns_rows else []


class AsyncSqlalchemyJoined(Joined):
    """An AsyncSession or an AsyncConnection."""

    is_async = True
    how_to_begin = SqlalchemyJoined.how_to_begin

    def __init__(self, session_or_connection: Any) -> None:
        self._outer = (
            session_or_connection.registry() if hasattr(session_or_connection, "registry") else session_or_connection
        )

    @property
    def family(self) -> Family:
        raise NotImplementedError("known inside SQLAlchemy's bridge only")

    def bind(self, statement: Statement, target: Target) -> Iterator[DriverCall]:
        raise NotImplementedError("done inside SQLAlchemy's bridge")

    def break_connection(self) -> None:
        raise NotImplementedError("done inside SQLAlchemy's bridge")

    async def run(self, make: MakeProgram[T], target: Target) -> T:
        interruption = Interruption()
        visit = self._outer.run_sync(lambda inner: SqlalchemyJoined(inner).run_sync(make, target, interruption))
        return await to_the_end(asyncio.ensure_future(visit), interruption, UNDO_TIMEOUT_S)


def _same(value: object) -> object:
    return value
