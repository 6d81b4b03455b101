"""A worker process that tests kill: `python -m tests.redis_lists.victim URL`. Each run is counted in Redis.

Its types: `count`, which sometimes fails; `process_file`, another program's; and `kill`, which ends the process."""

from __future__ import annotations

import asyncio
import os
import random
import sys

import redis.asyncio

import euterpe


async def main(url: str) -> None:
    queue = euterpe.Queue(url)
    counts = redis.asyncio.Redis.from_url(url.partition("?")[0])

    @queue.job("count", max_attempts=1000, backoff={"strategy": "constant", "initial": "10ms", "jitter": 0.0})
    async def count(number: int) -> int:
        await asyncio.sleep(random.uniform(0, 0.003))
        await counts.hincrby("runs", str(number), 1)
        if random.random() < 0.05:
            raise euterpe.TemporaryError("no luck")
        return number

    @queue.job("process_file", max_attempts=1000)
    async def process_file(filepath: str, filesize: int, priority: str) -> None:
        await counts.hincrby("runs", filepath, 1)

    @queue.job("kill")
    async def kill(filepath: str, filesize: int, priority: str) -> None:
        await counts.hincrby("runs", filepath, 1)
        os._exit(9)

    print("ready", os.getpid(), flush=True)
    await queue.work(concurrency=20, lease="1s", poll="50ms")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
