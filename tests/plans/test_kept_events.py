"""Events that are still kept cost a prune nothing, however many they are."""

from __future__ import annotations

import time

import apsw

from euterpe.model.state import State
from euterpe.model.submitting.submission import DAY_US
from euterpe.stores.sql.maintenance import sweep
from euterpe.stores.sql.statements import numbered
from euterpe.stores.sql.store import SqlStore
from tests.faults.stores import engine_of, sqlite_path
from tests.plans.history import add_history, analyze
from tests.plans.watching import WatchingPostgres, explain

KEPT = 100_000
KEEP_US = 7 * DAY_US
BATCH = 500
READ_LIMIT = 10
STEPS_LIMIT = 5_000
"""Of SQLite's virtual machine. To look at every kept event takes a million."""
STATES = (State.COMPLETED, State.DEAD_LETTER)


async def test_a_prune_on_postgres_reads_no_event_that_is_kept(fresh_postgres_url: str) -> None:
    """Neither right after a bulk load nor once the tables are analyzed."""
    engine = WatchingPostgres(fresh_postgres_url)
    await engine.migrate()
    await add_history(fresh_postgres_url, KEPT, time.time_ns() // 1000, every_table=True, analyzed=False)
    store = SqlStore(engine)
    await store.open()
    connection = await engine.connect()
    try:
        for state in STATES:
            assert await engine.write(lambda s=state: sweep.prune_events(s, KEEP_US, BATCH)) == 0  # type: ignore[misc]
        runs = engine.seen["prune_events"].values()
        assert len(runs) == len(STATES)
        for statistics in ("fresh", "analyzed"):
            if statistics == "analyzed":
                await analyze(fresh_postgres_url)
            for run in runs:
                reaches = await explain(connection, run.sql, run.bound)
                assert all(reach.by for reach in reaches), f"it reads the whole table ({statistics})"
                in_vain = sum(reach.discarded for reach in reaches)
                assert in_vain <= READ_LIMIT, f"{in_vain} kept events were read ({statistics}, {run.values})"
    finally:
        await connection.close()
        await store.close()


async def test_a_prune_on_sqlite_reads_no_event_that_is_kept(sqlite_url: str) -> None:
    await engine_of(sqlite_url).migrate()
    now_us = time.time_ns() // 1000
    await add_history(sqlite_url, KEPT, now_us, every_table=True, analyzed=False)
    text = numbered("sqlite", "prune_events", None, "?")
    connection = apsw.Connection(sqlite_path(sqlite_url))
    taken = 0

    def step() -> bool:
        nonlocal taken
        taken += 1
        return False

    try:
        for statistics in ("fresh", "analyzed"):
            if statistics == "analyzed":
                connection.execute("PRAGMA analysis_limit = 1000; ANALYZE")
            connection.set_progress_handler(step, 1)
            for state in STATES:
                values = {"state": str(state), "keep_us": KEEP_US, "limit": BATCH, "now": now_us}
                taken = 0
                assert connection.execute(text.sql, [values[name] for name in text.names]).fetchall() == []
                assert taken < STEPS_LIMIT, f"{taken} steps past the kept events ({statistics}, {state})"
            connection.set_progress_handler(None)
    finally:
        connection.close()
