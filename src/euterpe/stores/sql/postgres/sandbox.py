"""What a measurement needs of a Postgres: a schema of its own, and how often a second the bare server commits."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from euterpe.model.errors import StoreUnavailable
from euterpe.stores.sql.postgres.engine import PostgresEngine

# No part of the store: a table of one column, in the measurement's own schema.
_TABLE: Final = "CREATE TABLE bare_commits (number bigint)"
_INSERT: Final = "INSERT INTO bare_commits VALUES ($1)"


@asynccontextmanager
async def schema_for_a_while(url: str) -> AsyncIterator[None]:
    """The schema that the URL names, with our tables. It goes with everything in it."""
    engine = PostgresEngine(url)
    await engine.migrate()  # before the block: it makes the schema, or nothing at all
    try:
        yield
    finally:
        try:
            connection = await engine.connect()
            try:
                await connection.execute(f'DROP SCHEMA "{engine.schema}" CASCADE')
            finally:
                await connection.close()
        except StoreUnavailable as error:
            raise StoreUnavailable(f"{error}; left behind: DROP SCHEMA {engine.schema} CASCADE removes it") from error


async def commits_per_s(url: str, seconds: float) -> tuple[float, bool]:
    """Of single inserts by one client; and whether the server waits for its disk."""
    connection = await PostgresEngine(url).connect()
    try:
        waits = await connection.fetchval("SHOW fsync") != "off"  # synchronous_commit is on in every session of ours
        await connection.execute(_TABLE)
        start = time.monotonic()
        count = 0
        while (past := time.monotonic() - start) < seconds:
            await connection.execute(_INSERT, count)
            count += 1
        return count / past, waits
    finally:
        await connection.close()
