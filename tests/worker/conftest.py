"""Each test of this folder runs on a fresh SQLite file and on a fresh Postgres schema."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from euterpe.queue.queue import Queue
from tests.worker.floor import Floor


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    name = "sqlite_url" if request.param == "sqlite" else "fresh_postgres_url"
    fresh: str = request.getfixturevalue(name)
    return fresh


ON_SQLITE_ALONE = pytest.mark.parametrize("url", ["sqlite"], indirect=True)
"""For what has nothing to do with the engine and takes its time."""


@pytest.fixture
def floor(url: str, tmp_path: Path) -> Iterator[Floor]:
    floor = Floor(url, tmp_path)
    yield floor
    floor.dismiss()


@pytest.fixture
async def client(url: str) -> AsyncIterator[Queue]:
    """A queue without handlers, as another process would submit with it."""
    async with Queue(url) as queue:
        yield queue
