"""A worker process that tests kill: `python -m tests.redis_lists.victim URL`. Each run is counted in Redis."""

from __future__ import annotations

import asyncio
import os
import random
import sys

import redis.asyncio

import euterpe


async def main(url: str) -> None:
    queue = euterpe.Queue(url)
    counts = redis.asyncio.Redis.from_url(url)

    @queue.job("count", max_attempts=1000, backoff={"strategy": "constant", "initial": "10ms", "jitter": 0.0})
    async def count(number: int) -> int:
        await asyncio.sleep(random.uniform(0, 0.003))
        await counts.hincrby("runs", str(number), 1)
        if random.random() < 0.05:
            raise euterpe.TemporaryError("no luck")
        return number

    print("ready", os.getpid(), flush=True)
    await queue.work(concurrency=20, lease="1s", poll="50ms")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
