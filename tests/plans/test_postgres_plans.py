"""On Postgres every hot statement goes by the index that was meant for it, whatever the size of the tables was when it
was planned and whatever the statistics say.

A plan that reads a table whole is no slower while the table is small, and that is the trap: after five executions the
server may keep it for as long as the connection lives.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.outcome import Success
from euterpe.model.submitting.submission import Submission
from euterpe.stores.sql.postgres.engine import PostgresEngine
from euterpe.stores.sql.store import SqlStore
from tests.plans.history import add_history, analyze
from tests.plans.scenario import live_a_day, look_around, tidy_up, work_a_day, work_in_bulk
from tests.plans.watching import TABLES, Reach, WatchingPostgres, explain, explain_generic

MANY = 30_000
WASTE_LIMIT = 200
"""Rows a statement may read and throw away; the scenario's own jobs are forty."""

FILTERED = "filtered"
NOT_INDEXED = ("type", "queue", "tags", "requester_id")
BOUNDED = 100
"""Jobs of a state that the scenario's queries look at for one page."""
"""A search by these reads its states newest first, and as far as it must."""

BY_PRIMARY_KEY = {
    "settle", "settle_completed", "heartbeat", "advance", "park", "resolve_dependent", "hold_claim", "get_jobs",
    "release_dependents", "settle_plain", "callback_jobs", "situation", "heartbeat_by_token", "complete_by_token",
    "settle_keyed",
}  # fmt: skip
BY_IF_CHUNKED = {
    "exchange_chunks", "claim_for_receipt", "complete_by_receipt", "receipt_by_token", "claim_by_token",
    "stats/live_groups", "stats/ended_groups", "dashboard/count_states", "dashboard/count_states_of",
    "dashboard/recent_times", "dashboard/ends_by_second", "dashboard/last_seen", "dashboard/queue_backlog_of",
    "recent_ends", "recent_ends_of", "newest_changes", "waiting_now", "waiting_by_requester", "waiting_since",
}  # fmt: skip
CLAIMED = ("inbox_jobs_claim", "inbox_jobs_pkey")
BY = {
    "claim": {"inbox_jobs_claim", "inbox_jobs_pkey", "inbox_jobs_concurrency"},
    "claim_keyed": {"inbox_jobs_claim", "inbox_jobs_concurrency", "inbox_jobs_parked", "euterpe_key_rates_pkey"},
    "claim_for": {"inbox_jobs_claim"},
    "promote_due": {"inbox_jobs_due", "inbox_jobs_pkey"},
    "spent_retries": {"inbox_jobs_due"},
    "next_due": {"inbox_jobs_due", "inbox_jobs_parked", "euterpe_key_rates_pkey"},
    "over_lifetime": {"inbox_jobs_lifetime", "inbox_jobs_state", "inbox_jobs_pkey"},
    "expired_leases": {"inbox_jobs_state"},
    "running_over_lifetime": {"inbox_jobs_state"},
    "prunable": {"inbox_jobs_state", "inbox_jobs_pkey"},
    "search": {"inbox_jobs_state"},
    "unpark": {"inbox_jobs_parked", "inbox_jobs_pkey"},
    "parked_keys": {"inbox_jobs_parked"},
    "waiting_dependents": {"job_dependencies_depends_on", "job_dependencies_pkey", "inbox_jobs_pkey"},
    "release_and_claim": {"job_dependencies_depends_on", "job_dependencies_pkey", *CLAIMED},
    "next_event_due": {"job_outbox_events_due"},
    "claim_events": {"job_outbox_events_due", "job_outbox_events_order", "job_outbox_events_pkey"},
    "settle_event": {"job_outbox_events_pkey"},
    "heartbeat_event": {"job_outbox_events_pkey"},
    "scan_edge": {"inbox_jobs_state"},
    "matching": {"inbox_jobs_state"},
    "count_matching": {"inbox_jobs_state"},
    "matching_group": {"inbox_jobs_failures"},
    "count_matching_group": {"inbox_jobs_failures"},
    "search_group": {"inbox_jobs_failures", "inbox_jobs_pkey"},
    "failing": {"inbox_jobs_failures"},
    "failure_group": {"inbox_jobs_failures"},
    "failure_sample": {"inbox_jobs_failures"},
    "job_below": {"inbox_jobs_state"},
    "ids_between": {"inbox_jobs_pkey"},
    "jobs_ahead": {"inbox_jobs_claim"},
    "running_of_key": {"inbox_jobs_concurrency"},
    "unfinished_dependencies": {"job_dependencies_pkey", "inbox_jobs_pkey"},
    "insert_job": set(),
    "insert_uniform": set(),
    "insert_one": set(),
    "insert_event": set(),
    "insert_uniform_events": set(),
    **{name: {"inbox_jobs_pkey"} for name in BY_PRIMARY_KEY},
}


@pytest.mark.parametrize("size", ["empty", "small", "fresh", "large", "busy", "chunked"])
async def test_every_hot_statement_goes_by_its_index(fresh_postgres_url: str, size: str) -> None:
    """Statistics of all ages: never analysed (`empty`, and `fresh` after a bulk load), analysed while nothing was live
    (`large`), and analysed with live jobs of every kind (`small`, `busy`). Where they are `chunked`, plain jobs by the
    thousand lie behind and wait: indexes file both as completed."""
    async with _watched(fresh_postgres_url) as (engine, store):
        _switch_autovacuum_off(engine)
        if size in ("fresh", "large", "busy", "chunked"):
            await _grow(fresh_postgres_url, analyze=size == "large")
        if size == "chunked":
            await _make_plain(engine, store)
            await analyze(fresh_postgres_url)
            await work_in_bulk(store)
            await look_around(store)
        await live_a_day(store)
        if size in ("small", "busy"):
            await analyze(fresh_postgres_url)
            await live_a_day(store)
        expected = BY.keys() | (BY_IF_CHUNKED if size == "chunked" else set())
        assert expected <= engine.seen.keys(), "the scenario no longer runs all hot statements"
        faults = []
        async for name, kind, reaches in _plans(engine):
            faults += [f"{name} ({kind}): {fault}" for fault in _faults(name, reaches, kind)]
        assert not faults, "\n".join(faults)


async def test_plans_that_were_kept_from_when_the_tables_were_small_still_go_by_index(
    fresh_postgres_url: str,
) -> None:
    async with _watched(fresh_postgres_url) as (engine, store):
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
    async with _watched(fresh_postgres_url) as (engine, store):
        await live_a_day(store)
        kept = await _kept_plans(engine)
        assert len(kept) > 10
        assert sum(custom for _, custom in kept) == 0, "plans were made for the values of one execution"


async def test_a_claim_ahead_counts_what_runs_of_a_key_and_reads_none_of_its_history(fresh_postgres_url: str) -> None:
    keyed = Submission(type="t", concurrency_key="tenant", concurrency_limit=1000)
    async with _watched(fresh_postgres_url) as (engine, store):
        await store.submit_many([keyed] * 10 * WASTE_LIMIT)
        ended = await store.claim(ClaimRequest(worker_id="w", limit=10 * WASTE_LIMIT))
        await store.settle([Report(claim, Success()) for claim in ended])
        await store.submit_many([keyed] * 3)
        ahead = ClaimRequest(worker_id="w", limit=1, prefetch=1, prefetch_types=("t",))
        assert len(await store.claim(ahead)) == 2
        *_, run = (run for run in engine.seen["claim_keyed"].values() if run.values["prefetch"])
        connection = await engine.connect()
        try:
            reaches = await explain(connection, run.sql, run.bound)
        finally:
            await connection.close()
        assert any(reach.by == "inbox_jobs_concurrency" for reach in reaches)
        assert _faults("claim_keyed", reaches, "") == []


async def test_what_has_ended_of_a_key_is_not_in_the_index_by_key(fresh_postgres_url: str) -> None:
    keyed = Submission(type="t", concurrency_key="tenant", concurrency_limit=1000)
    async with _watched(fresh_postgres_url) as (engine, store):
        await store.submit_many([keyed] * 1000)
        running = await store.claim(ClaimRequest(worker_id="w", limit=1000))
        of_key = "pg_get_expr(indpred, indrelid) FROM pg_index WHERE indexrelid = 'inbox_jobs_concurrency'::regclass"
        [(condition,)] = await _ask(engine, f"SELECT {of_key}")
        for reports, entries in (([], 1000), ([Report(claim, Success()) for claim in running], 0)):
            await store.settle(reports)
            assert await _ask(engine, f"SELECT COUNT(*) FROM inbox_jobs WHERE {condition}") == [(entries,)]


@pytest.fixture
def own_database(postgres_url: str) -> Iterator[str]:
    """A database apart, whose tables VACUUM may clear whatever the other tests have open."""
    name = f"test_{secrets.token_hex(6)}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
        yield f"{urlunsplit(urlsplit(postgres_url)._replace(path=f'/{name}'))}?schema=public"
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.fixture
def _nothing_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store puts claims that last onto their rows. Another of its connections may do meanwhile what a test counts,
    and tell of it later."""
    monkeypatch.setattr("euterpe.stores.sql.exchange.receipts.ON_ROWS_AFTER_S", 3600)


@pytest.mark.usefixtures("_nothing_beside")
async def test_heartbeats_are_hot_updates(own_database: str) -> None:
    """With an index in the way none is HOT.

    Postgres clears a page as it updates it, but only of versions that ended before the oldest transaction with an id,
    be that one in another database: any test that runs beside this one can fill our pages (36 % HOT was seen). VACUUM
    looks at this database alone, so it stands in for the clearing."""
    async with _watched(own_database) as (engine, store):
        await store.submit_many([Submission(type="t", payload=b'"%s"' % (b"x" * 300)) for _ in range(200)])
        claims = await store.claim(ClaimRequest(worker_id="w", limit=200))
        pages = await engine.connect()
        try:

            async def heartbeat_on_clear_pages() -> None:
                await pages.execute("VACUUM inbox_jobs")
                await store.heartbeat([claim.lease for claim in claims])

            # Claims and first heartbeats move a row to where there is room; from then on it stays on its page.
            for _ in range(3):
                await heartbeat_on_clear_pages()
            before = await _updates(engine)
            for _ in range(20):
                await heartbeat_on_clear_pages()
            updates, hot = (after - b for after, b in zip(await _updates(engine), before, strict=True))
        finally:
            await pages.close()
        print(f"{updates} heartbeats, {100 * hot / updates:.1f} % HOT")
        assert updates == 200 * 20
        assert hot >= 0.95 * updates, "an index mentions what heartbeats change, or a page has no room"


@pytest.mark.usefixtures("_nothing_beside")
async def test_settles_of_plain_jobs_are_hot_updates(fresh_postgres_url: str) -> None:
    """With `state` in an index none is HOT. The first version of a row needs no clearing: half of its page is free."""
    async with _watched(fresh_postgres_url) as (engine, store):
        await store.submit_many([Submission(type="t", payload=b'"%s"' % (b"x" * 300))] * 200)
        before = await _updates(engine)
        _, claims = await store.exchange([], ClaimRequest(worker_id="w", limit=200))
        _, none = await store.exchange(
            [Report(claim, Success(b'"%s"' % (b"y" * 100))) for claim in claims], ClaimRequest(worker_id="w", limit=1)
        )
        assert (len(claims), none) == (200, [])
        updates, hot = (after - b for after, b in zip(await _updates(engine), before, strict=True))
        assert (updates, hot) == (200, 200), "an index mentions what a settle changes, or a page has no room"


@asynccontextmanager
async def _watched(url: str) -> AsyncIterator[tuple[WatchingPostgres, SqlStore]]:
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


async def _make_plain(engine: WatchingPostgres, store: SqlStore) -> None:
    """The history was completed plainly, and jobs that are older and younger wait in chunks."""
    with psycopg.connect(engine.dsn, autocommit=True) as connection:
        connection.execute(f"SET search_path = {engine.schema}".encode())
        connection.execute("UPDATE inbox_jobs SET chunk = id WHERE state = 'completed'")
        connection.execute("VACUUM inbox_jobs")
    for _ in range(4):
        await store.submit_many([Submission(type="waits", queue="elsewhere")] * 1000)


async def _plans(engine: WatchingPostgres) -> AsyncIterator[tuple[str, str, list[Reach]]]:
    """Of every statement that ran: the plan for each kind of values that it ran with, and the one for any."""
    connection = await engine.connect()
    with psycopg.connect(engine.dsn, autocommit=True) as blocking:
        for setting, value in engine.session.startup.items():
            blocking.execute(f"SET {setting} = '{value}'".encode())
        for name, runs in engine.seen.items():
            for run in runs.values():
                kind = FILTERED if any(run.values.get(column) for column in NOT_INDEXED) else str(run.values)[:200]
                yield name, kind, await explain(connection, run.sql, run.bound)
            for sql in {run.sql for run in runs.values()}:
                yield name, "any values", explain_generic(blocking, sql)
    await connection.close()


def _faults(name: str, reaches: list[Reach], kind: str) -> list[str]:
    allowed = BY.get(name)
    may_waste = name == "search" and kind == FILTERED
    faults = [f"reads all of {r.table}" for r in reaches if not r.by]
    if not may_waste:
        wasteful = [r for r in reaches if r.discarded > WASTE_LIMIT]
        faults += [f"reads {r.discarded} rows of {r.table} in vain by {r.by}" for r in wasteful]
    if allowed is not None:
        faults += [f"comes to {r.table} by {r.by}" for r in reaches if r.by and r.by not in allowed]
    return faults


def _switch_autovacuum_off(engine: WatchingPostgres) -> None:
    """Its ANALYZE would make the server plan anew, which is luck, and up to a minute late."""
    with psycopg.connect(engine.dsn, autocommit=True) as connection:
        for table in TABLES:
            connection.execute(f"ALTER TABLE {engine.schema}.{table} SET (autovacuum_enabled = off)".encode())


async def _whole_table_reads(engine: WatchingPostgres) -> dict[str, int]:
    rows = await _ask(engine, f"SELECT relname, seq_scan FROM pg_stat_user_tables WHERE schemaname = '{engine.schema}'")
    return {name: count for name, count in rows if name in TABLES}


async def _kept_plans(engine: WatchingPostgres) -> list[tuple[int, int]]:
    rows = await _ask(engine, "SELECT generic_plans, custom_plans FROM pg_prepared_statements")
    return [(generic, custom) for generic, custom in rows]


async def _updates(engine: PostgresEngine) -> tuple[int, int]:
    [(updates, hot)] = await _ask(
        engine,
        "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables"
        f" WHERE relname = 'inbox_jobs' AND schemaname = '{engine.schema}'",
    )
    return updates, hot


async def _ask(engine: PostgresEngine, query: str) -> list[Any]:
    """On the store's own connection, once what it counted so far is published."""
    async with engine._acquired() as connection:
        await connection.execute("SELECT pg_stat_force_next_flush()")
        rows: list[Any] = await connection.fetch(query)
        return rows
