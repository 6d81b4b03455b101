"""The demo's job types, run by `euterpe worker euterpe.cli.demo.app:queue` like any user's."""

from __future__ import annotations

import asyncio
import os

from euterpe.model.errors import TemporaryError
from euterpe.queue.queue import Queue
from euterpe.worker.context import Context

URL_VARIABLE = "EUTERPE_DEMO_URL"
FAILURES = 2
FIRST_RETRY_S = 0.3
SOON = {"strategy": "constant", "initial": "200ms"}

queue = Queue(os.environ.get(URL_VARIABLE, "sqlite:///demo.db"))


@queue.job("demo.prepare", backoff=SOON)
async def prepare(ctx: Context, parts: int) -> int:
    await ctx.progress(50, "counting")
    await asyncio.sleep(0.2)
    return parts


@queue.job("demo.render", backoff=SOON)
async def render(ctx: Context, part: int, seconds: float) -> str:
    for step in range(1, 11):
        await asyncio.sleep(seconds / 10)
        await ctx.progress(step * 10, f"frame {step} of 10")
    return f"part {part}, rendered by attempt {ctx.attempt}"


@queue.job("demo.flaky", max_attempts=6, backoff={"strategy": "exponential", "initial": f"{FIRST_RETRY_S}s"})
async def flaky(ctx: Context, part: int) -> int:
    await asyncio.sleep(0.1)
    if ctx.attempt <= FAILURES:
        raise TemporaryError(f"the service for part {part} is busy")
    return ctx.attempt


@queue.job("demo.later", backoff=SOON)
async def later(ctx: Context) -> int:
    return ctx.attempt


@queue.job("demo.hello", backoff=SOON)
async def hello(_ctx: Context, name: str) -> str:
    return f"hello {name}"


@queue.job("demo.nap", backoff=SOON)
async def nap(ctx: Context) -> str:
    return f"attempt {ctx.attempt} was awake"


@queue.job("demo.summary", backoff=SOON)
async def summary(ctx: Context, parts: int) -> str:
    await ctx.progress(50, "binding")
    await asyncio.sleep(0.2)
    return f"{parts} parts in one"
