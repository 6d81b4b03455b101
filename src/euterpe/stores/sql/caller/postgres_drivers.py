"""asyncpg and psycopg connections: the numbered Postgres texts as they are."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, TypeVar

from euterpe.stores.sql.caller.calls import DriverCall
from euterpe.stores.sql.caller.drive import Interruption, drive, drive_sync
from euterpe.stores.sql.caller.joined import Joined, rows_of_values
from euterpe.stores.sql.caller.target import Target
from euterpe.stores.sql.program import MakeProgram, Row, Statement
from euterpe.stores.sql.statements import Family, numbered

T = TypeVar("T")


class PostgresJoined(Joined):
    family: Family = "postgres"

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def bind(self, statement: Statement, target: Target) -> Iterator[DriverCall]:
        text = numbered("postgres", statement.name, target.schema, "$")
        for values in rows_of_values(statement, text, target):
            yield DriverCall(text.sql, [values[name] for name in text.names])


class AsyncpgJoined(PostgresJoined):
    """A connection, or a pool's proxy of one."""

    is_async = True
    how_to_begin = "async with connection.transaction(): ..."

    def break_connection(self) -> None:
        self._connection.terminate()

    async def run(self, make: MakeProgram[T], target: Target) -> T:
        return await drive(self.calls(make, target), self._fetch)

    async def _fetch(self, call: DriverCall) -> list[Row]:
        if not call.params:
            await self._connection.execute(call.sql)
            return []
        rows: list[Row] = await self._connection.fetch(call.sql, *call.params)
        return rows


class PsycopgJoined(PostgresJoined):
    is_async = False
    may_change_thread = True
    how_to_begin = "with connection.transaction(): ... (or leave autocommit off)"

    def break_connection(self) -> None:
        self._connection.pgconn.finish()

    def run_sync(self, make: MakeProgram[T], target: Target, interruption: Interruption | None = None) -> T:
        psycopg = sys.modules["psycopg"]
        # A cursor of our own: the connection's factories may give rows as dictionaries, or want another placeholder.
        with psycopg.RawCursor(self._connection, row_factory=psycopg.rows.tuple_row) as cursor:

            def fetch(call: DriverCall) -> list[Row]:
                cursor.execute(call.sql, call.params or None)
                return cursor.fetchall() if cursor.description is not None else []

            return drive_sync(self.calls(make, target), fetch, interruption)


class AsyncPsycopgJoined(PostgresJoined):
    is_async = True
    how_to_begin = "async with connection.transaction(): ... (or leave autocommit off)"

    def break_connection(self) -> None:
        self._connection.pgconn.finish()

    async def run(self, make: MakeProgram[T], target: Target) -> T:
        psycopg = sys.modules["psycopg"]
        async with psycopg.AsyncRawCursor(self._connection, row_factory=psycopg.rows.tuple_row) as cursor:

            async def fetch(call: DriverCall) -> list[Row]:
                await cursor.execute(call.sql, call.params or None)
                return await cursor.fetchall() if cursor.description is not None else []

            return await drive(self.calls(make, target), fetch)
