"""What `euterpe top` shows, on every engine and over HTTP."""

from __future__ import annotations

from euterpe.model.failures.failure import Category
from euterpe.stores.sql.store import SqlStore
from euterpe.tui.snapshot import take_snapshot
from tests.conformance.acts import complete, fail, submit, take


async def test_queues_workers_running_jobs_and_rates_are_seen_on_every_engine(store: SqlStore) -> None:
    for kind in ("runs", "fails", "ends", "waits"):
        await submit(store, kind)
    runs, fails, ends = await take(store, 3)
    await fail(store, fails, Category.PERMANENT)
    await complete(store, ends)
    seen = await take_snapshot(store)
    (line,) = seen.queues
    assert (line.name, line.waiting, line.running, line.failed) == ("default", 1, 1, 1)
    assert (seen.states["running"], seen.per_minute["completed"], seen.per_minute["failed"]) == (1, 1, 1)
    if seen.can_search:
        assert [job.id for job in seen.running] == [runs.job.id]
        assert [job.id for job in seen.failed] == [fails.job.id]
        assert [(worker.name, worker.holds) for worker in seen.workers] == [(runs.job.worker_id, 1)]
