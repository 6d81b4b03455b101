"""taskiq on Redis Streams: many async tasks, prefetch, orjson, uvloop. No result backend, as by default."""

# mypy: disable-error-code="import-not-found"
# (the peer is installed only in its own environment)

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

import redis.asyncio
import uvloop
from taskiq.api import run_receiver_task
from taskiq.serializers import ORJSONSerializer
from taskiq_redis import RedisStreamBroker

from bench.peers.adapter import Payload, Peer, Setting, seen


async def noop(payload: dict[str, Any]) -> None:
    seen(payload)


class Taskiq(Peer):
    @staticmethod
    def run(main: Coroutine[Any, Any, None]) -> None:
        uvloop.run(main)

    def __init__(self, url: str, settings: Mapping[str, Setting]) -> None:
        super().__init__(url, settings)
        # "0" instead of the default "$": a group made by the worker then also sees what was submitted before.
        self.broker = RedisStreamBroker(url=url, consumer_id="0").with_serializer(ORJSONSerializer())
        self.task = self.broker.task(task_name="noop")(noop)

    async def setup(self) -> None:
        await self.broker.startup()
        await self.broker.shutdown()

    async def open(self) -> None:
        await self.broker.startup()
        self.redis = redis.asyncio.Redis.from_url(self.url)

    async def submit_one(self, payloads: Sequence[Payload]) -> None:
        for payload in payloads:
            await self.task.kiq(payload)

    async def submit_bulk(self, payloads: Sequence[Payload]) -> None:
        size = int(self.settings["submit_batch"])
        for at in range(0, len(payloads), size):
            await asyncio.gather(*(self.task.kiq(payload) for payload in payloads[at : at + size]))

    async def unfinished(self) -> int:
        stream = await self.redis.xinfo_stream("taskiq")
        (group,) = await self.redis.xinfo_groups("taskiq")
        # Redis 6.2 does not tell how many are undelivered; that there are some is enough.
        undelivered = bool(group["last-delivered-id"] != stream["last-generated-id"])
        return int(group["pending"]) + undelivered

    async def work(self) -> None:
        await run_receiver_task(
            self.broker,
            max_async_tasks=int(self.settings["async_tasks"]),
            max_prefetch=int(self.settings["prefetch"]),
            run_startup=True,
        )


PEER = Taskiq
