"""The application under test: `euterpe worker tests.campaign.app:queue`."""

from __future__ import annotations

import asyncio
import os
import time

import euterpe
from tests.campaign.plan import KILLED_BY_A_JOB

queue = euterpe.Queue(os.environ.get("CAMPAIGN_URL", "sqlite:///:memory:"))
_JOURNAL = os.environ.get("CAMPAIGN_BEGUN")
BEGUN = None if _JOURNAL is None else os.open(_JOURNAL, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
DEAD_STORE = os.environ.get("CAMPAIGN_DEAD_STORE")
SOON = {"strategy": "constant", "initial": "50ms", "jitter": 0}


@queue.job("work", backoff=SOON)
async def work(ctx: euterpe.Context, ms: int, failures: int, for_good: bool, spawn: int) -> str:
    """Its result or error tells which claim wrote it."""
    begins(ctx)
    await asyncio.sleep(ms / 1000)
    if ctx.attempt <= failures:
        raise euterpe.TemporaryError(f"planned in {ctx.attempt_id}")
    if for_good:
        raise euterpe.PermanentError(f"planned in {ctx.attempt_id}")
    for _ in range(spawn):
        await ctx.spawn(leaf.with_args())
    return ctx.attempt_id


@queue.job("leaf", backoff=SOON)
async def leaf(ctx: euterpe.Context) -> None:
    begins(ctx)


@queue.job("brief", backoff=SOON)
async def brief(ctx: euterpe.Context) -> None:
    begins(ctx)
    await asyncio.sleep(0.005)


@queue.job("killer", backoff=SOON)
async def killer(ctx: euterpe.Context) -> None:
    """Takes its worker down while its neighbours run."""
    begins(ctx)
    await asyncio.sleep(0.2)
    os._exit(KILLED_BY_A_JOB)


@queue.job("neighbour", backoff=SOON)
async def neighbour(ctx: euterpe.Context) -> None:
    begins(ctx)
    await asyncio.sleep(0.3)


@queue.job("hog", backoff=SOON)
async def hog(ctx: euterpe.Context, seconds: float) -> None:
    begins(ctx)
    time.sleep(seconds)  # noqa: ASYNC251  # the very mistake that must cost nothing


@queue.job("store", backoff=SOON)
async def store(ctx: euterpe.Context, dead: bool) -> None:
    """The store of some is dead while this file is there."""
    begins(ctx)
    await asyncio.sleep(0.02)
    if dead and DEAD_STORE is not None and os.path.exists(DEAD_STORE):  # noqa: ASYNC240, PTH110
        raise ConnectionError("the store does not answer")


def begins(ctx: euterpe.Context) -> None:
    """In a file, in one write: it outlives the process."""
    if BEGUN is not None:
        os.write(BEGUN, f"{ctx.attempt_id}\n".encode())
