"""A transaction as a generator: it yields statements and is sent their rows.

The logic of the store is written once, without I/O. Each driver (apsw in a writer thread, asyncpg, a caller's own
psycopg, SQLAlchemy or sqlite3 connection) only pumps the generator, so there is no sync and async twin to keep in
step, and a program that hit a deadlock is simply made anew and run again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

Row = Any
"""A driver's row: a tuple or a record, read by position."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class One:
    """Run the named statement once."""

    name: str
    params: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Each:
    """Run the named statement for every row of these columns; the rows that come back are joined.

    An engine that has an UNNEST text runs it once with arrays; the others run the one-row text n times.
    """

    name: str
    columns: Mapping[str, Sequence[Any]]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))


Statement = One | Each
Program = Generator[Statement, list[Row], T]
MakeProgram = Callable[[], Program[T]]


def one(name: str, /, **params: Any) -> One:
    return One(name, params)


def each(name: str, /, **columns: Sequence[Any]) -> Each:
    return Each(name, columns)


def run_sync(program: Program[T], execute: Callable[[Statement], list[Row]]) -> T:
    """Pump a program with a blocking driver."""
    try:
        statement = next(program)
        while True:
            statement = program.send(execute(statement))
    except StopIteration as stop:
        answer: T = stop.value
        return answer
