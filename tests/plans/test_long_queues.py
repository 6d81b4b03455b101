"""What stands ahead of a job is counted up to a bound: a long queue costs the question no more than a short one."""

from __future__ import annotations

import time

import apsw
import pytest

from euterpe.model.reading.why import AHEAD_LIMIT
from euterpe.model.submitting.submission import Submission
from euterpe.stores.sql.statements import numbered
from euterpe.stores.sql.store import SqlStore
from tests.faults.stores import opened, sqlite_path
from tests.plans.watching import WatchingPostgres

AHEAD = 5_000
STEPS_LIMIT = 40_000
"""Of SQLite's virtual machine; to look at all that are ahead takes twice that."""
PAUSED = Submission(type="paused")
LONE = """
WITH runs AS (DELETE FROM euterpe_line RETURNING *)
INSERT INTO euterpe_line (queue, type, priority, seq, jobs, expires_at, since, can_wait, tells)
SELECT queue, type, priority, n, 1, expires_at, since, can_wait, tells
FROM runs, generate_series(seq, seq + jobs - 1) AS n
"""
"""As if every job had been submitted by itself."""


@pytest.mark.parametrize("lone", [True, False], ids=["lone", "bulk"])
async def test_the_jobs_ahead_on_postgres_are_looked_at_up_to_the_bound(fresh_postgres_url: str, lone: bool) -> None:
    engine = WatchingPostgres(fresh_postgres_url)
    await engine.migrate()
    store = SqlStore(engine)
    await store.open()
    connection = await engine.connect()
    try:
        await store.submit_many([PAUSED] * AHEAD)
        if lone:
            await connection.execute(LONE)
        await store.pause("type", "paused")
        last = await store.submit(Submission(type="t", priority=4))
        assert (await store.why(last.job_id)).ahead == AHEAD_LIMIT + 1
        (run,) = engine.seen["jobs_ahead"].values()
        plan = str(await connection.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) {run.sql}", *run.bound))
        assert f'"Actual Rows": {AHEAD}' not in plan
        assert "euterpe_line" in plan
        assert "Seq Scan" not in plan
    finally:
        await connection.close()
        await store.close()


async def test_the_jobs_ahead_on_sqlite_are_looked_at_up_to_the_bound(sqlite_url: str) -> None:
    async with opened(sqlite_url) as store:
        await store.migrate()
        await store.submit_many([Submission(type="t")] * AHEAD)
        last = await store.submit(Submission(type="t", priority=4))
        assert (await store.why(last.job_id)).ahead == AHEAD_LIMIT + 1
        seq = (await store.get(last.job_id)).seq
    text = numbered("sqlite", "jobs_ahead", None, "?")
    values = {"queue": "default", "priority": 4, "seq": seq, "limit": AHEAD_LIMIT + 1, "now": time.time_ns() // 1000}
    connection = apsw.Connection(sqlite_path(sqlite_url))
    taken = 0

    def step() -> bool:
        nonlocal taken
        taken += 1
        return False

    try:
        connection.set_progress_handler(step, 1)
        connection.execute(text.sql, [values[name] for name in text.names]).fetchall()
        assert taken < STEPS_LIMIT, f"{taken} steps past the jobs ahead"
    finally:
        connection.close()
