"""RQ on Redis: SimpleWorker, which runs jobs in its own process; results live 500 s, as by default."""

# mypy: disable-error-code="import-not-found"
# (the peer is installed only in its own environment)

from __future__ import annotations

from collections.abc import Mapping, Sequence

import redis
from rq import Queue, SimpleWorker
from rq.registry import StartedJobRegistry

from bench.peers.adapter import Payload, Peer, Setting, seen


def noop(payload: Payload) -> None:
    seen(payload)


class RedisQueue(Peer):
    def __init__(self, url: str, settings: Mapping[str, Setting]) -> None:
        super().__init__(url, settings)
        self.redis = redis.Redis.from_url(url)
        self.queue = Queue(connection=self.redis)

    async def setup(self) -> None:
        """Redis needs no schema."""

    async def open(self) -> None:
        self.redis.ping()

    async def submit_one(self, payloads: Sequence[Payload]) -> None:
        for payload in payloads:
            self.queue.enqueue(noop, payload)

    async def submit_bulk(self, payloads: Sequence[Payload]) -> None:
        size = int(self.settings["submit_batch"])
        for at in range(0, len(payloads), size):
            batch = payloads[at : at + size]
            self.queue.enqueue_many([Queue.prepare_data(noop, (payload,)) for payload in batch])

    async def unfinished(self) -> int:
        started = StartedJobRegistry(queue=self.queue).get_job_count(cleanup=False)
        return int(self.redis.llen(self.queue.key)) + int(started)

    async def work(self) -> None:
        SimpleWorker([self.queue], connection=self.redis).work(logging_level="ERROR")


PEER = RedisQueue
