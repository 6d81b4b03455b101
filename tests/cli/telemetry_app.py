"""An app whose jobs end in every way that telemetry tells apart: copied into the folder where a test runs commands."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import euterpe

queue = euterpe.Queue(os.environ.get("ENGINE_URL", "sqlite:///.euterpe/jobs.db"))


@queue.job("succeed")
async def succeed(ctx: euterpe.Context) -> str:
    return "done"


@queue.job("fail")
async def fail(ctx: euterpe.Context) -> None:
    raise euterpe.PermanentError("the secret payload is 4711")


@queue.job("stumble")
async def stumble(ctx: euterpe.Context) -> None:
    raise euterpe.TemporaryError("the secret payload is 4711")


@queue.job("linger")
async def linger(ctx: euterpe.Context, name: str = "begun") -> None:
    """Leaves a file that says it has begun, and goes on until somebody ends it."""
    await asyncio.to_thread(Path(name).touch)
    await asyncio.Event().wait()
