"""Migrated databases at the price of a copy. A migration makes some seventy files on Postgres and costs more than most
tests that need one.

On SQLite a migrated file is copied. On Postgres a schema that a test has given back is emptied and lent again, each
time under another name: whatever a test left behind, no connection of its own can find the tables of the next. The
server keeps the spare ones, so every process of the session draws from the same heap, the runs of planted bugs too.
A schema whose tables, triggers, rights or the like were changed is dropped and never lent again.
"""

from __future__ import annotations

import asyncio
import atexit
import hashlib
import os
import secrets
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

from euterpe.stores.sql.migrations import migrations
from euterpe.stores.sql.postgres.engine import PostgresEngine
from euterpe.stores.sql.postgres.session import split_url
from euterpe.stores.sql.sqlite.engine import SqliteEngine

MOST_BYTES: Final = 1 << 20
"""Larger tables are truncated: deleted rows keep their pages, which every look would read. Small ones are emptied in a
few milliseconds, and TRUNCATE makes a new file for each index."""

MOST_DEADLOCKS: Final = 5
LOCK_PATIENCE: Final = "30s"
"""A test that left a transaction open shall fail by name, and not hang. A vacuum lets go when it is asked to, but on a
busy machine not at once."""

CATALOG: Final = """
SELECT md5(string_agg(entry, ',' ORDER BY entry)) FROM (
    SELECT format('class %%s %%s %%s', oid, xmin, relacl) FROM pg_class WHERE relnamespace = %(schema)s
    UNION ALL SELECT format('column %%s %%s %%s', attrelid, attnum, xmin) FROM pg_attribute
        WHERE attrelid IN (SELECT oid FROM pg_class WHERE relnamespace = %(schema)s)
    UNION ALL SELECT format('default %%s %%s', oid, xmin) FROM pg_attrdef
        WHERE adrelid IN (SELECT oid FROM pg_class WHERE relnamespace = %(schema)s)
    UNION ALL SELECT format('index %%s %%s', indexrelid, xmin) FROM pg_index
        WHERE indrelid IN (SELECT oid FROM pg_class WHERE relnamespace = %(schema)s)
    UNION ALL SELECT format('trigger %%s %%s', oid, xmin) FROM pg_trigger
        WHERE tgrelid IN (SELECT oid FROM pg_class WHERE relnamespace = %(schema)s)
    UNION ALL SELECT format('rule %%s %%s', oid, xmin) FROM pg_rewrite
        WHERE ev_class IN (SELECT oid FROM pg_class WHERE relnamespace = %(schema)s)
    UNION ALL SELECT format('policy %%s %%s', oid, xmin) FROM pg_policy
        WHERE polrelid IN (SELECT oid FROM pg_class WHERE relnamespace = %(schema)s)
    UNION ALL SELECT format('constraint %%s %%s', oid, xmin) FROM pg_constraint WHERE connamespace = %(schema)s
    UNION ALL SELECT format('function %%s %%s', oid, xmin) FROM pg_proc WHERE pronamespace = %(schema)s
    UNION ALL SELECT format('type %%s %%s', oid, xmin) FROM pg_type WHERE typnamespace = %(schema)s
    UNION ALL SELECT format('schema %%s %%s', nspowner, nspacl) FROM pg_namespace WHERE oid = %(schema)s
) AS entries (entry)
"""
"""Every change of a catalog's row is a new row with an xmin of its own; only VACUUM and ANALYZE write in place."""

TABLES: Final = """
SELECT relname, pg_relation_size(oid) FROM pg_class
WHERE relnamespace = %(schema)s AND relkind = 'r' AND relname <> 'euterpe_migrations' ORDER BY relname
"""
SEQUENCES: Final = """
SELECT setval(oid::regclass, 1, false) FROM pg_class WHERE relnamespace = %(schema)s AND relkind = 'S'
"""


def digest(family: str) -> str:
    """Of the migrations that are loaded here: a planted bug may have changed one."""
    known = migrations("postgres" if family == "postgres" else "sqlite")
    return hashlib.sha256(repr([(m.version, m.name, m.sql) for m in known]).encode()).hexdigest()[:12]


def run(work: Coroutine[Any, Any, Any]) -> None:
    """On a loop of its own, whatever loop this thread has."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, work).result()


@cache
def sqlite_template(folder: Path) -> Path:
    """A migrated file in `folder`, which all processes of the session share."""
    path = folder / f"{digest('sqlite')}.db"
    if not path.exists():
        mine = folder / f"{secrets.token_hex(6)}.db"
        run(SqliteEngine(str(mine)).migrate())
        mine.replace(path)
    return path


class SpareSchemas:
    """`session` keeps the schemas of two sessions on one server apart."""

    def __init__(
        self, url: str, session: str, furnish: Callable[[str], Coroutine[Any, Any, None]] | None = None
    ) -> None:
        """With `furnish`, which is told the URL of each new schema and adds to its tables, they are of another heap."""
        self._url = url
        self._session = f"spare_{session}_"
        self._furnish = furnish
        self._fitting = f"{self._session}{digest('postgres')}_{furnish.__name__ if furnish else 'plain'}_"

    @contextmanager
    def lent(self) -> Iterator[str]:
        """The URL of a migrated schema without a row in it."""
        name = f"test_{secrets.token_hex(6)}"
        connection = self._connection()
        lent = any(_renamed(connection, spare, name) for spare in self._spares(connection))
        url = with_schema(self._url, name)
        if not lent:
            run(PostgresEngine(url).migrate())
            if self._furnish is not None:
                run(self._furnish(url))
            _note_catalog(connection, name)
        yield url
        for attempt in count(1):
            try:
                return self._take_back(self._connection(), name)
            except psycopg.errors.LockNotAvailable as held:
                raise TimeoutError("a transaction of the test is still open") from held
            except psycopg.errors.DeadlockDetected:
                # The backend of a killed process ends its last statement, and locks the tables in an order of its own.
                if attempt == MOST_DEADLOCKS:
                    raise

    def drop_all(self) -> None:
        """For the end of a session on a server that stays."""
        connection = self._connection()
        names = connection.execute("SELECT nspname FROM pg_namespace").fetchall()
        for (name,) in names:
            if name.startswith(self._session):
                connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(name)))

    def _connection(self) -> psycopg.Connection:
        return _connection(self._url)

    def _spares(self, connection: psycopg.Connection) -> list[str]:
        names = connection.execute("SELECT nspname FROM pg_namespace ORDER BY random()").fetchall()
        return [name for (name,) in names if name.startswith(self._fitting)]

    def _take_back(self, connection: psycopg.Connection, name: str) -> None:
        schema = sql.Identifier(name)
        (lent_as,) = connection.execute("SELECT obj_description(%s::regnamespace)", [name]).fetchone() or (None,)
        tables = connection.execute(TABLES, {"schema": _oid(connection, name)}).fetchall()
        is_whole = _catalog(connection, name) == lent_as and _ledger(connection, name) == _versions()
        if not is_whole:
            connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(schema))
            return
        names = [sql.Identifier(name, table) for table, _ in tables]
        with connection.transaction():
            connection.execute(sql.SQL("LOCK TABLE {}").format(sql.SQL(", ").join(names)))
            if sum(size for _, size in tables) > MOST_BYTES:
                connection.execute(sql.SQL("TRUNCATE {}").format(sql.SQL(", ").join(names)))
                _note_catalog(connection, name)
            else:
                connection.execute(sql.SQL(";").join(sql.SQL("DELETE FROM {}").format(table) for table in names))
            connection.execute(SEQUENCES, {"schema": _oid(connection, name)})
            spare = f"{self._fitting}{secrets.token_hex(6)}"
            connection.execute(sql.SQL("ALTER SCHEMA {} RENAME TO {}").format(schema, sql.Identifier(spare)))


def empty_schema(url: str) -> None:
    """Of all rows, and it stays with its test."""
    dsn, options = split_url(url)
    connection = _connection(dsn)
    tables = connection.execute(TABLES, {"schema": _oid(connection, options["schema"])}).fetchall()
    names = [sql.Identifier(options["schema"], table) for table, _ in tables]
    connection.execute(sql.SQL(";").join(sql.SQL("DELETE FROM {}").format(table) for table in names))


def _connection(url: str) -> psycopg.Connection:
    """That of this process: new ones for each test would cost as much as many a test."""
    try:
        _kept(url, LOCK_PATIENCE).execute("SELECT 1")
    except psycopg.OperationalError:  # A test has cut all connections.
        _kept.cache_clear()
    return _kept(url, LOCK_PATIENCE)


@cache
def _kept(url: str, lock_patience: str) -> psycopg.Connection:
    connection = psycopg.connect(url, autocommit=True, options=f"-c lock_timeout={lock_patience}")
    atexit.register(connection.close)
    return connection


def _renamed(connection: psycopg.Connection, spare: str, name: str) -> bool:
    """False if another process was quicker."""
    with suppress(psycopg.errors.InvalidSchemaName, psycopg.errors.InternalError):
        rename = sql.SQL("ALTER SCHEMA {} RENAME TO {}").format(sql.Identifier(spare), sql.Identifier(name))
        connection.execute(rename)
        return True
    return False


def _oid(connection: psycopg.Connection, name: str) -> int:
    (oid,) = connection.execute("SELECT oid FROM pg_namespace WHERE nspname = %s", [name]).fetchone() or (0,)
    return int(oid)


def _catalog(connection: psycopg.Connection, name: str) -> str:
    (found,) = connection.execute(CATALOG, {"schema": _oid(connection, name)}).fetchone() or ("",)
    return str(found)


def _note_catalog(connection: psycopg.Connection, name: str) -> None:
    """The schema as it is now is whole."""
    catalog = sql.Literal(_catalog(connection, name))
    connection.execute(sql.SQL("COMMENT ON SCHEMA {} IS {}").format(sql.Identifier(name), catalog))


def _ledger(connection: psycopg.Connection, name: str) -> list[int]:
    ledger = sql.SQL("SELECT version FROM {} ORDER BY version").format(sql.Identifier(name, "euterpe_migrations"))
    return [version for (version,) in connection.execute(ledger).fetchall()]


def _versions() -> list[int]:
    return [migration.version for migration in migrations("postgres")]


def with_schema(url: str, schema: str) -> str:
    """The URL of this schema of a server, as Euterpe takes it."""
    return f"{url}{'&' if urlsplit(url).query else '?'}schema={schema}"


def session_of(folder: Path) -> str:
    return hashlib.sha256(os.fsencode(folder)).hexdigest()[:8]
