"""What cannot be joined is refused before anything is written, with a word on what to do; the rest is left usable."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import aiosqlite
import apsw
import asyncpg
import libsql
import psycopg
import pytest
import sqlalchemy
import sqlalchemy.ext.asyncio

from euterpe.model.errors import InvalidInput, SchemaMismatch, UnknownDependency
from euterpe.model.submitting.batch import Unit, drafts_of, new_ids
from euterpe.model.submitting.submission import Submission
from euterpe.queue.queue import Queue
from euterpe.stores.sql.postgres.engine import PostgresEngine, split_url
from euterpe.stores.sql.sqlite.engine import APSW, SqliteEngine
from euterpe.stores.sql.sqlite.libsql import LibsqlEngine
from euterpe.stores.sql.store import SqlStore


def mail(**fields: Any) -> Unit:
    return Unit(drafts_of([Submission(type="mail", **fields)]))


async def sqlite_store(path: Path, **options: Any) -> SqlStore:
    engine = SqliteEngine(str(path), **options)
    await engine.migrate()
    return SqlStore(engine)


async def postgres_store(url: str) -> SqlStore:
    engine = PostgresEngine(url)
    await engine.migrate()
    return SqlStore(engine)


async def test_a_postgres_connection_without_a_transaction_is_told_to_open_one(fresh_postgres_url: str) -> None:
    store = await postgres_store(fresh_postgres_url)
    dsn = split_url(fresh_postgres_url)[0]
    connection = await asyncpg.connect(dsn)
    with pytest.raises(InvalidInput, match=r"no open transaction.*connection\.transaction\(\)"):
        await store.submit_unit_on(mail(), connection)
    await connection.close()
    with psycopg.connect(dsn, autocommit=True) as blocking:
        with pytest.raises(InvalidInput, match="no open transaction"):
            await store.submit_unit_on(mail(), blocking)
        with pytest.raises(InvalidInput, match="no open transaction"):
            store.submit_unit_on_sync(mail(), blocking)
        with blocking.transaction():
            assert store.submit_unit_on_sync(mail(), blocking)
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as awaitable:
        with pytest.raises(InvalidInput, match="no open transaction"):
            await store.submit_unit_on(mail(), awaitable)


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
async def test_a_sqlalchemy_connection_in_autocommit_is_refused(fresh_postgres_url: str, driver: str) -> None:
    store = await postgres_store(fresh_postgres_url)
    url = split_url(fresh_postgres_url)[0].replace("postgresql", f"postgresql+{driver}", 1)
    engine = sqlalchemy.ext.asyncio.create_async_engine(url, isolation_level="AUTOCOMMIT")
    async with engine.connect() as connection:
        with pytest.raises(InvalidInput, match=r"no open transaction.*AUTOCOMMIT"):
            await store.submit_unit_on(mail(), connection)
    await engine.dispose()


async def test_a_sqlite_connection_without_a_transaction_is_told_to_open_one(tmp_path: Path) -> None:
    store = await sqlite_store(tmp_path / "jobs.db")
    file = str(tmp_path / "jobs.db")
    python = sqlite3.connect(file, isolation_level=None)
    with pytest.raises(InvalidInput, match=r"no open transaction.*BEGIN IMMEDIATE"):
        store.submit_unit_on_sync(mail(), python)
    async with aiosqlite.connect(file, isolation_level=None) as awaitable:
        with pytest.raises(InvalidInput, match=r"no open transaction.*await connection"):
            await store.submit_unit_on(mail(), awaitable)
    alchemy = sqlalchemy.create_engine(f"sqlite:///{file}", isolation_level="AUTOCOMMIT")
    with alchemy.connect() as connection, pytest.raises(InvalidInput, match="no open transaction"):
        store.submit_unit_on_sync(mail(), connection)
    alchemy.dispose()
    assert python.execute("SELECT count(*) FROM inbox_jobs").fetchone() == (0,)
    python.close()


async def test_an_apsw_or_libsql_connection_without_a_transaction_is_refused(tmp_path: Path) -> None:
    store = await sqlite_store(tmp_path / "jobs.db")
    current = apsw.Connection(str(tmp_path / "jobs.db"))
    with pytest.raises(InvalidInput, match="no open transaction"):
        store.submit_unit_on_sync(mail(), current)
    current.close()
    engine = LibsqlEngine(str(tmp_path / "libsql.db"))
    await engine.migrate()
    fork = libsql.connect(engine.path, isolation_level=None)
    with pytest.raises(InvalidInput, match="no open transaction"):
        SqlStore(engine).submit_unit_on_sync(mail(), fork)
    fork.close()


async def test_an_object_that_is_no_connection_is_refused_by_its_type(sqlite_url: str, postgres_url: str) -> None:
    store = SqlStore(SqliteEngine(sqlite_url.removeprefix("sqlite:///")))
    engine = sqlalchemy.create_engine("sqlite://")
    pool = asyncpg.create_pool(postgres_url, min_size=0)  # nothing is connected yet
    for wrong in (None, "postgresql://", object(), engine, pool, sqlite3.connect(":memory:").cursor()):
        with pytest.raises(InvalidInput, match="must be an asyncpg or psycopg connection") as refused:
            await store.submit_unit_on(mail(), wrong)
        assert (refused.value.field, type(wrong).__qualname__ in str(refused.value)) == ("connection", True)


async def test_a_connection_to_another_kind_of_database_is_refused(fresh_postgres_url: str, tmp_path: Path) -> None:
    postgres = await postgres_store(fresh_postgres_url)
    sqlite = await sqlite_store(tmp_path / "jobs.db")
    connection = psycopg.connect(split_url(fresh_postgres_url)[0])
    with connection, pytest.raises(InvalidInput, match="is to Postgres, but the queue is on SQLite"):
        sqlite.submit_unit_on_sync(mail(), connection)
    blocking = sqlite3.connect(tmp_path / "jobs.db")
    with pytest.raises(InvalidInput, match="is to SQLite, but the queue is on Postgres"):
        await postgres.submit_unit_on(mail(), blocking)
    assert not blocking.in_transaction
    blocking.close()


async def test_a_connection_to_another_sqlite_file_is_refused(tmp_path: Path) -> None:
    store = await sqlite_store(tmp_path / "jobs.db")
    for other in (str(tmp_path / "other.db"), ":memory:"):
        connection = sqlite3.connect(other)
        with pytest.raises(InvalidInput, match=r"but the queue is in .*jobs\.db"):
            store.submit_unit_on_sync(mail(), connection)
        assert not connection.in_transaction
        connection.close()


async def test_a_database_without_the_queues_tables_is_named_and_the_transaction_goes_on(
    bare_postgres_url: str,
) -> None:
    dsn, options = split_url(bare_postgres_url)
    store = SqlStore(PostgresEngine(bare_postgres_url))
    connection = await asyncpg.connect(dsn)
    async with connection.transaction():
        await connection.execute(f"CREATE TABLE {options['schema']}.orders (name text)")
        with pytest.raises(SchemaMismatch, match="no Euterpe tables"):
            await store.submit_unit_on(mail(), connection)
        await connection.execute(f"INSERT INTO {options['schema']}.orders VALUES ('lamp')")
    assert await connection.fetchval(f"SELECT count(*) FROM {options['schema']}.orders") == 1
    await connection.close()


async def test_a_file_that_nobody_migrated_is_told_with_what_to_do_and_that_helps(tmp_path: Path) -> None:
    queue = Queue(f"sqlite:///{tmp_path}/shop.db")
    shop = sqlite3.connect(tmp_path / "shop.db")
    shop.execute("CREATE TABLE orders (id integer)")
    shop.execute("INSERT INTO orders VALUES (7)")
    with pytest.raises(SchemaMismatch, match="Run `euterpe migrate` on it, or open the queue once"):
        queue.sync.submit("mail", {"order": 7}, connection=shop)
    shop.commit()  # the transaction goes on
    async with queue:
        pass
    job = queue.sync.submit("mail", {"order": 7}, connection=shop)
    shop.commit()
    assert shop.execute("SELECT count(*) FROM orders").fetchone() == (1,)
    shop.close()
    async with queue:
        assert (await queue.get(job.id)).type == "mail"


async def test_an_asynchronous_connection_cannot_be_joined_without_await(fresh_postgres_url: str) -> None:
    store = await postgres_store(fresh_postgres_url)
    connection = await asyncpg.connect(split_url(fresh_postgres_url)[0])
    with pytest.raises(InvalidInput, match="is asynchronous"):
        store.submit_unit_on_sync(mail(), connection)
    await connection.close()


async def test_a_transaction_begun_for_a_submit_that_is_rejected_is_not_left_open(tmp_path: Path) -> None:
    store = await sqlite_store(tmp_path / "jobs.db")
    connection = sqlite3.connect(tmp_path / "jobs.db")
    with pytest.raises(UnknownDependency):
        store.submit_unit_on_sync(mail(depends_on=(new_ids(1)[0],)), connection)
    assert not connection.in_transaction
    store.submit_unit_on_sync(mail(), connection)
    assert connection.in_transaction
    connection.rollback()
    assert connection.execute("SELECT count(*) FROM inbox_jobs").fetchone() == (0,)
    connection.close()


async def test_factories_of_the_callers_connection_do_not_disturb_us(tmp_path: Path) -> None:
    store = await sqlite_store(tmp_path / "jobs.db")
    connection = sqlite3.connect(tmp_path / "jobs.db")
    connection.row_factory = lambda cursor, row: {"row": row}
    connection.text_factory = bytes
    first = store.submit_unit_on_sync(mail(idempotency_key="k"), connection)
    again = store.submit_unit_on_sync(mail(idempotency_key="k"), connection)
    connection.commit()
    assert again[0].job_id == first[0].job_id
    assert connection.text_factory is bytes
    assert connection.execute("SELECT 'x'").fetchone() == {"row": (b"x",)}
    connection.close()


async def test_a_connection_of_another_sqlite_library_is_refused_while_the_queue_is_open(tmp_path: Path) -> None:
    store = await sqlite_store(tmp_path / "jobs.db", library=APSW)
    connection = sqlite3.connect(tmp_path / "jobs.db")
    await store.open()
    with pytest.raises(InvalidInput, match="two libraries on one file"):
        await store.submit_unit_on(mail(), connection)
    await store.close()
    # A process that only submits by its own connections has one library, whatever the queue would use.
    assert store.submit_unit_on_sync(mail(), connection)
    connection.commit()
    connection.close()


async def test_a_sqlite3_connection_cannot_join_an_open_libsql_queue(tmp_path: Path) -> None:
    engine = LibsqlEngine(str(tmp_path / "jobs.db"))
    await engine.migrate()
    store = SqlStore(engine)
    await store.open()
    connection = sqlite3.connect(tmp_path / "jobs.db")
    with pytest.raises(InvalidInput, match="two libraries on one file"):
        await store.submit_unit_on(mail(), connection)
    connection.close()
    await store.close()
