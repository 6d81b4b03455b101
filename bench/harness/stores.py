"""The engines under the peers: a durable Postgres, a Redis and files for SQLite, each handed out empty.

Servers are those of the test session; only what durability and quiet need is set here.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

import asyncpg
import psutil
import redis

from bench.harness.catalogue import StoreKind
from bench.harness.process_cpu import tree_cpu_s
from bench.harness.redis_server import BenchRedisServer
from tests.servers import PostgresServer

POSTGRES_SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "512MB",
    # A checkpoint in the middle of one measurement would be charged to whoever is running then.
    "max_wal_size": "8GB",
    "checkpoint_timeout": "1h",
}
IN_MEMORY = {"tmpfs", "ramfs"}


class NotDurable(Exception):
    """The place for the data forgets it at a power cut, so nothing measured there would mean anything."""


@dataclass(frozen=True, slots=True)
class PostgresWork:
    """Counters of the server, to be read before and after."""

    wal_bytes: int
    commits: int
    cpu_s: float
    """Of all its processes, also of those that have ended."""

    def since(self, before: PostgresWork) -> PostgresWork:
        return PostgresWork(self.wal_bytes - before.wal_bytes, self.commits - before.commits, self.cpu_s - before.cpu_s)


class Stores:
    """`fresh` empties the store and returns its URL; what was there before is gone."""

    def __init__(self, postgres: PostgresServer | None, redis_server: BenchRedisServer | None, folder: Path) -> None:
        self._postgres = postgres
        self._redis = redis_server
        self._folder = folder
        self._number = 0

    async def fresh(self, kind: StoreKind) -> str:
        match kind:
            case "postgres":
                url = await self._fresh_database()
            case "redis":
                url = self._flushed_redis()
            case "postgres+redis":
                url = f"{await self._fresh_database()}#{self._flushed_redis()}"
            case "sqlite":
                url = f"sqlite:///{self.fresh_folder() / 'bench.db'}"
            case _:
                assert_never(kind)
        os.sync()  # what the last measurement left in the page cache is written at nobody's cost
        return url

    def fresh_folder(self) -> Path:
        self._number += 1
        shutil.rmtree(self._folder / str(self._number - 1), ignore_errors=True)
        folder = self._folder / str(self._number)
        folder.mkdir()
        return folder

    async def versions(self) -> dict[str, str]:
        """Of the servers that were started, with the settings that matter."""
        found: dict[str, str] = {}
        if self._postgres is not None:
            connection = await self._admin()
            version = await connection.fetchval("SHOW server_version")
            await connection.close()
            settings = ", ".join(f"{key}={value}" for key, value in POSTGRES_SETTINGS.items())
            found["Postgres"] = f"{version} ({settings})"
        if self._redis is not None:
            with contextlib.closing(redis.Redis.from_url(self._redis.url)) as client:
                found["Redis"] = f"{client.info('server')['redis_version']} (no persistence)"
        return found

    async def postgres_work(self) -> PostgresWork:
        connection = await self._admin()
        try:
            row = await connection.fetchrow(
                "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint AS wal_bytes,"
                " (SELECT sum(xact_commit)::bigint FROM pg_stat_database) AS commits"
            )
        finally:
            await connection.close()
        assert row is not None, "a SELECT without FROM always has a row"
        return PostgresWork(wal_bytes=row["wal_bytes"], commits=row["commits"], cpu_s=self._postgres_cpu_s())

    def _postgres_cpu_s(self) -> float:
        assert self._postgres is not None
        return tree_cpu_s(psutil.Process(self._postgres.pid))

    async def _fresh_database(self) -> str:
        connection = await self._admin()
        try:
            await connection.execute(f'DROP DATABASE IF EXISTS "bench{self._number}" WITH (FORCE)')
            self._number += 1
            await connection.execute(f'CREATE DATABASE "bench{self._number}"')
            await connection.execute("CHECKPOINT")
        finally:
            await connection.close()
        assert self._postgres is not None
        return self._postgres.url.rpartition("/")[0] + f"/bench{self._number}"

    def _flushed_redis(self) -> str:
        assert self._redis is not None, "no redis-server was started for this run"
        with contextlib.closing(redis.Redis.from_url(self._redis.url)) as connection:
            connection.flushall()
        return self._redis.url

    async def _admin(self) -> asyncpg.Connection[asyncpg.Record]:
        assert self._postgres is not None, "no Postgres was started for this run"
        return await asyncpg.connect(self._postgres.url)


def mounted() -> dict[Path, str]:
    return {Path(part.mountpoint): part.fstype for part in psutil.disk_partitions(all=True)}


def require_durable(folder: Path, mounts: Mapping[Path, str]) -> None:
    """`mounts` tells the kind of the file system at each mount point."""
    resolved = folder.resolve()
    kind = next((mounts[place] for place in (resolved, *resolved.parents) if place in mounts), "unknown")
    if kind in IN_MEMORY:
        raise NotDurable(f"{folder} lies on {kind}, where fsync is free; set TMPDIR to a folder on a disk")


@contextlib.contextmanager
def open_stores(kinds: set[StoreKind]) -> Iterator[Stores]:
    """Starts only the servers that the run needs."""
    servers = {server for kind in kinds for server in kind.split("+")}
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="euterpe-bench-")))
        require_durable(folder, mounted())
        postgres = stack.enter_context(PostgresServer(POSTGRES_SETTINGS)) if "postgres" in servers else None
        if postgres is not None:
            require_durable(postgres.directory, mounted())
        redis_server = stack.enter_context(BenchRedisServer()) if "redis" in servers else None
        yield Stores(postgres, redis_server, folder)
