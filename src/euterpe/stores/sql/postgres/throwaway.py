"""A schema of one test in a user's own Postgres: made empty, and dropped at its end."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import asyncpg

from euterpe.model.errors import InvalidInput
from euterpe.model.job import JobRow
from euterpe.model.reading.views import Search
from euterpe.stores.sql.postgres.engine import PostgresEngine
from euterpe.stores.sql.store import SqlStore


@asynccontextmanager
async def throwaway_schema(url: str) -> AsyncIterator[str]:
    """The URL with a schema that nobody else has. It goes with everything in it."""
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query))
    if options.pop("schema", None) is not None:
        raise InvalidInput("on", "names a schema; leave it out: every test gets one of its own")
    plain = urlunsplit(parts._replace(query=urlencode(options)))
    schema = f"euterpe_test_{secrets.token_hex(6)}"
    yield urlunsplit(parts._replace(query=urlencode(options | {"schema": schema})))
    connection = await asyncpg.connect(plain)
    try:
        # A test that left a transaction open shall fail here, and not hang.
        await connection.execute("SET lock_timeout = '10s'")
        await connection.execute(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')
    finally:
        await connection.close()


def all_jobs(url: str) -> list[JobRow]:
    """Every job, oldest first, read on a loop of its own: an assertion cannot await."""

    async def read() -> list[JobRow]:
        store = SqlStore(PostgresEngine(url))
        await store.open()
        try:
            jobs: list[JobRow] = []
            cursor = None
            while True:
                page = await store.search(Search(limit=1000, cursor=cursor))
                jobs += page.jobs
                cursor = page.cursor
                if cursor is None:
                    return jobs[::-1]
        finally:
            await store.close()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, read()).result()
