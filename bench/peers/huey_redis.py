"""Huey on Redis: a few threads, blocking pop, results off."""

# mypy: disable-error-code="import-not-found"
# (the peer is installed only in its own environment)

from __future__ import annotations

from huey import RedisHuey

from bench.peers.huey_consumer import HueyPeer


class HueyOnRedis(HueyPeer):
    def make_huey(self) -> RedisHuey:
        return RedisHuey("bench", url=self.url, results=False)


PEER = HueyOnRedis
