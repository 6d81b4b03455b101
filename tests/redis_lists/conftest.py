"""A store in Redis lists on a frozen clock, and the Redis behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from random import Random

import pytest
import redis

from euterpe.stores.redis_lists.store import RedisListStore
from tests.conformance.clock import FrozenClock


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
async def store(redis_url: str, clock: FrozenClock) -> AsyncIterator[RedisListStore]:
    lists = RedisListStore(redis_url, clock=clock, rng=Random(7))
    await lists.open()
    yield lists
    await lists.close()


@pytest.fixture
def raw(redis_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_url, decode_responses=True) as client:
        yield client
