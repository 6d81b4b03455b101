"""Turns of jobs with concurrency keys, while somebody else holds a key or a row."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest

from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.outcome import Success
from euterpe.model.job import Claim
from euterpe.model.state import State
from euterpe.model.submitting.submission import LOCAL_REQUESTER, Submission
from euterpe.stores.sql.exchange.turn import LOCK_WAIT_MS
from euterpe.stores.sql.postgres.engine import PostgresEngine, split_url
from euterpe.stores.sql.postgres.session import LOCK_WAIT_S
from euterpe.stores.sql.program import Row, Statement
from euterpe.stores.sql.rows import limit_key
from euterpe.stores.sql.store import SqlStore

PATIENCE_S = 30
REQUEST = ClaimRequest(worker_id="w", limit=10)
HAS_WAITED = """
SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))
               AND clock_timestamp() - query_start > make_interval(secs => $2))
"""


@pytest.fixture
async def store(fresh_postgres_url: str) -> AsyncIterator[SqlStore]:
    store = SqlStore(PostgresEngine(fresh_postgres_url))
    await store.engine.migrate()
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def holder(fresh_postgres_url: str, store: SqlStore) -> Any:
    dsn, options = split_url(fresh_postgres_url)
    with psycopg.connect(dsn, options=f"-c search_path={options['schema']}") as connection:
        yield connection


def hold_key(holder: Any, key: str) -> None:
    holder.execute("SELECT 1 FROM euterpe_keys WHERE name = %s FOR UPDATE", [limit_key(LOCAL_REQUESTER, key)])


async def keyed(store: SqlStore, *keys: str, limit: int = 1) -> list[str]:
    jobs = [Submission(type="work", concurrency_key=key, concurrency_limit=limit) for key in keys]
    return [submitted.job_id for submitted in await store.submit_many(jobs)]


def statements_of(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    engine, sent = store.engine, list[str]()
    assert isinstance(engine, PostgresEngine)
    execute = engine.execute

    async def watched(connection: Any, statement: Statement, timeout_s: float | None = None) -> list[Row]:
        sent.append(statement.name)
        return await execute(connection, statement, timeout_s)

    monkeypatch.setattr(engine, "execute", watched)
    return sent


async def has_waited(store: SqlStore, holder: Any, waiter: asyncio.Task[Any], seconds: float) -> None:
    """Until a statement has waited so long for what this holder has."""
    assert isinstance(store.engine, PostgresEngine)
    watcher = await store.engine.connect()
    async with asyncio.timeout(PATIENCE_S):
        while not await watcher.fetchval(HAS_WAITED, holder.info.backend_pid, seconds):
            assert not waiter.done()
            await asyncio.sleep(0.005)
    await watcher.close()


def turn(store: SqlStore, *done: Claim) -> asyncio.Task[Any]:
    return asyncio.create_task(store.exchange([Report(claim, Success(b"1")) for claim in done], REQUEST))


async def test_a_turn_waits_for_a_key_longer_than_for_a_row(
    store: SqlStore, holder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody who counts a key is done in a moment; a turn that gave up would do all of it again, and wait as long."""
    first, second = await keyed(store, "k", "k")
    (running,) = await store.claim(REQUEST)
    sent = statements_of(store, monkeypatch)
    hold_key(holder, "k")
    waiting = turn(store, running)
    await has_waited(store, holder, waiting, 3 * LOCK_WAIT_MS / 1000)
    holder.rollback()
    (verdict,), claims = await waiting
    assert (running.job.id, verdict.state, [claim.job.id for claim in claims]) == (first, State.COMPLETED, [second])
    assert sent == ["settle_completed", "hold_keys", "admit", "turn"]


async def test_a_turn_leaves_no_lock_timeout_behind_for_what_follows_in_it(store: SqlStore) -> None:
    await keyed(store, "k")
    (running,) = await store.claim(REQUEST)
    engine, said = store.engine, list[str]()
    assert isinstance(engine, PostgresEngine)
    execute = engine.execute

    async def watched(connection: Any, statement: Statement, timeout_s: float | None = None) -> list[Row]:
        rows = await execute(connection, statement, timeout_s)
        said.append(await connection.fetchval("SHOW lock_timeout"))
        return rows

    engine.execute = watched  # type: ignore[method-assign]
    await turn(store, running)
    assert len(said) == 4
    assert set(said[:-1]) == {f"{LOCK_WAIT_S:.0f}s"}


async def test_a_turn_that_holds_keys_passes_over_jobs_of_a_key_that_somebody_else_counts(
    store: SqlStore, holder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *ids = await keyed(store, "mine", "theirs", "mine", "third", limit=2)
    (running,) = await store.claim(ClaimRequest(worker_id="w", limit=1))
    assert running.job.id == first
    hold_key(holder, "theirs")
    sent = statements_of(store, monkeypatch)
    _, claims = await turn(store, running)
    assert "turn_around" not in sent, "it waited for the key"
    assert [claim.job.id for claim in claims] == ids[1:]
    holder.rollback()
    assert [claim.job.id for claim in await store.claim(REQUEST)] == ids[:1], "it kept its place"


async def test_a_turn_does_not_wait_long_for_a_row_with_a_key_and_settles_its_neighbours(
    store: SqlStore, holder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await keyed(store, "a", "b", "a", "b")
    held, free = await store.claim(REQUEST)
    holder.execute("SELECT 1 FROM inbox_jobs WHERE id = %s FOR UPDATE", [held.job.id])
    sent = statements_of(store, monkeypatch)
    async with asyncio.timeout(PATIENCE_S):
        verdicts, claims = await turn(store, held, free)
        assert [(verdict.locked, verdict.state) for verdict in verdicts] == [(True, None), (False, State.COMPLETED)]
        assert [claim.job.concurrency_key for claim in claims] == ["b"]
        await turn(store, held)
    assert sent.count("settle_completed") == 2, "while rows are held, a turn goes around them"


async def test_a_place_is_given_by_counts_that_are_younger_than_the_lock_that_was_waited_for(
    store: SqlStore, holder: Any
) -> None:
    """Another worker takes the last place of a key while a submit waits to give it away."""
    await keyed(store, "k", limit=2)
    await store.claim(REQUEST)
    hold_key(holder, "k")
    waiting = asyncio.create_task(keyed(store, "k", limit=2))
    await has_waited(store, holder, waiting, 0)
    holder.execute("UPDATE euterpe_keys SET running = running + 1")
    holder.commit()
    await waiting
    assert await store.claim(REQUEST) == []


async def test_the_most_urgent_of_a_full_key_holds_nobody_up_however_many_are_older(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await keyed(store, *["k"] * 1001)
    assert len(await store.claim(ClaimRequest(worker_id="w", limit=1))) == 1
    await store.submit(Submission(type="work", concurrency_key="k", concurrency_limit=1, priority=0))
    behind = await store.submit(Submission(type="work", priority=4))
    sent = statements_of(store, monkeypatch)
    (claim,) = await store.claim(ClaimRequest(worker_id="w", limit=1))
    assert claim.job.id == behind.job_id
    assert sent == ["turn"]
