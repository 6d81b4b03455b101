"""Two installations may share one database, each in a schema of its own. Neither holds up the other."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import psycopg
import pytest

from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.outcome import Success
from euterpe.model.submitting.submission import LOCAL_REQUESTER, Submission
from euterpe.stores.sql.postgres.engine import PostgresEngine
from euterpe.stores.sql.rows import limit_key
from euterpe.stores.sql.store import SqlStore


@pytest.fixture
async def store(fresh_postgres_url: str) -> SqlStore:
    engine = PostgresEngine(fresh_postgres_url)
    await engine.migrate()
    return SqlStore(engine)


@pytest.fixture
async def neighbour(postgres_url: str) -> AsyncIterator[str]:
    """A schema with an installation of its own."""
    schema = f"neighbour_{secrets.token_hex(6)}"
    separator = "&" if urlsplit(postgres_url).query else "?"
    await PostgresEngine(f"{postgres_url}{separator}schema={schema}").migrate()
    yield schema
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA {schema} CASCADE")


async def test_a_key_that_a_neighbour_is_counting_is_not_ours(
    store: SqlStore, postgres_url: str, neighbour: str
) -> None:
    await store.open()
    try:
        await store.submit_many([Submission(type="t", concurrency_key="acme", concurrency_limit=1)] * 3)
        (claim,) = await store.claim(ClaimRequest(worker_id="w", limit=1))
        with psycopg.connect(postgres_url) as counting:
            counting.execute(f"SET search_path = {neighbour}")
            key = limit_key(LOCAL_REQUESTER, "acme")
            counting.execute("INSERT INTO euterpe_keys (name) VALUES (%s)", [key])
            await store.settle([Report(claim, Success(b"1"))])
            assert len(await store.claim(ClaimRequest(worker_id="w", limit=2))) == 1
    finally:
        await store.close()
