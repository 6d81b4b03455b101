"""A store on an empty schema with the clock of the test, and a look at its rows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from random import Random

import pytest

from euterpe.stores.sql.postgres.engine import PostgresEngine
from euterpe.stores.sql.store import SqlStore
from tests.conformance.clock import FrozenClock
from tests.walks.watched import Watched


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
async def line(recorded_postgres_url: str, clock: FrozenClock) -> AsyncIterator[Watched]:
    store = SqlStore(PostgresEngine(recorded_postgres_url, clock), rng=Random(7))
    await store.open()
    connection = await PostgresEngine(recorded_postgres_url).connect()
    yield Watched(store, connection)
    await connection.close()
    await store.close()
