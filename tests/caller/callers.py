"""Applications with a database of their own: one class a library, all with the same few moves.

`connection` is what the application hands to `submit(..., connection=...)`. Everything is awaitable, so that one test
serves blocking and asynchronous libraries; the blocking ones simply block.
"""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiosqlite
import apsw
import asyncpg
import libsql
import psycopg
import sqlalchemy
import sqlalchemy.ext.asyncio
import sqlalchemy.orm

ORDERS = "CREATE TABLE IF NOT EXISTS {schema}orders (name text NOT NULL)"


class Place:
    """Where the queue and the application's own table live."""

    def __init__(self, *, dsn: str = "", schema: str = "", file: Path = Path()) -> None:
        self.dsn = dsn
        self.schema = schema
        self.file = file
        self.prefix = f"{schema}." if schema else ""

    @property
    def insert_order(self) -> str:
        return f"INSERT INTO {self.prefix}orders (name) VALUES ('lamp')"


class Caller(ABC):
    """An application; `connection` is open between `open` and `close`."""

    connection: Any

    def __init__(self, place: Place) -> None:
        self.place = place

    @abstractmethod
    async def open(self) -> None: ...

    @abstractmethod
    async def begin(self) -> None: ...

    @abstractmethod
    async def run(self, sql: str) -> None: ...

    @abstractmethod
    async def commit(self) -> None: ...

    @abstractmethod
    async def rollback(self) -> None: ...

    @abstractmethod
    async def close(self) -> None: ...

    async def order(self) -> None:
        await self.run(self.place.insert_order)


class Asyncpg(Caller):
    async def open(self) -> None:
        self.connection = await asyncpg.connect(self.place.dsn)

    async def begin(self) -> None:
        self._transaction = self.connection.transaction()
        await self._transaction.start()

    async def run(self, sql: str) -> None:
        await self.connection.execute(sql)

    async def commit(self) -> None:
        await self._transaction.commit()

    async def rollback(self) -> None:
        await self._transaction.rollback()

    async def close(self) -> None:
        await self.connection.close()


class AsyncpgPool(Asyncpg):
    async def open(self) -> None:
        self._pool = await asyncpg.create_pool(self.place.dsn, min_size=1, max_size=1)
        self.connection = await self._pool.acquire()

    async def close(self) -> None:
        await self._pool.release(self.connection)
        await self._pool.close()


class Psycopg(Caller):
    """Autocommit off, as psycopg has it: the first statement begins."""

    async def open(self) -> None:
        self.connection = psycopg.connect(self.place.dsn, row_factory=psycopg.rows.dict_row)

    async def begin(self) -> None:
        return None

    async def run(self, sql: str) -> None:
        self.connection.execute(sql.encode())

    async def commit(self) -> None:
        self.connection.commit()

    async def rollback(self) -> None:
        self.connection.rollback()

    async def close(self) -> None:
        self.connection.close()


class PsycopgAsync(Caller):
    async def open(self) -> None:
        self.connection = await psycopg.AsyncConnection.connect(self.place.dsn)

    async def begin(self) -> None:
        return None

    async def run(self, sql: str) -> None:
        await self.connection.execute(sql.encode())

    async def commit(self) -> None:
        await self.connection.commit()

    async def rollback(self) -> None:
        await self.connection.rollback()

    async def close(self) -> None:
        await self.connection.close()


class Sqlite3(Caller):
    """The usual mode of the module: the first write begins."""

    async def open(self) -> None:
        self.connection = sqlite3.connect(self.place.file)
        self.connection.row_factory = sqlite3.Row

    async def begin(self) -> None:
        return None

    async def run(self, sql: str) -> None:
        self.connection.execute(sql)

    async def commit(self) -> None:
        self.connection.commit()

    async def rollback(self) -> None:
        self.connection.rollback()

    async def close(self) -> None:
        self.connection.close()


class Sqlite3Explicit(Sqlite3):
    """Transactions by hand."""

    async def open(self) -> None:
        self.connection = sqlite3.connect(self.place.file, isolation_level=None)

    async def begin(self) -> None:
        self.connection.execute("BEGIN IMMEDIATE")


class Aiosqlite(Caller):
    async def open(self) -> None:
        self.connection = await aiosqlite.connect(self.place.file)

    async def begin(self) -> None:
        await self.connection.execute("BEGIN IMMEDIATE")

    async def run(self, sql: str) -> None:
        await self.connection.execute(sql)

    async def commit(self) -> None:
        await self.connection.commit()

    async def rollback(self) -> None:
        await self.connection.rollback()

    async def close(self) -> None:
        await self.connection.close()


class Apsw(Caller):
    async def open(self) -> None:
        self.connection = apsw.Connection(str(self.place.file))
        self.connection.set_busy_timeout(5000)

    async def begin(self) -> None:
        self.connection.execute("BEGIN IMMEDIATE")

    async def run(self, sql: str) -> None:
        self.connection.execute(sql)

    async def commit(self) -> None:
        self.connection.execute("COMMIT")

    async def rollback(self) -> None:
        self.connection.execute("ROLLBACK")

    async def close(self) -> None:
        self.connection.close()


class Libsql(Caller):
    async def open(self) -> None:
        self.connection = libsql.connect(str(self.place.file), isolation_level=None)

    async def begin(self) -> None:
        self.connection.execute("BEGIN IMMEDIATE")

    async def run(self, sql: str) -> None:
        self.connection.execute(sql)

    async def commit(self) -> None:
        self.connection.commit()

    async def rollback(self) -> None:
        self.connection.rollback()

    async def close(self) -> None:
        self.connection.close()


class Alchemy(Caller):
    """SQLAlchemy, blocking: a Session, or the Connection under it."""

    def __init__(self, place: Place, driver: str, *, session: bool) -> None:
        super().__init__(place)
        self._url = alchemy_url(place, driver)
        self._session = session

    async def open(self) -> None:
        self._engine = sqlalchemy.create_engine(self._url)
        self.connection = sqlalchemy.orm.Session(self._engine) if self._session else self._engine.connect()

    async def begin(self) -> None:
        return None

    async def run(self, sql: str) -> None:
        self.connection.execute(sqlalchemy.text(sql))

    async def commit(self) -> None:
        self.connection.commit()

    async def rollback(self) -> None:
        self.connection.rollback()

    async def close(self) -> None:
        self.connection.close()
        self._engine.dispose()


class AlchemyAsync(Caller):
    def __init__(self, place: Place, driver: str, *, session: bool) -> None:
        super().__init__(place)
        self._url = alchemy_url(place, driver)
        self._session = session

    async def open(self) -> None:
        self._engine = sqlalchemy.ext.asyncio.create_async_engine(self._url)
        if self._session:
            self.connection = sqlalchemy.ext.asyncio.AsyncSession(self._engine)
        else:
            self.connection = await self._engine.connect()

    async def begin(self) -> None:
        return None

    async def run(self, sql: str) -> None:
        await self.connection.execute(sqlalchemy.text(sql))

    async def commit(self) -> None:
        await self.connection.commit()

    async def rollback(self) -> None:
        await self.connection.rollback()

    async def close(self) -> None:
        await self.connection.close()
        await self._engine.dispose()


def alchemy_url(place: Place, driver: str) -> str:
    if driver.startswith("sqlite"):
        return f"{driver}:///{place.file}"
    return place.dsn.replace("postgresql", driver, 1)


def alchemy(driver: str, *, session: bool) -> Callable[[Place], Caller]:
    asynchronous = driver.rpartition("+")[2] in ("asyncpg", "aiosqlite", "psycopg_async")
    kind: type[Alchemy] | type[AlchemyAsync] = AlchemyAsync if asynchronous else Alchemy
    return lambda place: kind(place, driver, session=session)


POSTGRES: dict[str, Callable[[Place], Caller]] = {
    "asyncpg": Asyncpg,
    "asyncpg-pool": AsyncpgPool,
    "psycopg": Psycopg,
    "psycopg-async": PsycopgAsync,
    "sqlalchemy-psycopg-session": alchemy("postgresql+psycopg", session=True),
    "sqlalchemy-psycopg-connection": alchemy("postgresql+psycopg", session=False),
    "sqlalchemy-psycopg-async-session": alchemy("postgresql+psycopg_async", session=True),
    "sqlalchemy-asyncpg-session": alchemy("postgresql+asyncpg", session=True),
    "sqlalchemy-asyncpg-connection": alchemy("postgresql+asyncpg", session=False),
}
SQLITE: dict[str, Callable[[Place], Caller]] = {
    "sqlite3": Sqlite3,
    "sqlite3-explicit": Sqlite3Explicit,
    "aiosqlite": Aiosqlite,
    "apsw": Apsw,
    "sqlalchemy-pysqlite-session": alchemy("sqlite+pysqlite", session=True),
    "sqlalchemy-pysqlite-connection": alchemy("sqlite+pysqlite", session=False),
    "sqlalchemy-aiosqlite-session": alchemy("sqlite+aiosqlite", session=True),
    "sqlalchemy-aiosqlite-connection": alchemy("sqlite+aiosqlite", session=False),
}
LIBSQL: dict[str, Callable[[Place], Caller]] = {"libsql": Libsql}
