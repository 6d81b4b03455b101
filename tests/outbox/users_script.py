"""What a user writes: a queue, a job, a callback, `queue.work()`. Run as `python users_script.py QUEUE CALLBACK`."""

from __future__ import annotations

import asyncio
import signal
import sys

import euterpe

queue = euterpe.Queue(sys.argv[1])


@queue.job("greet")
async def greet(name: str) -> dict[str, str]:
    return {"hello": name}


async def main() -> None:
    async with queue:
        for name in ("ada", "bob", "cy"):
            await queue.submit(greet.with_args(name=name), callback_url=sys.argv[2])
        await queue.work(signals=[signal.SIGTERM])


asyncio.run(main())
