"""A control plane in a process of its own on each engine, and a client for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from euterpe import Queue
from euterpe.backends.engines import connect
from euterpe.stores.remote.store import HttpStore, with_token
from euterpe.stores.sql.accounts.keys import ApiKeys
from tests.server.plane import PlaneProcess, plane_process
from tests.sql_stores import sql


@dataclass(frozen=True, slots=True)
class Remote:
    """A running control plane, its database, and a key."""

    url: str
    base_url: str
    key: str
    process: PlaneProcess

    def queue(self) -> Queue:
        return Queue(self.base_url, token=self.key)

    @asynccontextmanager
    async def store(self) -> AsyncIterator[HttpStore]:
        opened = HttpStore(with_token(self.base_url, self.key))
        await opened.open()
        try:
            yield opened
        finally:
            await opened.close()


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    name = "sqlite_url" if request.param == "sqlite" else "fresh_postgres_url"
    found: str = request.getfixturevalue(name)
    return found


async def make_key(url: str, *scopes: str, requester: str = "vesta") -> str:
    backend = connect(url)
    await backend.open()
    try:
        return (await ApiKeys(sql(backend.store).engine).create_key(requester, scopes)).key
    finally:
        await backend.close()


@pytest.fixture
async def key(url: str) -> str:
    return await make_key(url, "submit", "read", "worker")


@pytest.fixture
def lease_s() -> float:
    """A test that waits for leases to run out says how long they are."""
    return 60.0


@pytest.fixture
def remote(url: str, key: str, lease_s: float) -> Iterator[Remote]:
    with plane_process(url, "--lease-s", str(lease_s), "--sweep-s", "0.2") as process:
        yield Remote(url, process.base_url, key, process)


@pytest.fixture
async def store(remote: Remote) -> AsyncIterator[HttpStore]:
    async with remote.store() as opened:
        yield opened


@pytest.fixture
async def queue(remote: Remote) -> AsyncIterator[Queue]:
    async with remote.queue() as opened:
        yield opened
