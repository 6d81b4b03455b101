"""Pages are looked at on both engines; who may see and do what is decided above them, so one is enough for that."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.dashboard.chromium import Chromium, SiteBeside
from tests.dashboard.site import Site, running_site


@pytest.fixture
async def site(sqlite_url: str) -> AsyncIterator[Site]:
    async with running_site(sqlite_url) as running:
        yield running


@pytest.fixture(params=["sqlite", "postgres"])
async def either_site(request: pytest.FixtureRequest) -> AsyncIterator[Site]:
    url = request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "fresh_postgres_url")
    async with running_site(url) as running:
        yield running


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    running = Chromium()
    yield running
    running.close()


@pytest.fixture
def beside(sqlite_url: str) -> Iterator[SiteBeside]:
    with SiteBeside(sqlite_url) as running:
        yield running
