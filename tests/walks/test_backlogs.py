"""A million jobs that wait cost live traffic nothing: for a full key, a paused or unknown type, a later hour.

Pages that statements read are counted, not time. Every statement that the traffic and the sweeps send is run once more
under EXPLAIN, so a new one that reads the backlog is found without being named here.
"""

from __future__ import annotations

import json
from typing import Any, Final

import asyncpg

from euterpe.model.failures.failure import Category
from euterpe.model.retention import Chore
from euterpe.model.submitting.submission import LOCAL_REQUESTER
from euterpe.stores.sql.postgres.engine import PostgresEngine
from euterpe.stores.sql.rows import limit_key
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import complete, fail, job, submit, take, take_one
from tests.plans.watching import WatchingPostgres

EACH: Final = 250_000
"""Of each kind, a million in all."""
FULL = limit_key(LOCAL_REQUESTER, "full")
PAGES: Final = 400
"""What a statement may read. Whoever looks at one in a hundred of the jobs that wait reads more."""
PAGES_OF_WALKS: Final = 8_000
"""Walks look at 1,000 rows a pass, and each costs a few pages."""
WALKS: Final = frozenset({"adopt", "line_page", "key_line_page", "prunable", "end_of_page", "overdue"})
INSERTS: Final = ("insert_job", "insert_one", "insert_uniform")

KINDS: Final = (("keyed", "scheduled"), ("paused", "scheduled"), ("unknown", "scheduled"), ("later", "delayed"))
JOBS = """
INSERT INTO inbox_jobs (seq, id, created_at, expires_at, execution_timeout_us, visibility_us, max_attempts,
                        concurrency_limit, requester_id, queue, type, concurrency_key, payload, run_at, scheduled_at,
                        priority, listed, state, updated_at)
OVERRIDING SYSTEM VALUE
SELECT n, CAST(lpad(to_hex(n), 32, '0') AS uuid), $3, $3 + 86400000000, 60000000, 60000000, 3,
       CASE WHEN $4 = 'keyed' THEN 1 END, $6, 'default', $4, CASE WHEN $4 = 'keyed' THEN 'full' END, '{}',
       $3 + CASE WHEN $5 = 'delayed' THEN 3600000000 ELSE 0 END,
       CASE WHEN $5 = 'scheduled' THEN $3 END, 2, NULLIF($5, 'scheduled'), $5, $3
FROM generate_series($1::bigint, $2::bigint) AS n
"""
LINE = """
INSERT INTO euterpe_line (queue, type, priority, seq, jobs, expires_at, since, can_wait, tells)
SELECT 'default', $4, 2, n, 1, $3 + 86400000000, $3, true, false FROM generate_series($1::bigint, $2::bigint) AS n
"""
KEY_LINE = """
INSERT INTO euterpe_key_line (key, queue, type, priority, seq, since, expires_at, most, can_wait, tells)
SELECT $5, 'default', $4, 2, n, $3, $3 + 86400000000, 1, true, false FROM generate_series($1::bigint, $2::bigint) AS n
"""


async def fill(connection: asyncpg.Connection[Any]) -> None:
    """As submits would leave them; the table is packed, so that it takes a third of the time."""
    now: int = await connection.fetchval("SELECT CAST(extract(epoch FROM now()) * 1000000 AS bigint)")
    await connection.execute("ALTER TABLE inbox_jobs SET (fillfactor = 100)")
    for place, (kind, state) in enumerate(KINDS):
        numbers = (place * EACH + 1, (place + 1) * EACH, now, kind)
        await connection.execute(JOBS, *numbers, state, LOCAL_REQUESTER)
        if kind == "keyed":
            await connection.execute(KEY_LINE, *numbers, FULL)
        elif state == "scheduled":
            await connection.execute(LINE, *numbers)
    await connection.execute("INSERT INTO euterpe_keys (name) VALUES ($1)", FULL)
    await connection.execute("SELECT setval(pg_get_serial_sequence('inbox_jobs', 'seq'), $1)", len(KINDS) * EACH)
    await connection.execute("ANALYZE inbox_jobs, euterpe_line, euterpe_key_line")


async def test_a_million_jobs_that_wait_cost_live_traffic_nothing(fresh_postgres_url: str) -> None:
    filler = await PostgresEngine(fresh_postgres_url).connect()
    await fill(filler)
    engine = WatchingPostgres(fresh_postgres_url)
    store = SqlStore(engine)
    await store.open()
    await store.pause("type", "paused")
    try:
        await _live(store)
        read = {
            name: max([await _pages(filler, name, run) for run in runs.values()]) for name, runs in engine.seen.items()
        }
    finally:
        await store.close()
        await filler.close()
    assert {
        "turn",
        "settle",
        "admit",
        "admit_in_order",
        "promote_due",
        "adopt",
        "expired_leases",
        "recount_running",
    } <= read.keys()
    bounds = {name: PAGES_OF_WALKS if name in WALKS else PAGES for name in read}
    assert {name: pages for name, pages in read.items() if pages > bounds[name]} == {}


async def _live(store: SqlStore) -> None:
    """Traffic of every shape, and the sweeps between."""
    await store.sweeps.urgent()
    full = await take_one(store, types=("keyed",))
    for _ in range(2):
        await store.submit_many([job("live")] * 20)
        await submit(store, "live", concurrency_key="other", concurrency_limit=2)
        await submit(store, "keyed", concurrency_key="full", concurrency_limit=1, priority=0)
        claims = await take(store, 20, types=("live", "keyed"))
        assert len(claims) == 20
        await fail(store, claims[0], Category.TEMPORARY)
        for claim in claims[1:]:
            await complete(store, claim)
        await complete(store, full)
        full = await take_one(store, types=("keyed",))
        assert full.job.priority == 0
        await store.sweeps.urgent()
        await store.sweeps.next_due_in_us()
    while claims := await take(store, types=("live",)):
        for claim in claims:
            await complete(store, claim)
    waiting = await submit(store, "live", concurrency_key="other", concurrency_limit=2)
    await store.cancel(waiting)
    for chore in Chore:
        await store.sweeps.tidy(chore, 100)
    await store.sweeps.overdue_us()
    await store.submit_many([job("live")] * 20)


async def _pages(connection: asyncpg.Connection[Any], name: str, run: Any) -> int:
    """Pages that the statement reads or writes, when it is run again and rolled back."""
    if name.startswith(INSERTS):
        return 0
    transaction = connection.transaction()
    await transaction.start()
    try:
        found = await connection.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {run.sql}", *run.bound)
    finally:
        await transaction.rollback()
    plan = json.loads(found)[0]["Plan"]
    return int(plan["Shared Hit Blocks"]) + int(plan["Shared Read Blocks"])
