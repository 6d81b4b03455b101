"""libsql, a fork of SQLite: a local file, or a server over HTTP, by the same SQL and the same writer as SQLite.

Its Python driver holds the interpreter lock while it works or waits, binds integers of more than 32 bits as floats,
runs a statement again when it is read past its end, and tells errors only by their message. This file lives with all
of that; docs/libsql.md says what it means for a user.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

import libsql as driver

from euterpe.model.errors import (
    CommitUnknown,
    EuterpeError,
    InvalidInput,
    SchemaMismatch,
    StoreUnavailable,
)
from euterpe.ports import Clock
from euterpe.stores.sql.program import MakeProgram, Row, Statement
from euterpe.stores.sql.sqlite.library import Library, wait_for_lock
from euterpe.stores.sql.sqlite.python_sqlite import execute, statements
from euterpe.stores.sql.sqlite.writer import MEMORY, GroupCommitEngine

P = ParamSpec("P")
T = TypeVar("T")

REMOTE_GROUP_LIMIT: Final = 20
"""A server ends a transaction that others wait for after some seconds, and here each statement is a round trip."""
_CODES: Final = (
    ("database is locked", 5),
    ("table is locked", 6),
    ("SQLITE_BUSY", 5),
    ("readonly database", 8),
    ("disk I/O error", 10),
    ("malformed", 11),
    ("disk is full", 13),
    ("nable to open", 14),
    ("too big", 18),
    ("constraint failed", 19),
    ("SQLITE_CONSTRAINT", 19),
    ("cannot store", 19),
    ("datatype mismatch", 20),
    ("Unsupported parameter type", 25),
    ("file is not a database", 26),
    ("no such", 1),
    ("syntax error", 1),
)
_AWAY: Final = ("http error", "api error", "stream closed", "STREAM_EXPIRED", "TRANSACTION_TIMEOUT", "baton")


class LibsqlError(Exception):
    """What the driver said. It raises plain ValueErrors, which could be anybody's."""


class DriverPanic(LibsqlError):
    """The driver's own code failed; its exception is no `Exception`, and would end the writer thread."""


class LibsqlEngine(GroupCommitEngine):
    """`libsql:///jobs.db`, `libsql:////var/jobs.db`, a plain path, or `libsql://host:port?authToken=...&tls=0`."""

    def __init__(self, path_or_url: str, clock: Clock | None = None) -> None:
        address = LibsqlAddress(path_or_url)
        super().__init__(address.shown, LibsqlLibrary(address), clock)
        self._remote = address.remote
        if address.remote:
            self.path = address.shown
            self.group_limit = REMOTE_GROUP_LIMIT

    def _make_file(self) -> None:
        if not self._remote:
            super()._make_file()

    async def write(self, make: MakeProgram[T], *, patience_s: float = 0, is_small: bool = False) -> T:
        return await self._persist(
            lambda: super(LibsqlEngine, self).write(make, patience_s=patience_s, is_small=is_small), patience_s
        )

    async def read(self, make: MakeProgram[T], *, patience_s: float = 0) -> T:
        return await self._persist(lambda: super(LibsqlEngine, self).read(make), patience_s)

    async def _persist(self, run: Callable[[], Awaitable[T]], patience_s: float) -> T:
        """A file is never away; a server may be, and is asked again until patience ends."""
        deadline = time.monotonic() + (patience_s if self._remote else 0)
        pause_s = 0.05
        while True:
            try:
                return await run()
            except (CommitUnknown, SchemaMismatch):
                raise
            except StoreUnavailable:
                if not self.is_open or time.monotonic() >= deadline:
                    raise
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, 1.0)


class LibsqlAddress:
    """What a URL names. `shown` is fit for messages: it never carries the token."""

    def __init__(self, path_or_url: str) -> None:
        parts = urlsplit(path_or_url)
        options = dict(parse_qsl(parts.query))
        if unknown := options.keys() - {"authToken", "tls"}:
            raise InvalidInput(
                "engine.url",
                f"a libsql queue does not know {', '.join(sorted(unknown))}; it knows authToken and tls. An embedded "
                "replica (syncUrl) is refused: claims must see the newest state",
            )
        self.token = options.get("authToken", "")
        self.remote = bool(parts.netloc)
        if parts.scheme not in ("libsql", "http", "https"):
            self.remote, self.target = False, path_or_url
        elif self.remote:
            scheme = parts.scheme if parts.scheme != "libsql" else "http" if options.get("tls") == "0" else "https"
            self.target = f"{scheme}://{parts.netloc}{parts.path}"
        else:
            self.target = unquote(parts.path)[1:]
        if not self.target:
            raise InvalidInput("engine.url", "names no file; write libsql:///jobs.db or libsql:////absolute/jobs.db")
        if not self.remote and self.target != MEMORY:
            self.target = str(Path(self.target).absolute())
        self.shown = f"libsql://{parts.hostname}" if self.remote else self.target


class LibsqlLibrary(Library):
    name = "libsql"
    failures = (LibsqlError,)

    def __init__(self, address: LibsqlAddress) -> None:
        self._address = address

    def connect(self, path: str) -> LibsqlSession:
        # No waiting inside the driver: it would stop every thread of the process.
        connection = _guarded(
            driver.connect, self._address.target, timeout=0, isolation_level=None, auth_token=self._address.token
        )
        session = LibsqlSession(connection, self, path)
        if self._address.remote:
            return session  # The server keeps its own journal, and refuses these settings.
        try:
            for pragma in ("journal_mode = WAL", "synchronous = FULL", "cache_size = -32000",
                           "wal_autocheckpoint = 4000"):  # fmt: skip
                wait_for_lock(partial(session.run, f"PRAGMA {pragma}"), self.is_busy, path)
        except BaseException:
            session.close()
            raise
        return session

    def code_of(self, error: Exception) -> int | None:
        message = str(error)
        return next((code for words, code in _CODES if words in message), None)

    def is_lost(self, error: Exception) -> bool:
        if isinstance(error, DriverPanic) or super().is_lost(error):
            return True
        return self._address.remote and any(words in str(error) for words in _AWAY)

    def explain(self, path: str, error: Exception, *, committing: bool) -> EuterpeError:
        if not self._address.remote:
            return super().explain(path, error, committing=committing)
        message = str(error)
        if "status=401" in message or "status=403" in message:
            return StoreUnavailable(f"{path} refused the token; check authToken in the URL")
        if "TRANSACTION_TIMEOUT" in message:
            return StoreUnavailable(f"{path} ended a transaction that took too long; submit and claim smaller batches")
        if committing and self.is_lost(error):
            return CommitUnknown(f"{path} went away during a commit: {message}")
        return super().explain(path, error, committing=committing)


class LibsqlSession:
    __slots__ = ("_connection", "_path", "library")

    def __init__(self, connection: Any, library: LibsqlLibrary, path: str) -> None:
        self._connection = connection
        self._path = path
        self.library: Library = library

    @property
    def in_transaction(self) -> bool:
        return bool(self._connection.in_transaction)

    def begin(self, patience_s: float) -> None:
        wait_for_lock(lambda: self.run("BEGIN IMMEDIATE"), self.library.is_busy, self._path, patience_s)

    def begin_at_once(self) -> bool:
        return False  # It may be a server, and this library cannot commit without a checkpoint.

    def commit(self, *, is_small: bool) -> None:  # noqa: ARG002  # nor one with a checkpoint of its own
        self.run("COMMIT")

    def commit_at_once(self) -> None:
        self.run("COMMIT")

    def run(self, sql: str) -> list[Row]:
        return fetch(self._connection, sql, ())

    def run_script(self, sql: str) -> None:
        for statement in statements(sql):  # executescript() swallows errors, and a server cannot parse it
            self.run(statement)

    def execute(self, statement: Statement, now: Clock) -> list[Row]:
        return execute(statement, now, lambda sql, params: fetch(self._connection, sql, params))

    def close(self) -> None:
        self._connection.close()


def fetch(connection: Any, sql: str, params: Sequence[Any]) -> list[Row]:
    """Run a `?1` text and read it to its end, once: reading on would run it again, stopping early block the commit."""
    wide = tuple(i for i, value in enumerate(params, 1) if type(value) is int and not -(2**31) <= value < 2**31)
    if wide:
        sql = _with_casts(sql, wide)
    cursor = _guarded(connection.execute, sql, tuple(map(_bindable, params)))
    try:
        rows: list[Row] | None = _guarded(cursor.fetchall)
        return rows or []
    finally:
        cursor.close()


@lru_cache(maxsize=1024)
def _with_casts(sql: str, wide: tuple[int, ...]) -> str:
    """Wide integers travel as text: the driver would make floats of them."""

    def cast(match: re.Match[str]) -> str:
        return f"CAST({match[0]} AS INTEGER)" if int(match[1]) in wide else match[0]

    return re.sub(r"\?(\d+)", cast, sql)


def _bindable(value: object) -> object:
    if type(value) is int:
        return value if -(2**31) <= value < 2**31 else str(value)
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    return value


def _guarded(call: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    try:
        return call(*args, **options)
    except ValueError as error:
        raise LibsqlError(str(error)) from error
    except Exception:
        raise
    except BaseException as panic:
        if type(panic).__name__ != "PanicException":
            raise
        raise DriverPanic(f"the libsql driver failed: {panic}") from panic
