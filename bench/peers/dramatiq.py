"""Dramatiq on Redis: few threads, a large prefetch. It keeps nothing of a finished job."""

# mypy: disable-error-code="import-not-found"
# (the peer is installed only in its own environment)

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence

import redis

from bench.peers.adapter import Payload, Peer, Setting, seen


def noop(payload: Payload) -> None:
    seen(payload)


class Dramatiq(Peer):
    def __init__(self, url: str, settings: Mapping[str, Setting]) -> None:
        super().__init__(url, settings)
        # Dramatiq reads its prefetch from the environment once, when it is imported.
        os.environ["dramatiq_queue_prefetch"] = str(settings["queue_prefetch"])  # noqa: SIM112 - its spelling
        import dramatiq
        from dramatiq.brokers.redis import RedisBroker

        self.broker = RedisBroker(url=url)
        self.actor = dramatiq.actor(actor_name="noop", broker=self.broker)(noop)
        self.worker_class = dramatiq.Worker

    async def setup(self) -> None:
        """Redis needs no schema."""

    async def open(self) -> None:
        self.redis = redis.Redis.from_url(self.url)

    async def submit_one(self, payloads: Sequence[Payload]) -> None:
        for payload in payloads:
            self.actor.send(payload)

    async def submit_bulk(self, payloads: Sequence[Payload]) -> None:
        await self.submit_one(payloads)

    async def unfinished(self) -> int:
        waiting = self.redis.llen("dramatiq:default")
        held = self.redis.scan_iter("dramatiq:__acks__.*", count=1000)
        running = sum(self.redis.scard(key) for key in held)
        return int(waiting) + running

    async def work(self) -> None:
        self.worker_class(self.broker, worker_threads=int(self.settings["threads"])).start()
        await asyncio.Event().wait()


PEER = Dramatiq
