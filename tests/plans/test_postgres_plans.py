"""On Postgres every statement goes by an index, whatever the size of the tables was when it was planned, and whatever
the statistics say.

A plan that reads a table whole is no slower while the table is small, and that is the trap: after five executions the
server may keep it for as long as the connection lives.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import psycopg
import pytest

from euterpe.stores.sql.postgres.engine import PostgresEngine
from euterpe.stores.sql.store import SqlStore
from tests.plans.history import add_history, analyze
from tests.plans.scenario import live_a_day, look_around, tidy_up, work_a_day
from tests.plans.watching import TABLES, Reach, WatchingPostgres, explain, explain_generic

MANY: Final = 30_000
WASTE_LIMIT: Final = 200
"""Rows a statement may read and throw away; the scenario's own jobs are forty."""
SAMPLES: Final = frozenset({"stats/sample"})
"""Read pages that are chosen by chance."""
LOOKS_BY_NUMBER: Final = frozenset({"search", "matching", "count_matching", "waiting_by_requester"})
"""Look at a bounded stretch of jobs, whether they match or not."""
NOT_INDEXED: Final = (
    "type",
    "type_prefix",
    "queue",
    "tags",
    "requester_id",
    "error",
    "correlation_id",
    "created_after",
)
SCENARIO: Final = {
    "turn", "settle", "heartbeat", "advance", "promote_due", "spent_retries", "next_due", "over_lifetime",
    "expired_leases", "running_over_lifetime", "prunable", "search", "scan_edge", "release_dependents",
    "waiting_dependents", "next_event_due", "claim_events", "settle_event", "heartbeat_event", "matching",
    "matching_group", "search_group", "failing", "failure_group", "failure_sample", "job_below", "ids_between",
    "jobs_ahead", "running_of_key", "unfinished_dependencies", "insert_job", "insert_uniform", "insert_one",
    "insert_event", "admit", "situation", "callback_jobs", "get_jobs", "stats/live_groups", "stats/ended_groups",
    "dashboard/count_states", "dashboard/count_states_of", "dashboard/recent_times", "dashboard/ends_by_second",
    "dashboard/last_seen", "dashboard/queue_backlog_of", "recent_ends", "recent_ends_of", "newest_changes",
    "waiting_by_requester", "waiting_since",
}  # fmt: skip


@pytest.mark.parametrize("size", ["empty", "small", "fresh", "large", "busy"])
async def test_every_hot_statement_goes_by_its_index(fresh_postgres_url: str, size: str) -> None:
    """Statistics of all ages: never analysed (`empty`, and `fresh` after a bulk load), analysed while nothing was live
    (`large`), and analysed with live jobs of every kind (`small`, `busy`)."""
    async with watched(fresh_postgres_url) as (engine, store):
        _switch_autovacuum_off(engine)
        if size in ("fresh", "large", "busy"):
            await _grow(fresh_postgres_url, analyze=size == "large")
        await live_a_day(store)
        await look_around(store)
        if size in ("small", "busy"):
            await analyze(fresh_postgres_url)
            await live_a_day(store)
            await look_around(store)
        missing = SCENARIO - engine.seen.keys()
        assert not missing, f"the scenario no longer runs {sorted(missing)}"
        faults = []
        async for name, kind, reaches in _plans(engine):
            faults += [f"{name} ({kind}): {fault}" for fault in _faults(name, reaches, filtered=kind == "filtered")]
        assert not faults, "\n".join(faults)


async def test_plans_that_were_kept_from_when_the_tables_were_small_still_go_by_index(
    fresh_postgres_url: str,
) -> None:
    async with watched(fresh_postgres_url) as (engine, store):
        _switch_autovacuum_off(engine)
        for _ in range(8):
            await live_a_day(store)
        await _grow(fresh_postgres_url, analyze=False, keep_indexes=True)
        before = await _whole_table_reads(engine)
        kept = await _kept_plans(engine)
        print(f"{len(kept)} prepared statements, {sum(1 for generic, _ in kept if generic)} of them on a kept plan")
        assert any(generic for generic, _ in kept), "no plan was kept: this run proved nothing"
        for part in (work_a_day, tidy_up):
            await part(store)
            assert await _whole_table_reads(engine) == before, "a kept plan reads a whole table"


async def test_no_plan_is_made_for_the_values_of_one_execution(fresh_postgres_url: str) -> None:
    """A settle that was planned for its ids, by statistics that know of no lease, walked the table once for each id."""
    async with watched(fresh_postgres_url) as (engine, store):
        await live_a_day(store)
        kept = await _kept_plans(engine)
        assert len(kept) > 10
        assert sum(custom for _, custom in kept) == 0, "plans were made for the values of one execution"


@asynccontextmanager
async def watched(url: str) -> AsyncIterator[tuple[WatchingPostgres, SqlStore]]:
    engine = WatchingPostgres(url)
    await engine.migrate()
    store = SqlStore(engine)
    await store.open()
    try:
        yield engine, store
    finally:
        await store.close()


async def _grow(url: str, *, analyze: bool, keep_indexes: bool = False) -> None:
    now_us = time.time_ns() // 1000
    await add_history(url, MANY, now_us, every_table=True, analyzed=analyze, keep_indexes=keep_indexes)


async def _plans(engine: WatchingPostgres) -> AsyncIterator[tuple[str, str, list[Reach]]]:
    """Of every statement that ran: the plan for each kind of values that it ran with, and the one for any."""
    connection = await engine.connect()
    with psycopg.connect(engine.dsn, autocommit=True) as blocking:
        for setting, value in engine.session.startup.items():
            blocking.execute(f"SET {setting} = '{value}'".encode())
        for name, runs in engine.seen.items():
            for run in runs.values():
                filtered = any(run.values.get(column) for column in NOT_INDEXED)
                kind = "filtered" if filtered else str(run.values)[:200]
                yield name, kind, await explain(connection, run.sql, run.bound)
            for sql in {run.sql for run in runs.values()}:
                yield name, "any values", explain_generic(blocking, sql)
    await connection.close()


def _faults(name: str, reaches: list[Reach], *, filtered: bool) -> list[str]:
    faults = [f"reads all of {r.table}" for r in reaches if not r.by and name not in SAMPLES]
    if not (filtered and name in LOOKS_BY_NUMBER):
        wasteful = [r for r in reaches if r.discarded > WASTE_LIMIT]
        faults += [f"reads {r.discarded} rows of {r.table} in vain by {r.by}" for r in wasteful]
    return faults


def _switch_autovacuum_off(engine: WatchingPostgres) -> None:
    """Its ANALYZE would make the server plan anew, which is luck, and up to a minute late."""
    with psycopg.connect(engine.dsn, autocommit=True) as connection:
        for table in TABLES:
            connection.execute(f"ALTER TABLE {engine.schema}.{table} SET (autovacuum_enabled = off)".encode())


async def _whole_table_reads(engine: WatchingPostgres) -> dict[str, int]:
    rows = await ask(engine, f"SELECT relname, seq_scan FROM pg_stat_user_tables WHERE schemaname = '{engine.schema}'")
    return {name: count for name, count in rows if name in TABLES}


async def _kept_plans(engine: WatchingPostgres) -> list[tuple[int, int]]:
    rows = await ask(engine, "SELECT generic_plans, custom_plans FROM pg_prepared_statements")
    return [(generic, custom) for generic, custom in rows]


async def ask(engine: PostgresEngine, query: str) -> list[Any]:
    """On the store's own connection, once what it counted so far is published."""
    async with engine._acquired() as connection:
        await connection.execute("SELECT pg_stat_force_next_flush()")
        rows: list[Any] = await connection.fetch(query)
        return rows
