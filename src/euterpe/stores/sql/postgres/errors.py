"""What Postgres and its driver can raise, and what each means to our callers: one classification for every statement.

Only SQLSTATE classes 22 and 23 speak of the data. A conflict with another transaction is run again at once; all else,
from a lock timeout over a full disk to an error that nobody has seen yet, is an outage that passes.
"""

from __future__ import annotations

import ssl
from typing import Final

import asyncpg

from euterpe.model.errors import CommitUnknown, DataRejected, EuterpeError, ServerNotReady, StoreUnavailable
from euterpe.stores.sql.engine import LockTimeout
from euterpe.stores.sql.migrations import no_rights, not_migrated

LOST: Final = (
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # a server that shuts down in mid-answer leaves the driver's protocol in a muddle
    OSError,
    TimeoutError,
    MemoryError,
)
"""Raised by the driver itself: whatever was sent may have been done, and the connection is of no use any more."""
FAILURES: Final = (asyncpg.PostgresError, *LOST)
DATA: Final = frozenset({"22", "23"})
LOST_CLASS: Final = "08"
LOST_STATES: Final = frozenset({"25P03", "25P04", "57P01", "57P02", "57P03", "57P04", "57P05", "53300"})
"""Sessions that the server ends: idle too long, shut down, crashed, not yet up, dropped, or one too many."""
NOT_READY_CLASSES: Final = frozenset({LOST_CLASS, "53", "57"})
PROTOCOL_VIOLATION: Final = "08P01"
"""How PgBouncer refuses an unknown user or database."""
NO_LOGIN_CLASS: Final = "28"
NO_DATABASE: Final = "3D000"
SCHEMA_CLASSES: Final = frozenset({"3F", "42"})
NO_RIGHTS: Final = "42501"
LOCK_TIMEOUT: Final = "55P03"
READ_ONLY: Final = "25006"
UNIQUE: Final = "23505"
CONFLICTS: Final = frozenset({"40001", "40P01", UNIQUE})
"""Run anew, they see more: a deadlock's winner has committed, and a row that is there twice is one whose insert we lost
sight of when the connection broke, and which was still under way when we looked for it."""


class Conflict(StoreUnavailable):
    """Lost against another transaction: run it again at once. `verdict` is what it means if that never helps."""

    def __init__(self, message: str, verdict: EuterpeError) -> None:
        super().__init__(message)
        self.verdict = verdict


def meaning(error: BaseException, *, committing: bool = False, holder: str = "") -> EuterpeError:
    """Our own error for one of FAILURES. `committing`: the commit, or a statement that is its own, had been sent.
    `holder` names the session that the statement waited for."""
    state, text = sqlstate(error), message(error)
    if is_lost(error):
        if committing:
            return CommitUnknown(f"Postgres went away during a commit: {text}", state)
        return StoreUnavailable(f"Postgres went away: {text}", state)
    if state in CONFLICTS or isinstance(error, asyncpg.InvalidCachedStatementError):
        refused = StoreUnavailable(f"Postgres refused again and again: {text}", state)
        return Conflict(f"Postgres refused: {text}", _rejected(error) if state == UNIQUE else refused)
    if state[:2] in DATA:
        return _rejected(error)
    if state == NO_RIGHTS:
        return no_rights("Postgres", text)
    if state[:2] in SCHEMA_CLASSES:
        return not_migrated("Postgres", text)
    if state == LOCK_TIMEOUT:
        return LockTimeout(f"Postgres refused: {text}", state, holder)
    return StoreUnavailable(f"Postgres refused: {text}", state)


def cannot_connect(error: BaseException) -> StoreUnavailable:
    """Our own error for one of FAILURES while connecting."""
    state = sqlstate(error)
    if isinstance(error, asyncpg.PostgresError):
        may_pass = state[:2] in NOT_READY_CLASSES and state != PROTOCOL_VIOLATION
    else:
        may_pass = isinstance(error, OSError) and not isinstance(error, ssl.SSLError)
    if state[:2] == NO_LOGIN_CLASS:
        return StoreUnavailable(f"Postgres refuses the login ({message(error)}): check user and password", state)
    if state == NO_DATABASE:
        text = f"Postgres has no such database ({message(error)}): create it, or name another in the URL"
        return StoreUnavailable(text, state)
    if isinstance(error, asyncpg.PostgresError) and not may_pass:
        return StoreUnavailable(f"Postgres refuses the connection: {message(error)}", state)
    kind = ServerNotReady if may_pass else StoreUnavailable
    return kind(f"Postgres does not answer: {message(error)}", state)


def is_lost(error: BaseException) -> bool:
    """The connection broke, or the server ended it; only then is the fate of a commit unknown."""
    if not isinstance(error, asyncpg.PostgresError):
        return not is_data(error)
    state = sqlstate(error)
    return state[:2] == LOST_CLASS or state in LOST_STATES or getattr(error, "severity", None) in ("FATAL", "PANIC")


def is_useless(error: BaseException) -> bool:
    """Whether the connection must not be used again. A session that was opened in a read-only phase may stay so after
    it, and one to a server that lost its primary's role surely does."""
    return is_lost(error) or sqlstate(error) == READ_ONLY


def is_data(error: BaseException) -> bool:
    """The driver refuses values that do not fit their column by two classes of this name, before it sends them."""
    return isinstance(error, ValueError) and isinstance(error, asyncpg.InterfaceError)


def sqlstate(error: BaseException) -> str:
    return getattr(error, "sqlstate", None) or ("22000" if is_data(error) else "")


def message(error: BaseException) -> str:
    """Without DETAIL, which quotes rows."""
    if isinstance(error, TimeoutError) and not str(error):
        return "no answer in time"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error.args[0]) if error.args else type(error).__name__


def _rejected(error: BaseException) -> DataRejected:
    """Its message may quote a value; the names of a constraint or column may not."""
    named = getattr(error, "constraint_name", None) or getattr(error, "column_name", None)
    kind = type(error).__name__.removesuffix("Error")
    return DataRejected("Postgres", sqlstate(error), f"{kind} of {named}" if named else kind)
