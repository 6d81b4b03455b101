"""A store on Postgres with a clock of the test, and another one as a second process would open it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from euterpe.stores.sql.postgres.engine import PostgresEngine
from euterpe.stores.sql.store import SqlStore
from tests.conformance.clock import FrozenClock
from tests.conformance.engines import PostgresTables, opened


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
async def store(fresh_postgres_url: str, clock: FrozenClock) -> AsyncIterator[SqlStore]:
    async with opened(PostgresEngine(fresh_postgres_url, clock)) as store:
        yield store


@pytest.fixture
async def another(fresh_postgres_url: str, clock: FrozenClock) -> AsyncIterator[SqlStore]:
    """As another process would open it."""
    async with opened(PostgresEngine(fresh_postgres_url, clock)) as store:
        yield store


@pytest.fixture
async def tables(fresh_postgres_url: str) -> AsyncIterator[PostgresTables]:
    tables = PostgresTables(fresh_postgres_url)
    yield tables
    await tables.close()
