"""What the writer needs of a SQLite library, and how to wait for a lock where the library cannot."""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

import msgspec

from euterpe.model.errors import DatabaseLocked, DataRejected, EuterpeError, StoreUnavailable
from euterpe.ports import Clock
from euterpe.stores.sql.json_rows import rows_of
from euterpe.stores.sql.migrations import not_migrated
from euterpe.stores.sql.program import Each, Row, Statement
from euterpe.stores.sql.statements import Text

T = TypeVar("T")

LOCK_PATIENCE_S: Final = 30.0
CHECKPOINT_PAGES: Final = 4000
"""A checkpoint costs an fsync of the database file; fewer and larger ones cost less a job."""
SMALL_CHECKPOINT_PAGES: Final = 1000
"""The same after commits of a few pages each. One that makes the WAL longer takes the disk twice as long as one that
writes over what is there, so a WAL that starts over sooner costs them less."""
BUSY: Final = frozenset({5, 6})
DATA: Final = {
    18: "a value is too big",
    19: "a constraint",
    20: "a value of the wrong type",
    25: "a value out of range",
}
UNBINDABLE: Final = (OverflowError, TypeError, UnicodeError)
"""A library raises these for a value that it cannot bind, before SQLite sees it."""
SQL_ERROR: Final = 1
BAD_JSON: Final = "malformed JSON"
REOPEN: Final = frozenset({8, 11, 14, 21, 26})
"""Read-only, damaged, cannot be opened, misused, no database: the session would go on saying so after the cause is
gone."""
CONSTRAINT: Final = 19
OF_THE_DATA: Final = ("constraint failed", "CONSTRAINT", "cannot store")
"""A trigger of somebody else's that raises has the code of a constraint, and its own words."""
HINTS: Final = {
    5: "another process holds its lock; nothing was written, try again",
    6: "another connection holds its lock; nothing was written, try again",
    7: "there is no memory left; nothing was written, try again",
    8: "the file is read-only",
    10: "the disk failed to read or write; look at the system's log",
    11: "the file is damaged; restore it from a backup",
    13: "the disk is full; free some space, nothing that was acknowledged is lost",
    14: "the file cannot be opened; check that its folder exists and is writable",
    26: "the file is not a SQLite database",
}


class Session(Protocol):
    """A connection of some SQLite library. One thread uses it at a time."""

    @property
    def library(self) -> Library: ...

    @property
    def in_transaction(self) -> bool: ...

    def begin(self, patience_s: float) -> None:
        """BEGIN IMMEDIATE, waiting so long for other writers, and never longer than LOCK_PATIENCE_S. A transaction that
        starts as a reader can only fail later."""
        ...

    def begin_at_once(self) -> bool:
        """`begin` where that waits for nobody, and `commit_at_once` will not either but for the disk; whether it did.
        A library that cannot tell says no."""
        ...

    def commit(self, *, is_small: bool) -> None:
        """With a checkpoint, if one is due. `is_small`: others like this one come before and after it."""
        ...

    def commit_at_once(self) -> None:
        """Without a checkpoint, which may take the disk many times as long as a commit."""
        ...

    def run(self, sql: str) -> list[Row]:
        """A statement without parameters."""
        ...

    def run_script(self, sql: str) -> None:
        """Several statements, inside the transaction that is open."""
        ...

    def execute(self, statement: Statement, now: Clock) -> list[Row]: ...

    def close(self) -> None: ...


class Library(ABC):
    """A SQLite library: how to connect, and what its errors mean. Codes are SQLite's own result codes."""

    name: str
    failures: tuple[type[Exception], ...]

    @abstractmethod
    def connect(self, path: str) -> Session: ...

    @abstractmethod
    def code_of(self, error: Exception) -> int | None:
        """The primary result code, where it can be told."""

    def is_busy(self, error: Exception) -> bool:
        """Somebody else has the lock, and nobody waited for it yet."""
        return isinstance(error, self.failures) and self.code_of(error) in BUSY

    def is_programs_fault(self, error: Exception) -> bool:
        """The statement was refused, and nobody else's work is in doubt."""
        code = self.code_of(error)
        return code in DATA or code == SQL_ERROR

    def is_lost(self, error: Exception) -> bool:
        """The session is of no use any more."""
        return self.code_of(error) in REOPEN

    def is_unmigrated(self, error: Exception) -> bool:
        """A table or column of ours is not there."""
        missing = ("no such table", "no such column", "has no column named")
        return self.code_of(error) == SQL_ERROR and any(words in str(error) for words in missing)

    def explain(self, path: str, error: Exception, *, committing: bool) -> EuterpeError:  # noqa: ARG002  # a file does not hang up
        """Our own error for one of `failures`. Only what speaks of the data is final; all else passes."""
        code = self.code_of(error) or 0
        if code in DATA and not _is_of_a_trigger(code, str(error)):
            return DataRejected(f"SQLite at {path}", f"SQLite {code}", DATA[code])
        if code == SQL_ERROR and BAD_JSON in str(error):
            return DataRejected(f"SQLite at {path}", f"SQLite {code}", "a value that is no JSON")
        if self.is_unmigrated(error):
            return not_migrated(f"SQLite at {path}", error)
        return StoreUnavailable(f"SQLite at {path}: {HINTS.get(code, str(error))}", f"SQLite {code}")


def _is_of_a_trigger(code: int, message: str) -> bool:
    return code == CONSTRAINT and not any(words in message for words in OF_THE_DATA)


def unbindable(path: str, error: Exception) -> DataRejected:
    return DataRejected(f"SQLite at {path}", type(error).__name__, "a value that cannot be stored")


def system_clock() -> int:
    return time.time_ns() // 1000


def nap() -> None:
    """Between two tries for a lock. Short and random: SQLite has no queue for writers, long naps starve the sleeper."""
    time.sleep(random.uniform(0.0002, 0.002))


def wait_for_lock(
    attempt: Callable[[], T], is_busy: Callable[[Exception], bool], path: str, patience_s: float = LOCK_PATIENCE_S
) -> T:
    """Try until the lock is free, for drivers whose own waiting cannot be trusted."""
    patience_s = min(patience_s, LOCK_PATIENCE_S)
    deadline = time.monotonic() + patience_s
    while True:
        try:
            return attempt()
        except Exception as error:
            if not is_busy(error):
                raise
            if time.monotonic() >= deadline:
                raise lock_held(path, patience_s) from error
        nap()


def lock_held(path: str, waited_s: float) -> DatabaseLocked:
    holder = f"another process has held the write lock for {waited_s:.0f} s or more"
    return DatabaseLocked(f"SQLite at {path} is locked", "SQLite 5", holder)


def as_sqlite(value: object) -> object:
    """A list travels as JSON, for the texts' `json_each`."""
    return msgspec.json.encode(value).decode() if isinstance(value, list) else value


def bound(statement: Statement, text: Text, now: Clock) -> tuple[Any, ...]:
    """The values of a text that runs once, in the order of its numbers."""
    given = statement.columns if isinstance(statement, Each) else statement.params
    if text.row_names:
        given = {**given, **rows_of(given, text.row_names)}
    values = [now() if name == "now" else given[name] for name in text.names]
    return tuple(map(as_sqlite, values) if list in map(type, values) else values)
