"""A rate limit in one Redis key: every process that names it shares it, by Redis' clock."""

from __future__ import annotations

from typing import Final

from redis.asyncio import Redis

from euterpe.redis.errors import REDIS_ERRORS, unavailable

_TAKE: Final = """
local now = redis.call('TIME')
now = now[1] * 1000000 + now[2]
local next_at = tonumber(redis.call('GET', KEYS[1]) or '0') or 0
if next_at < now then next_at = now end
local after = next_at + tonumber(ARGV[1])
redis.call('SET', KEYS[1], string.format('%.0f', after), 'PX', math.ceil((after - now) / 1000) + 1000)
return next_at - now
"""
_GIVE_BACK: Final = """
local next_at = redis.call('GET', KEYS[1])
if next_at then redis.call('SET', KEYS[1], string.format('%.0f', next_at - ARGV[1]), 'KEEPTTL') end
"""


class RedisRateLimit:
    """`per_s` a second under this key. Reservations follow each other without a gap and without a burst."""

    def __init__(self, client: Redis, key: str, per_s: float) -> None:
        self._client = client
        self._key = key
        self._each_us = 1_000_000 / per_s

    async def take(self, count: int) -> float:
        wait_us = await self._run(_TAKE, count)
        assert isinstance(wait_us, int)
        return max(0, wait_us) / 1_000_000

    async def give_back(self, count: int) -> None:
        if count:
            await self._run(_GIVE_BACK, count)

    async def close(self) -> None:
        await self._client.aclose()

    async def _run(self, script: str, count: int) -> object:
        """Raises StoreUnavailable: a Redis that is full or read-only says so here first."""
        try:
            return await self._client.eval(script, 1, self._key, str(round(count * self._each_us)))
        except REDIS_ERRORS as error:
            raise unavailable(error, wrote=False) from error
