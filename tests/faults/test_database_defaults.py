"""What the database or the role has as a default must not matter to what a queue promises."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.outcome import Success
from euterpe.model.submitting.submission import Submission
from euterpe.stores.sql.postgres.engine import PostgresEngine
from euterpe.stores.sql.store import SqlStore

HOSTILE = {
    "default_transaction_isolation": "repeatable read",
    "default_transaction_read_only": "on",
    "lock_timeout": "1ms",
    "statement_timeout": "1ms",
    "idle_in_transaction_session_timeout": "1ms",
    "idle_session_timeout": "1ms",
    "synchronous_commit": "off",
    "search_path": "nowhere",
}


@pytest.fixture(params=["DATABASE", "ROLE"])
def hostile_url(request: pytest.FixtureRequest, postgres_url: str) -> Iterator[str]:
    name = f"hostile_{secrets.token_hex(4)}"
    password = secrets.token_hex(8)
    parts = urlsplit(postgres_url)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{password}'")
        connection.execute(f"CREATE DATABASE {name} OWNER {name}")
        for setting, value in HOSTILE.items():
            connection.execute(f"ALTER {request.param} {name} SET {setting} = '{value}'")
    netloc = f"{name}:{password}@{parts.hostname}:{parts.port}"
    yield urlunsplit(parts._replace(netloc=netloc, path=f"/{name}", query="schema=jobs"))
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
        connection.execute(f"DROP ROLE {name}")


async def test_hostile_defaults_change_nothing(hostile_url: str) -> None:
    engine = PostgresEngine(hostile_url)
    await engine.migrate()
    store = SqlStore(engine)
    await store.open()
    try:
        connection = await engine.connect()
        said = {name: await connection.fetchval(f"SHOW {name}") for name in HOSTILE}
        await connection.close()
        assert said == {
            "default_transaction_isolation": "read committed",
            "default_transaction_read_only": "off",
            "lock_timeout": "7s",
            "statement_timeout": "0",
            "idle_in_transaction_session_timeout": "10s",
            "idle_session_timeout": "0",
            "synchronous_commit": "on",
            "search_path": "jobs",
        }
        await store.submit_many([Submission(type="t", concurrency_key="k", concurrency_limit=1)] * 12)
        running = 0
        for _ in range(12):
            claims = await asyncio.gather(*(store.claim(ClaimRequest(worker_id=f"w{n}", limit=4)) for n in range(6)))
            [claim] = [claim for claimed in claims for claim in claimed]
            await store.settle([Report(claim, Success())])
            running += 1
        assert running == 12
    finally:
        await store.close()
