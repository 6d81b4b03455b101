"""Celery on Redis: solo pool, large prefetch, results ignored, messages acknowledged before they run."""

# mypy: disable-error-code="import-not-found"
# (the peer is installed only in its own environment)

from __future__ import annotations

from collections.abc import Mapping, Sequence

import redis
from celery import Celery as CeleryApp

from bench.peers.adapter import Payload, Peer, Setting, seen


def noop(payload: Payload) -> None:
    seen(payload)


class Celery(Peer):
    def __init__(self, url: str, settings: Mapping[str, Setting]) -> None:
        super().__init__(url, settings)
        self.app = CeleryApp("bench", broker=url)
        self.app.conf.update(
            task_ignore_result=True,
            worker_prefetch_multiplier=int(settings["prefetch_multiplier"]),
            worker_hijack_root_logger=False,
        )
        self.task = self.app.task(name="noop")(noop)

    async def setup(self) -> None:
        """Redis needs no schema."""

    async def open(self) -> None:
        self.redis = redis.Redis.from_url(self.url)

    async def submit_one(self, payloads: Sequence[Payload]) -> None:
        with self.app.producer_or_acquire() as producer:
            for payload in payloads:
                self.task.apply_async((payload,), producer=producer)

    async def submit_bulk(self, payloads: Sequence[Payload]) -> None:
        await self.submit_one(payloads)

    async def unfinished(self) -> int:
        return int(self.redis.llen("celery")) + int(self.redis.hlen("unacked"))

    async def work(self) -> None:
        pool = f"--pool={self.settings['pool']}"
        quiet = ["--loglevel=ERROR", "--without-gossip", "--without-mingle", "--without-heartbeat"]
        self.app.worker_main(["worker", pool, *quiet])


PEER = Celery
