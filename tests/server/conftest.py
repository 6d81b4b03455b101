"""Each test of the API runs on both engines unless what it tests never touches one."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from tests.server.plane import Plane, running_plane


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    """A fresh database."""
    name = "sqlite_url" if request.param == "sqlite" else "fresh_postgres_url"
    found: str = request.getfixturevalue(name)
    return found


@pytest.fixture
async def plane(url: str) -> AsyncIterator[Plane]:
    async with running_plane(url) as running:
        yield running


@pytest.fixture
async def client(plane: Plane) -> AsyncIterator[httpx.AsyncClient]:
    """One with scopes submit, read and worker for the requester vesta."""
    async with plane.client() as http:
        yield http


@pytest.fixture
async def sqlite_client(sqlite_url: str) -> AsyncIterator[httpx.AsyncClient]:
    """The same on SQLite alone, for what is refused before any engine is asked."""
    async with running_plane(sqlite_url) as running, running.client() as http:
        yield http
