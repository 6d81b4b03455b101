"""Looking over the Redis that carries wake-ups."""

from __future__ import annotations

import re

from redis.exceptions import RedisError

from euterpe.model.diagnosis.facts import RedisFacts
from euterpe.redis.connection import redis_client
from euterpe.redis.settings import RedisTuning


async def redis_facts(url: str, tuning: RedisTuning, *, holds_jobs: bool = False) -> RedisFacts:
    """One INFO. A server that forbids it tells less, and is still reachable."""
    client = redis_client(url, tuning)
    try:
        await client.ping()
        info = await client.info()
    except (RedisError, OSError) as error:
        return RedisFacts(unreachable=type(error).__name__, holds_jobs=holds_jobs)
    finally:
        await client.aclose()
    return RedisFacts(
        version=tuple(int(part) for part in re.findall(r"\d+", str(info.get("redis_version", "")))[:2]),
        eviction_policy=str(info.get("maxmemory_policy", "noeviction")),
        memory_limit=int(info.get("maxmemory", 0)),
        memory_used=int(info.get("used_memory", 0)),
        holds_jobs=holds_jobs,
        append_only=bool(int(info.get("aof_enabled", 0))),
    )
