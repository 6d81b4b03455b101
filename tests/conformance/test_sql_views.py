"""What people ask in SQL: the views tell of every job and of every ended attempt what the store tells of them."""

from __future__ import annotations

from euterpe.model.failures.failure import Category
from euterpe.model.state import State
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import complete, fail, job, submit, submit_in, take_one
from tests.conformance.clock import FrozenClock
from tests.conformance.engines import Tables


async def test_the_view_of_jobs_tells_what_the_store_tells(store: SqlStore, tables: Tables) -> None:
    ids = [(await submit_in(store, state, type=f"in {state}")).id for state in State]
    ids += [result.job_id for result in await store.submit_many([job()] * 20)]
    columns = "CAST(id AS text), type, queue, state, stage, priority, attempt_count, claim_version, worker_id"
    shown = {str(row[0]): tuple(row) for row in await tables.run(f"SELECT {columns} FROM euterpe_jobs")}
    for job_id in ids:
        row = await store.get(job_id)
        said = (row.type, row.queue, str(row.state), row.stage, row.priority, row.attempt_count, row.claim_version)
        assert shown[job_id] == (job_id, *said, row.worker_id)


async def test_the_view_of_attempts_tells_what_the_store_tells(
    store: SqlStore, tables: Tables, clock: FrozenClock
) -> None:
    job_id = await submit(store, max_attempts=3)
    other = await submit(store, "other", max_attempts=1)
    await fail(store, await take_one(store, types=("work",)))
    clock.advance(hours=1)
    await store.sweeps.promote()
    await complete(store, await take_one(store, types=("work",)))
    await fail(store, await take_one(store, types=("other",)), Category.PERMANENT)
    rows = await tables.run("SELECT CAST(job_id AS text), claim_version, attempt, outcome, state FROM job_attempts")
    closed = [
        (attempt.job_id, attempt.claim_version, attempt.attempt, attempt.outcome)
        for one in (job_id, other)
        for attempt in await store.attempts(one)
    ]
    assert sorted(tuple(row[:4]) for row in rows) == sorted(closed)
    assert len(closed) == 3
