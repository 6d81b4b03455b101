"""A user's app, as small as they come: copied into the folder where a test runs its commands."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import euterpe

queue = euterpe.Queue(os.environ.get("ENGINE_URL", "sqlite:///jobs.db"))
not_a_queue = 7
BEGUN, GO = Path("begun"), Path("go")


@queue.job("greet", priority="high")
async def greet(ctx: euterpe.Context, name: str) -> str:
    return f"hello {name}"


@queue.job("linger")
async def linger(ctx: euterpe.Context) -> str:
    """Leaves a file that says it has begun, and goes on until another one lets it go."""
    await asyncio.to_thread(BEGUN.touch)
    while not await asyncio.to_thread(GO.exists):  # noqa: ASYNC110  # whoever lets it go is another process
        await asyncio.sleep(0.05)
    return "done"
