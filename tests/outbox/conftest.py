"""A store with callbacks to deliver, on SQLite and on Postgres, by the real clock."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from euterpe.backends.engines import Backend, connect


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    fixture = "sqlite_url" if request.param == "sqlite" else "fresh_postgres_url"
    found: str = request.getfixturevalue(fixture)
    return found


@pytest.fixture
async def backend(url: str) -> AsyncIterator[Backend]:
    opened = connect(url)
    await opened.open()
    yield opened
    await opened.close()
