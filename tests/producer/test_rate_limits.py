"""One rate for all producers, whatever it is kept in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import redis

from euterpe import Queue
from euterpe.backends.rate_limits import shared_rate_limit
from euterpe.model.errors import StoreUnavailable
from euterpe.ports import RateLimit, Store
from euterpe.producer.pacing import OwnRate
from euterpe.queue.queue import core_of
from tests.producer.conftest import producer_of
from tests.redis_lists.private_server import ConfiguredRedis


@asynccontextmanager
async def limit_in(place: str, request: pytest.FixtureRequest, key: str, per_s: float) -> AsyncIterator[RateLimit]:
    """As one process has it: two of them share only the database."""
    if place == "redis":
        async with shared_rate_limit(None, key, per_s, request.getfixturevalue("redis_url")) as limit:  # type: ignore[arg-type]  # Redis asks no store
            yield limit
        return
    name = "sqlite_url" if place == "sqlite" else "fresh_postgres_url"
    queue = Queue(request.getfixturevalue(name))
    async with queue, shared_rate_limit(core_of(queue).store, key, per_s) as limit:
        yield limit


@pytest.mark.parametrize("place", ["sqlite", "postgres", "redis"])
async def test_two_processes_share_what_is_reserved(place: str, request: pytest.FixtureRequest) -> None:
    async with limit_in(place, request, "k", 1.0) as one, limit_in(place, request, "k", 1.0) as two:
        assert await one.take(100) == 0.0
        assert 90 < await two.take(50) <= 100
        assert 140 < await one.take(1) <= 150


@pytest.mark.parametrize("place", ["sqlite", "postgres", "redis"])
async def test_what_is_given_back_is_the_next_ones(place: str, request: pytest.FixtureRequest) -> None:
    async with limit_in(place, request, "k", 1.0) as limit:
        await limit.take(100)
        await limit.give_back(60)
        assert 30 < await limit.take(1) <= 40


@pytest.mark.parametrize("place", ["sqlite", "postgres", "redis"])
async def test_another_key_is_another_limit(place: str, request: pytest.FixtureRequest) -> None:
    async with limit_in(place, request, "k", 1.0) as limit, limit_in(place, request, "other", 1.0) as other:
        await limit.take(100)
        assert await other.take(1) == 0.0


async def test_a_redis_that_is_full_or_read_only_is_named_and_not_taken_for_a_bug() -> None:
    """The rate is asked before any job is stored, so here a producer hears of it first."""
    with ConfiguredRedis(maxmemory="1") as server, redis.Redis.from_url(server.url) as raw:
        async with shared_rate_limit(None, "k", 1.0, server.url) as limit:  # type: ignore[arg-type]  # Redis asks no store
            with pytest.raises(StoreUnavailable, match="out of memory"):
                await limit.take(1)
            raw.config_set("maxmemory", "0")
            raw.execute_command("REPLICAOF", "127.0.0.1", "1")
            with pytest.raises(StoreUnavailable, match="read-only"):
                await limit.take(1)
            raw.execute_command("REPLICAOF", "NO", "ONE")
            raw.lpush("k", "not ours")
            with pytest.raises(StoreUnavailable, match="wrong kind of value"):
                await limit.take(1)
            raw.delete("k")
            raw.set("k", "no number")
            assert await limit.take(1) == 0.0


async def test_a_process_of_its_own_keeps_its_own_rate() -> None:
    now = 50.0
    rate = OwnRate(10.0, lambda: now)
    assert [await rate.take(5), await rate.take(5)] == [0.0, 0.5]
    await rate.give_back(10)
    assert await rate.take(1) == 0.0


async def test_known_files_cost_nothing_of_the_rate(music: Path, sqlite_store: Store) -> None:
    for number in range(40):
        (music / f"{number}.wav").touch()
    await producer_of(music, sqlite_store).scan(asyncio.Event())
    async with shared_rate_limit(sqlite_store, "k", 1.0) as rate:
        await producer_of(music, sqlite_store, rate=rate).scan(asyncio.Event())
        assert await rate.take(1) < 1.0


async def test_new_files_are_enqueued_at_the_rate(music: Path, sqlite_store: Store) -> None:
    for number in range(40):
        (music / f"{number}.wav").touch()
    async with shared_rate_limit(sqlite_store, "k", 1.0) as rate:
        await producer_of(music, sqlite_store, rate=rate).scan(asyncio.Event())
        assert await rate.take(1) > 30
