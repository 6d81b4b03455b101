"""The application under test: `euterpe worker tests.campaign.app:queue`."""

from __future__ import annotations

import asyncio
import os

import euterpe

queue = euterpe.Queue(os.environ.get("CAMPAIGN_URL", "sqlite:///:memory:"))
SOON = {"strategy": "constant", "initial": "50ms", "jitter": 0}


@queue.job("work", backoff=SOON)
async def work(ctx: euterpe.Context, ms: int, failures: int, for_good: bool, spawn: int) -> str:
    """Its result or error tells which claim wrote it."""
    await asyncio.sleep(ms / 1000)
    if ctx.attempt <= failures:
        raise euterpe.TemporaryError(f"planned in {ctx.attempt_id}")
    if for_good:
        raise euterpe.PermanentError(f"planned in {ctx.attempt_id}")
    for _ in range(spawn):
        await ctx.spawn(leaf.with_args())
    return ctx.attempt_id


@queue.job("leaf", backoff=SOON)
async def leaf() -> None: ...
