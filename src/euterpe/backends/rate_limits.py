"""Rate limits that processes share through the database they share anyway."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from euterpe.backends.database import database_of
from euterpe.model.extras import needing
from euterpe.ports import RateLimit, Store
from euterpe.redis.settings import DEFAULT_TUNING, RedisTuning
from euterpe.stores.sql.rate_limit import SqlRateLimit


@asynccontextmanager
async def shared_rate_limit(
    store: Store, key: str, per_s: float, redis_url: str | None = None, tuning: RedisTuning = DEFAULT_TUNING
) -> AsyncIterator[RateLimit]:
    """In the Redis of `redis_url`, else in the store's own database. Raises Unsupported for a control plane."""
    if redis_url is None:
        yield SqlRateLimit(database_of(store), key, per_s)
        return
    with needing("a rate limit in Redis", "redis"):
        from euterpe.redis.connection import redis_client
        from euterpe.redis.rate_limit import RedisRateLimit

    limit = RedisRateLimit(redis_client(redis_url, tuning), key, per_s)
    try:
        yield limit
    finally:
        await limit.close()
