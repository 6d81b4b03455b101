"""Django's connection, on Postgres or SQLite: `%s` texts through Django's own cursor, which logs and wraps errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any, Final, TypeVar

from euterpe.model.errors import InvalidInput
from euterpe.stores.sql.caller.calls import Calls, DriverCall
from euterpe.stores.sql.caller.drive import Interruption, drive_sync
from euterpe.stores.sql.caller.joined import Joined, rows_of_values
from euterpe.stores.sql.caller.target import Target
from euterpe.stores.sql.program import MakeProgram, Row, Statement
from euterpe.stores.sql.sqlite.library import as_sqlite
from euterpe.stores.sql.statements import Family, Text, numbered

T = TypeVar("T")

FAMILIES: Final[dict[str, Family]] = {"postgresql": "postgres", "sqlite": "sqlite"}


class DjangoJoined(Joined):
    """`django.db.connection`, or one of `django.db.connections`."""

    is_async = False
    how_to_begin = "with transaction.atomic(): ..."

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.sqlite_library = "sqlite3" if connection.vendor == "sqlite" else None

    @property
    def family(self) -> Family:
        try:
            return FAMILIES[self._connection.vendor]
        except KeyError:
            raise InvalidInput("connection", f"is to {self._connection.vendor}, which holds no queue") from None

    def bind(self, statement: Statement, target: Target) -> Iterator[DriverCall]:
        text = formatted(self.family, statement.name, target.schema)
        for values in rows_of_values(statement, text, target):
            params = [values[name] for name in text.names]
            yield DriverCall(text.sql, [as_sqlite(p) for p in params] if self.family == "sqlite" else params)

    def begin(self) -> Calls[bool]:
        yield from ()
        if not self._connection.in_atomic_block and self._connection.get_autocommit():
            raise self.no_transaction()
        return False

    def break_connection(self) -> None:
        self._connection.connection.close()  # The driver's: atomic() would end in silence after Django's own close().

    def run_sync(self, make: MakeProgram[T], target: Target, interruption: Interruption | None = None) -> T:
        with self._connection.cursor() as cursor:

            def fetch(call: DriverCall) -> list[Row]:
                cursor.execute(call.sql, call.params or None)
                return cursor.fetchall() if cursor.description is not None else []

            return drive_sync(self.calls(make, target), fetch, interruption)


@cache
def formatted(family: Family, name: str, schema: str | None) -> Text:
    """The text with a `%s` for each use of a parameter, and the names in that order."""
    text = numbered(family, name, schema, "$")
    names = tuple(text.names[int(number) - 1] for number in re.findall(r"\$(\d+)", text.sql))
    return replace(text, sql=re.sub(r"\$\d+", "%s", text.sql.replace("%", "%%")), names=names)
