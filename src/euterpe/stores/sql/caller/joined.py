"""A program on the caller's connection, as one series of calls for blocking and asynchronous drivers alike.

The series sets a savepoint, runs the program and releases it, or rolls back to it: whatever goes wrong, a cancel or a
KeyboardInterrupt included, the caller's transaction is as it was and can go on. Where even that fails, the connection
is broken on purpose: a commit that stores half and says nothing would be the worst end. It never commits.
"""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Final, TypeVar

from euterpe.model.errors import InvalidInput, SchemaMismatch, StaleLease
from euterpe.stores.sql.caller.calls import Calls, DriverCall
from euterpe.stores.sql.caller.drive import Interruption, to_the_end
from euterpe.stores.sql.caller.target import Target
from euterpe.stores.sql.json_rows import rows_of, unpack_rows
from euterpe.stores.sql.program import Each, MakeProgram, Program, Row, Statement
from euterpe.stores.sql.statements import Family, Text, text_of

T = TypeVar("T")

SAVEPOINT: Final = "SAVEPOINT euterpe_submit"
RELEASE: Final = "RELEASE SAVEPOINT euterpe_submit"
ROLL_BACK: Final = "ROLLBACK TO SAVEPOINT euterpe_submit"
NO_TRANSACTION: Final = "25P01"
NO_TABLE: Final = "42P01"
QUERY_CANCELED: Final = "57014"
LATE_CANCELS: Final = 3
UNCOMMITTABLE: Final = (
    "CREATE TEMPORARY TABLE IF NOT EXISTS euterpe_stale_attempt (job integer CONSTRAINT "
    "euterpe_a_stale_attempt_may_not_commit UNIQUE DEFERRABLE INITIALLY DEFERRED) ON COMMIT DROP",
    "INSERT INTO euterpe_stale_attempt VALUES (1), (1)",
)
"""A constraint that is looked at by the commit, and broken."""


class Joined(ABC):
    """A caller's connection. `run` is for coroutines, `run_sync` for blocking connections in code without them."""

    is_async: ClassVar[bool]
    how_to_begin: ClassVar[str]
    """Completes "open a transaction first: "."""
    may_change_thread: bool = False
    sqlite_library: str | None = None
    """Which SQLite library it belongs to, for SQLite."""

    @property
    @abstractmethod
    def family(self) -> Family: ...

    @abstractmethod
    def bind(self, statement: Statement, target: Target) -> Iterator[DriverCall]:
        """The calls that a statement makes: one, or one a row where the engine takes no arrays."""

    def begin(self) -> Calls[bool]:
        """Look for the open transaction, where a savepoint would not tell. True: it had to be begun here."""
        yield from ()
        return False

    async def run(self, make: MakeProgram[T], target: Target) -> T:
        """From a coroutine. A blocking connection blocks the loop, as any use of it does, unless it may be used from
        a thread: then the loop stays free to end the very transaction whose lock this one waits for."""
        if not self.may_change_thread:
            return self.run_sync(make, target)
        interruption = Interruption()
        visit = asyncio.to_thread(self.run_sync, make, target, interruption)
        return await to_the_end(asyncio.ensure_future(visit), interruption)

    def run_sync(self, make: MakeProgram[T], target: Target, interruption: Interruption | None = None) -> T:  # noqa: ARG002  # the asynchronous ones have only run()
        raise InvalidInput("connection", "is asynchronous; submit with `await`, or join a blocking connection")

    def calls(self, make: MakeProgram[T], target: Target) -> Calls[T]:
        """The whole visit, from the first check to the released savepoint."""
        if self.family != target.family:
            raise InvalidInput(
                "connection", f"is to {_WORDS[self.family]}, but the queue is on {_WORDS[target.family]}"
            )
        if target.file is not None:
            yield from self._check_file(target)
        begun = yield from self.begin()
        try:
            yield DriverCall(SAVEPOINT, whole=True)
        except Exception as error:
            if sqlstate_of(error) == NO_TRANSACTION:
                raise self.no_transaction() from error
            raise
        except GeneratorExit:
            raise
        except BaseException as error:
            # Set or not, nothing was written; but the interrupt may have cost the caller's transaction.
            yield from self._make_sure([SAVEPOINT, RELEASE], error)
            raise
        try:
            program = make()
            answer = yield from self._bound(program, target)
            yield DriverCall(RELEASE, whole=True)
        except GeneratorExit:
            raise  # Nobody drives us any more.
        except BaseException as error:
            yield from self._undo(error, begun=begun)
            if isinstance(error, StaleLease):
                yield from self._make_uncommittable(error)
            if is_missing_table(error):
                raise SchemaMismatch(
                    "the connection's database has no Euterpe tables, or not those of this release. Run "
                    "`euterpe migrate` on it, or open the queue once (`async with queue: ...`), before the "
                    "transaction begins. If that was done: is it the queue's own database, and does its "
                    "search_path (or the queue's ?schema=) lead to them?"
                ) from error
            raise
        return answer

    @abstractmethod
    def break_connection(self) -> None:
        """Make the caller's commit() raise: its transaction is not what the caller believes it to be."""

    def _undo(self, error: BaseException, *, begun: bool) -> Calls[None]:
        yield from self._make_sure(["ROLLBACK"] if begun else [ROLL_BACK, RELEASE], error)

    def _make_uncommittable(self, error: BaseException) -> Calls[None]:
        """A stale attempt must not commit what its handler wrote, even if the handler catches the error. Postgres then
        refuses the commit; SQLite has no way to say that, so the connection is broken."""
        if self.family == "postgres":
            yield from self._make_sure(UNCOMMITTABLE, error)
        else:
            with suppress(Exception):
                self.break_connection()

    def _make_sure(self, sqls: Sequence[str], error: BaseException) -> Calls[None]:
        try:
            for sql in sqls:
                yield from _run_with_retries(sql)
        except GeneratorExit:
            raise
        except BaseException as lost:
            # On Postgres a COMMIT would now roll back, and on SQLite do nothing, and neither would say so.
            with suppress(Exception):
                self.break_connection()
            raise error from lost

    def no_transaction(self) -> InvalidInput:
        return InvalidInput(
            "connection", f"has no open transaction, so there is nothing to join; open one first: {self.how_to_begin}"
        )

    def _check_file(self, target: Target) -> Calls[None]:
        assert target.file is not None
        if target.open_library is not None and self.sqlite_library != target.open_library:
            raise InvalidInput(
                "connection",
                f"uses the SQLite library of {self.sqlite_library}, but this process has {target.file} open by that of "
                f"{target.open_library}; two libraries on one file do not see each other's locks, and would damage it. "
                "See docs/transactions.md, SQLite",
            )
        rows = yield DriverCall("PRAGMA database_list")
        file = next((row[2] for row in rows if row[1] == "main"), "")
        if not file or os.path.realpath(file) != os.path.realpath(target.file):
            raise InvalidInput("connection", f"is to {file or 'memory'}, but the queue is in {target.file}")

    def _bound(self, program: Program[T], target: Target) -> Calls[T]:
        try:
            statement = next(program)
            while True:
                rows: list[Row] = []
                for call in self.bind(statement, target):
                    rows += yield call
                if self.family == "sqlite" and (packed := text_of("sqlite", statement.name).packed) is not None:
                    rows = unpack_rows(rows[0][0], packed)
                statement = program.send(rows)
        except StopIteration as stop:
            answer: T = stop.value
            return answer


_WORDS: Final = {"sqlite": "SQLite", "postgres": "Postgres"}


def _run_with_retries(sql: str) -> Calls[None]:
    """Again, if the server refuses it for a cancel that was meant for the statement before."""
    for _ in range(LATE_CANCELS):
        try:
            yield DriverCall(sql, whole=True)
        except Exception as error:
            if sqlstate_of(error) != QUERY_CANCELED:
                raise
        else:
            return
    yield DriverCall(sql, whole=True)


def is_missing_table(error: BaseException) -> bool:
    return sqlstate_of(error) == NO_TABLE or "no such table" in str(error)


def sqlstate_of(error: BaseException | None) -> str | None:
    """Through the wrappers that SQLAlchemy and Django put around a driver's error."""
    while error is not None:
        state = getattr(error, "sqlstate", None)
        if isinstance(state, str):
            return state
        error = getattr(error, "orig", None) or error.__cause__
    return None


def rows_of_values(statement: Statement, text: Text, target: Target) -> Iterator[Mapping[str, Any]]:
    """The values of each call by name: all at once for a statement that takes arrays, else row by row."""
    given = statement.columns if isinstance(statement, Each) else statement.params
    if text.row_names:
        rest = {name: value for name, value in given.items() if name not in text.row_names}
        yield {**rest, **rows_of(given, text.row_names), "now": target.now()}
    elif not isinstance(statement, Each) or text.batched:
        yield {**given, "now": target.now()}
    else:
        names = list(statement.columns)
        for values in zip(*statement.columns.values(), strict=True):
            yield {**dict(zip(names, values, strict=True)), "now": target.now()}
