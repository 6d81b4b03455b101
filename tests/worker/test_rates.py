"""Workers and the rates of keys, by the real clock."""

from __future__ import annotations

import asyncio

from euterpe.model.errors import TemporaryError
from euterpe.queue.queue import Queue, core_of
from euterpe.worker.context import Context
from tests.patience import in_time
from tests.worker.conftest import ON_SQLITE_ALONE
from tests.worker.inline import AT_ONCE, working

INTERVAL_US = 40_000
JOBS = 12


async def test_two_workers_together_start_no_more_than_the_rate_and_do_not_dawdle(url: str) -> None:
    queue = Queue(url)

    @queue.job("call", concurrency_key="api")
    async def call() -> None: ...

    async with queue:
        await queue.rates.set("api", "25/s")
        jobs = await queue.submit_many([call.with_args() for _ in range(JOBS)])
    other = Queue(url)
    other.job("call", concurrency_key="api")(call.function)
    async with working(queue), working(other):
        for job in jobs:
            await job.result("30s")
        rows = [await core_of(queue).get(job.id) for job in jobs]
    starts = sorted(row.started_at or 0 for row in rows)
    # A start is noted by the claim's first statement, and its token taken by a later one.
    assert starts[-1] - starts[0] >= (JOBS - 2) * INTERVAL_US
    assert [row.attempt_count for row in rows] == [1] * JOBS
    in_time((starts[-1] - starts[0]) / 1e6, 20)


@ON_SQLITE_ALONE
async def test_what_a_handler_charges_and_what_it_is_told_to_wait_holds_others_up(url: str) -> None:
    queue = Queue(url)
    begun: list[tuple[str, float]] = []

    @queue.job("ask", concurrency_key="model", backoff=AT_ONCE)
    async def ask(ctx: Context, name: str) -> None:
        begun.append((name, asyncio.get_running_loop().time()))
        if name == "dear":
            await ctx.charge(20)
        elif name == "refused" and ctx.attempt == 1:
            raise TemporaryError("429", retry_after=0.4)

    async with working(queue):
        await queue.rates.set("model", "50/s", burst=2)
        jobs = [await ask.submit(name=name) for name in ("dear", "refused", "last")]
        for job in jobs:
            await job.result("30s")
        (left,) = await queue.rates.list()
    assert (left.key, left.burst) == ("model", 2)
    times = dict(reversed(begun))
    again = [at for name, at in begun if name == "refused"][-1]
    assert again - times["dear"] >= 0.4
    assert begun[-1][1] - begun[0][1] >= 0.4
