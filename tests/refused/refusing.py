"""A database that refuses a chosen statement. On Postgres the server itself raises the error, on SQLite the session."""

from __future__ import annotations

from typing import Any, Final

import apsw
import pytest

from euterpe.model.errors import CommitUnknown, DataRejected, SchemaMismatch, StoreUnavailable
from euterpe.ports import Clock
from euterpe.stores.sql.engine import LockTimeout
from euterpe.stores.sql.postgres.engine import PostgresEngine
from euterpe.stores.sql.program import Row, Statement
from euterpe.stores.sql.sqlite.engine import ApswSession

RUN_AGAIN: Final = None
"""The engine runs the program again by itself, and the caller hears nothing of it."""

POSTGRES: Final[dict[str, type[Exception] | None]] = {
    "08006": StoreUnavailable,  # connection failure
    "0A000": StoreUnavailable,  # feature not supported
    "22003": DataRejected,  # numeric value out of range
    "22P05": DataRejected,  # untranslatable character
    "23502": DataRejected,  # not null violation
    "23505": RUN_AGAIN,  # unique violation
    "23514": DataRejected,  # check violation
    "25006": StoreUnavailable,  # read-only transaction: a fail-over
    "25P03": StoreUnavailable,  # idle in transaction too long
    "3F000": SchemaMismatch,  # the schema is away
    "40001": RUN_AGAIN,  # serialization failure
    "40P01": RUN_AGAIN,  # deadlock
    "42501": SchemaMismatch,  # no rights
    "42P01": SchemaMismatch,  # no such table
    "53100": StoreUnavailable,  # disk full
    "53200": StoreUnavailable,  # out of memory
    "53300": StoreUnavailable,  # too many connections
    "55P03": LockTimeout,  # lock timeout
    "57014": StoreUnavailable,  # query cancelled
    "57P01": StoreUnavailable,  # admin shutdown
    "58030": StoreUnavailable,  # I/O error
    "P0001": StoreUnavailable,  # raised by somebody's trigger
    "XX000": StoreUnavailable,  # internal error
    "XX001": StoreUnavailable,  # data corrupted
}
"""What our callers are told for each SQLSTATE. Where the connection is lost a lone statement may have been committed,
and CommitUnknown, which is a StoreUnavailable, is told."""

LOST: Final = frozenset({"08006", "25P03", "53300", "57P01"})

SQLITE: Final[dict[str, type[Exception] | None]] = {
    "SQLError": SchemaMismatch,
    "PermissionsError": StoreUnavailable,
    "AbortError": StoreUnavailable,
    "BusyError": StoreUnavailable,
    "LockedError": StoreUnavailable,
    "NoMemError": StoreUnavailable,
    "ReadOnlyError": StoreUnavailable,
    "InterruptError": StoreUnavailable,
    "IOError": StoreUnavailable,
    "CorruptError": StoreUnavailable,
    "FullError": StoreUnavailable,
    "CantOpenError": StoreUnavailable,
    "TooBigError": DataRejected,
    "ConstraintError": DataRejected,
    "MismatchError": DataRejected,
    "RangeError": DataRejected,
    "NotADBError": StoreUnavailable,
}
CODES: Final = {
    "SQLError": 1, "PermissionsError": 3, "AbortError": 4, "BusyError": 5, "LockedError": 6, "NoMemError": 7,
    "ReadOnlyError": 8, "InterruptError": 9, "IOError": 10, "CorruptError": 11, "FullError": 13, "CantOpenError": 14,
    "TooBigError": 18, "ConstraintError": 19, "MismatchError": 20, "RangeError": 25, "NotADBError": 26,
}  # fmt: skip
WORDS: Final = {"SQLError": "no such table: inbox_jobs", "ConstraintError": "CHECK constraint failed: x"}
ENDS_TRANSACTION: Final = frozenset({"FullError", "IOError", "NoMemError", "InterruptError"})
"""SQLite may roll back the whole transaction by itself before it says so."""


class Refusals:
    """Refuses the statement number `at` once, or all of them while `always`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.code = ""
        self.always = False
        self.fired = 0
        self._left = -1
        of_postgres, of_sqlite = PostgresEngine.execute, ApswSession.execute

        async def execute(
            engine: PostgresEngine, connection: Any, statement: Statement, timeout_s: float | None = None
        ) -> list[Row]:
            if self._is_due():
                await connection.execute(
                    f"DO $$ BEGIN RAISE EXCEPTION 'refused by the test' USING ERRCODE = '{self.code}'; END $$"
                )
            return await of_postgres(engine, connection, statement, timeout_s)

        def execute_in_thread(session: ApswSession, statement: Statement, now: Clock) -> list[Row]:
            if self._is_due():
                if self.code in ENDS_TRANSACTION and session.in_transaction:
                    session.run("ROLLBACK")
                error = getattr(apsw, self.code)(WORDS.get(self.code, "refused by the test"))
                error.result = CODES[self.code]
                raise error
            return of_sqlite(session, statement, now)

        monkeypatch.setattr(PostgresEngine, "execute", execute)
        monkeypatch.setattr(ApswSession, "execute", execute_in_thread)

    def refuse(self, code: str, at: int) -> None:
        self.code, self._left, self.fired = code, at, 0

    def refuse_all(self, code: str) -> None:
        self.code, self.always, self.fired = code, True, 0

    def stop(self) -> None:
        self.always, self._left = False, -1

    def _is_due(self) -> bool:
        self._left -= 1
        if self.always or self._left == -1:
            self.fired += 1
            return True
        return False


def expected(engine: str) -> dict[str, type[Exception] | None]:
    return POSTGRES if engine == "postgres" else SQLITE


def fits(error: BaseException | None, wanted: type[Exception] | None, code: str) -> bool:
    """Exactly that error; where the connection broke, the one that admits not to know as well."""
    if error is None:
        return wanted is None or code in LOST  # a submit or a report whose commit is unknown asks again by itself
    return type(error) is wanted or (code in LOST and type(error) is CommitUnknown)
