"""Which library a connection comes from, asked without importing any: an object's library is loaded already."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

from euterpe.model.errors import InvalidInput
from euterpe.stores.sql.caller.django_connection import DjangoJoined
from euterpe.stores.sql.caller.joined import Joined
from euterpe.stores.sql.caller.postgres_drivers import AsyncpgJoined, AsyncPsycopgJoined, PsycopgJoined
from euterpe.stores.sql.caller.sqlalchemy_connection import AsyncSqlalchemyJoined, SqlalchemyJoined
from euterpe.stores.sql.caller.sqlite_drivers import AiosqliteJoined, ApswJoined, LibsqlJoined, PythonSqliteJoined

KNOWN: Final[tuple[tuple[str, str, Callable[[Any], Joined]], ...]] = (
    ("asyncpg.connection", "Connection", AsyncpgJoined),
    ("asyncpg.pool", "PoolConnectionProxy", AsyncpgJoined),
    ("psycopg", "Connection", PsycopgJoined),
    ("psycopg", "AsyncConnection", AsyncPsycopgJoined),
    ("sqlalchemy.orm", "Session", SqlalchemyJoined),
    ("sqlalchemy.orm", "scoped_session", SqlalchemyJoined),
    ("sqlalchemy.engine", "Connection", SqlalchemyJoined),
    ("sqlalchemy.ext.asyncio", "AsyncSession", AsyncSqlalchemyJoined),
    ("sqlalchemy.ext.asyncio", "async_scoped_session", AsyncSqlalchemyJoined),
    ("sqlalchemy.ext.asyncio", "AsyncConnection", AsyncSqlalchemyJoined),
    ("django.db.backends.base.base", "BaseDatabaseWrapper", DjangoJoined),
    ("django.utils.connection", "ConnectionProxy", DjangoJoined),
    ("sqlite3", "Connection", PythonSqliteJoined),
    ("aiosqlite", "Connection", AiosqliteJoined),
    ("apsw", "Connection", ApswJoined),
    ("libsql", "Connection", LibsqlJoined),
)
ACCEPTED: Final = (
    "an asyncpg or psycopg connection, a SQLAlchemy session or connection, Django's connection, "
    "or a sqlite3, aiosqlite, apsw or libsql connection"
)


def join(connection: Any) -> Joined:
    """The connection, ready to run a program inside its open transaction."""
    for module, name, joined in KNOWN:
        kind = getattr(sys.modules.get(module), name, None)
        if isinstance(kind, type) and isinstance(connection, kind):
            return joined(connection)
    kind = type(connection)
    raise InvalidInput(
        "connection", f"must be {ACCEPTED}, with an open transaction; got {kind.__module__}.{kind.__qualname__}"
    )
