"""A folder of files, and producers that look through it on a fresh database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from euterpe import Queue
from euterpe.model.reading.views import Search
from euterpe.ports import Capability, RateLimit, Store
from euterpe.producer.globs import Globs
from euterpe.producer.jobs import PriorityByExtension, file_jobs
from euterpe.producer.producer import Producer, ProducerSettings
from euterpe.producer.tree import Tree
from euterpe.queue.queue import core_of

EVERYTHING = Globs(["**/*"], [])
NEVER = asyncio.Event


@pytest.fixture
def music(tmp_path: Path) -> Path:
    folder = tmp_path / "music"
    folder.mkdir()
    return folder


@pytest.fixture(params=["sqlite", "postgres", "redis"])
def engine_url(request: pytest.FixtureRequest) -> str:
    name = {"sqlite": "sqlite_url", "postgres": "fresh_postgres_url", "redis": "redis_url"}[request.param]
    url: str = request.getfixturevalue(name)
    return url


@pytest.fixture
async def store(engine_url: str) -> AsyncIterator[Store]:
    queue = Queue(engine_url)
    async with queue:
        yield core_of(queue).store


@pytest.fixture
async def sqlite_store(sqlite_url: str) -> AsyncIterator[Store]:
    queue = Queue(sqlite_url)
    async with queue:
        yield core_of(queue).store


def producer_of(
    folder: Path,
    store: Store,
    *,
    settle_s: float = 0.0,
    globs: Globs = EVERYTHING,
    rate: RateLimit | None = None,
    recipe: str = "",
    clock_s: Callable[[], float] | None = None,
    scan_interval_s: float = 0.2,
    watches: bool = False,
) -> Producer:
    tree = Tree(folder, globs)
    make = file_jobs(
        tree.root, "process_file", PriorityByExtension("low", (".wav",)), ("high", "low"), lambda _: "files"
    )
    settings = ProducerSettings(scan_interval_s=scan_interval_s, settle_s=settle_s, watches=watches)
    more: dict[str, Any] = {} if clock_s is None else {"clock_s": clock_s}
    return Producer(tree, make, store, settings, rate, recipe, **more)


async def payloads(store: Store) -> list[dict[str, Any]]:
    """The payload of every job that was stored, in the order of their paths."""
    found: list[dict[str, Any]] = []
    cursor = None
    if Capability.SEARCH not in store.capabilities:
        found = [msgspec.json.decode(job.payload) for job in await store.peek(["files"], 1000)]
        return sorted(found, key=lambda payload: str(payload["filepath"]))
    while True:
        page = await store.search(Search(limit=500, cursor=cursor))
        found += [msgspec.json.decode(job.payload) for job in page.jobs]
        cursor = page.cursor
        if cursor is None:
            return sorted(found, key=lambda payload: str(payload["filepath"]))


async def names(store: Store) -> list[str]:
    return [Path(payload["filepath"]).name for payload in await payloads(store)]
