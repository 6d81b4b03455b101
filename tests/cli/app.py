"""A user's app, as small as they come: copied into the folder where a test runs its commands."""

from __future__ import annotations

import asyncio
import os

import euterpe

queue = euterpe.Queue(os.environ.get("ENGINE_URL", "sqlite:///jobs.db"))
not_a_queue = 7


@queue.job("greet", priority="high")
async def greet(ctx: euterpe.Context, name: str) -> str:
    return f"hello {name}"


@queue.job("linger")
async def linger(ctx: euterpe.Context, seconds: float) -> str:
    await ctx.progress(10, "lingering")
    await asyncio.sleep(seconds)
    return "done"
