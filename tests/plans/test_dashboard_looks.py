"""The looks of the dashboard go by an index: what they cost does not grow with the history, nor with the backlog."""

from __future__ import annotations

import re
from importlib.resources import files

import apsw

from euterpe.backends.dashboard import dashboard_reads
from euterpe.model.submitting.submission import Submission
from euterpe.stores.sql.statements import numbered
from euterpe.stores.sql.store import SqlStore
from tests.faults.stores import opened, sqlite_path
from tests.plans.watching import WatchingPostgres

LOOKS = sorted(
    f"dashboard/{file.name.removesuffix('.sql')}"
    for file in files("euterpe.stores.sql").joinpath("queries", "dashboard").iterdir()
    if file.name.endswith(".sql") and file.name != "every_state.sql"  # a part of others
)
TABLE = re.compile(r"\b(inbox_jobs|job_outbox_events|job_dependencies|euterpe_sessions)\b(?:\s+AS\s+(\w+))?")


async def test_no_look_on_postgres_reads_a_whole_table(fresh_postgres_url: str) -> None:
    engine = WatchingPostgres(fresh_postgres_url)
    await engine.migrate()
    store = SqlStore(engine)
    await store.open()
    connection = await engine.connect()
    try:
        job = await store.submit(Submission(type="t"))
        reads = dashboard_reads(store)
        for requester in (None, "local"):
            await reads.overview(requester)
            await reads.workers(requester)
            await reads.events(requester)
            await reads.neighbours(job.job_id, requester)
        # In a small table the whole of it is the shortest way; what still goes so has no other.
        await connection.execute("SET enable_seqscan = off")
        runs = [(name, run) for name in LOOKS for run in engine.seen.get(name, {}).values()]
        assert len(runs) > 20
        for name, run in runs:
            plan = await connection.fetch(f"EXPLAIN {run.sql}", *run.bound)
            whole = [line for (line,) in plan if re.search(rf"Seq Scan on {TABLE.pattern}", line)]
            assert whole == [], f"{name} with {run.values}"
    finally:
        await connection.close()
        await store.close()


async def test_no_look_on_sqlite_reads_a_whole_table(sqlite_url: str) -> None:
    async with opened(sqlite_url) as store:
        await store.migrate()
    connection = apsw.Connection(sqlite_path(sqlite_url))
    try:
        for name in LOOKS:
            text = numbered("sqlite", name, None, "?")
            tables = {alias or table for table, alias in TABLE.findall(text.sql)}
            plan = connection.execute(f"EXPLAIN QUERY PLAN {text.sql}", [None] * len(text.names))
            steps = [str(step[3]) for step in plan]
            whole = [step for step in steps if re.match(rf"SCAN ({'|'.join(tables)})$", step)]
            assert whole == [], f"{name}: {steps}"
    finally:
        connection.close()
