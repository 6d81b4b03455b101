"""`queue.work(telemetry=...)` in a user's own process counts what its sweeps and submits do, as the roles do."""

from __future__ import annotations

import asyncio

from euterpe.model.submitting.submission import Submission
from euterpe.observe.metrics import Metrics
from euterpe.queue.queue import Queue, core_of
from euterpe.worker.context import Context
from tests.observe.scraping import moved_counters
from tests.patience import PATIENCE_S


async def test_a_worker_in_a_users_process_counts_what_its_sweeps_end(sqlite_url: str) -> None:
    metrics, stop = Metrics(), asyncio.Event()
    queue = Queue(sqlite_url)

    @queue.job("known")
    async def known(_ctx: Context) -> None: ...

    def dead() -> float | None:
        return moved_counters(metrics.render()[1].decode()).get('jobs_dead_letter_total{queue="default"}')

    async with queue:
        await core_of(queue).store.submit(Submission(type="unknown", lifetime_us=1_000_000))
        working = asyncio.create_task(queue.work(1, stop=stop, telemetry=metrics))
        async with asyncio.timeout(PATIENCE_S):
            while dead() is None:  # noqa: ASYNC110  # metrics call nobody back
                await asyncio.sleep(0.05)
        stop.set()
        await working
        assert dead() == 1
