"""A queue on each engine, opened, with nothing in it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from euterpe.queue.queue import Queue


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    name = "sqlite_url" if request.param == "sqlite" else "fresh_postgres_url"
    fresh: str = request.getfixturevalue(name)
    return fresh


@pytest.fixture
async def queue(url: str) -> AsyncIterator[Queue]:
    async with Queue(url) as queue:
        yield queue


@pytest.fixture
def unopened(sqlite_url: str) -> Queue:
    """For what is refused before any database is asked."""
    return Queue(sqlite_url)
