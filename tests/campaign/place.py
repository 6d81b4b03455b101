"""The database under test: a SQLite file, or a Postgres server of our own behind a proxy."""

from __future__ import annotations

import base64
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import apsw
import psycopg

from tests.campaign.full_disk import prepare_refusals
from tests.campaign.plan import Engine
from tests.faults.conftest import prepared
from tests.faults.proxy import Proxy, proxied
from tests.faults.recorder import schema_of
from tests.faults.stores import SQLITE, sqlite_path
from tests.servers import PostgresServer, RedisServer
from tests.servers.process import free_port

SCHEMA = "campaign"
PATIENCE_S = 10.0


class Place:
    def __init__(self, engine: Engine, url: str) -> None:
        self.engine: Engine = engine
        self.url = self.proxied_url = url
        self.api_port = free_port()
        key = base64.b64encode(os.urandom(32)).decode()
        self.environ = {**os.environ, "EUTERPE_KEKS": f"campaign:{key}"}
        self.server: PostgresServer
        self.proxy: Proxy
        self.redis: RedisServer | None = None

    def cut(self) -> None:
        for link in tuple(self.proxy._links):
            link.hang_up()

    def hold_lock(self, lasts_s: float) -> None:
        """Somebody else's transaction holds what everybody needs."""
        if self.url.startswith(SQLITE):
            connection = apsw.Connection(sqlite_path(self.url))
            connection.set_busy_timeout(int(PATIENCE_S * 1000))
            connection.execute("BEGIN IMMEDIATE")
            time.sleep(lasts_s)
            connection.execute("ROLLBACK")
            connection.close()
            return
        with psycopg.connect(self.server.url) as postgres:
            postgres.execute("SET lock_timeout = '5s'")
            postgres.execute("SET default_transaction_read_only = off")
            postgres.execute(f"LOCK TABLE {schema_of(self.url)}.inbox_jobs IN EXCLUSIVE MODE")
            time.sleep(lasts_s)
            postgres.rollback()

    def is_locked(self) -> bool:
        """Whether somebody holds the lock of a SQLite file."""
        if not self.url.startswith(SQLITE):
            return False
        connection = apsw.Connection(sqlite_path(self.url))
        connection.set_busy_timeout(200)
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
        except apsw.BusyError:
            return True
        finally:
            connection.close()
        return False

    def keep_transaction_open(self, lasts_s: float) -> None:
        """Somebody looks at a job that runs, in a transaction, and goes to lunch: its row and a snapshot are held."""
        if self.url.startswith(SQLITE):
            reader = apsw.Connection(sqlite_path(self.url))
            reader.set_busy_timeout(int(PATIENCE_S * 1000))
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM inbox_jobs").fetchall()
            time.sleep(lasts_s)
            reader.execute("ROLLBACK")
            reader.close()
            return
        with psycopg.connect(self.server.url) as postgres:
            postgres.execute("SET default_transaction_read_only = off")
            postgres.execute(f"SET search_path = {schema_of(self.url)}")
            postgres.commit()
            postgres.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            postgres.execute("SELECT 1 FROM inbox_jobs WHERE state = 'running' LIMIT 1 FOR UPDATE SKIP LOCKED")
            time.sleep(lasts_s)
            postgres.rollback()

    def set_default(self, name: str, value: str | None) -> None:
        """A default of the whole server, in force at once for every session that does not set its own."""
        with psycopg.connect(self.server.url, autocommit=True) as postgres:
            postgres.execute("SET default_transaction_read_only = off")
            change = f"SET {name} = '{value}'" if value is not None else f"RESET {name}"
            postgres.execute(f"ALTER SYSTEM {change}".encode())
            postgres.execute("SELECT pg_reload_conf()")

    def left_in_a_transaction(self) -> list[str]:
        if self.url.startswith(SQLITE):
            connection = apsw.Connection(sqlite_path(self.url))
            connection.set_busy_timeout(int(PATIENCE_S * 1000))
            try:
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("ROLLBACK")
            except apsw.BusyError:
                return ["somebody has held the write lock for ten seconds"]
            finally:
                connection.close()
            return []
        with psycopg.connect(self.server.url, autocommit=True) as postgres:
            found = postgres.execute(
                "SELECT pid, state, query FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'"
                " AND application_name = 'euterpe' AND state_change < now() - interval '1 second'"
            ).fetchall()
        return [f"session {pid} is {state} after {query[:60]!r}" for pid, state, query in found]


@asynccontextmanager
async def opened(engine: Engine, folder: Path, *, streams: bool) -> AsyncIterator[Place]:
    async with _database(engine, folder) as place:
        if not streams:
            yield place
            return
        with RedisServer() as redis:
            place.redis = redis
            place.environ |= {
                "TRANSPORT_KIND": "streams",
                "REDIS_ADDR": f"127.0.0.1:{redis.port}",
                "REDIS_PASSWORD": redis.password,
            }
            yield place


@asynccontextmanager
async def _database(engine: Engine, folder: Path) -> AsyncIterator[Place]:
    if engine == "sqlite":
        yield Place(engine, await prepared(f"{SQLITE}{folder}/jobs.db"))
        return
    with PostgresServer({"track_commit_timestamp": "on"}) as server:
        url = await prepared(f"{server.url}?schema={SCHEMA}")
        prepare_refusals(url)
        async with proxied(url) as (proxy, through):
            place = Place(engine, url)
            place.server, place.proxy, place.proxied_url = server, proxy, through
            yield place
