"""Runs of several jobs, shortened, taken whole or passed over by claims whose snapshots are older than what they meet:
each job is claimed once, and none is forgotten."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.outcome import Success
from euterpe.model.failures.failure import Category
from euterpe.model.state import State
from euterpe.model.submitting.changes import Changes
from euterpe.stores.sql.exchange.plain import PlainCompletions, plain_completions
from euterpe.stores.sql.exchange.turn import turn
from euterpe.stores.sql.postgres.engine import PostgresEngine
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import HOUR, complete, fail, job, release, submit, take, take_one, taken
from tests.conformance.clock import FrozenClock
from tests.conformance.engines import Tables
from tests.interleavings.driver import Actor, run_alone, until_done_or_blocked
from tests.line.at_rest import faults_at_rest

MANY = 6


async def submit_run(store: SqlStore, count: int = MANY, **said: Any) -> list[str]:
    """One run of so many jobs; their ids in the order of their numbers."""
    results = await store.submit_many([job(payload=str(i).encode(), **said) for i in range(count)])
    return [r.job_id for r in results]


async def test_a_bulk_submit_is_one_run(store: SqlStore, tables: Tables) -> None:
    await submit_run(store)
    assert await tables.run("SELECT jobs FROM euterpe_line") == [(MANY,)]
    await take(store, 2)
    assert await tables.run("SELECT jobs FROM euterpe_line") == [(MANY - 2,)]


@pytest.mark.parametrize("how", ["release", "retry", "fail and retry by hand"])
async def test_the_first_job_of_a_run_comes_back_while_the_rest_waits(
    store: SqlStore, tables: Tables, clock: FrozenClock, how: str
) -> None:
    ids = await submit_run(store)
    claim = await take_one(store)
    if how == "release":
        await release(store, claim)
    elif how == "retry":
        await fail(store, claim)
        clock.advance(hours=1)
        await store.sweeps.promote()
    else:
        await fail(store, claim, Category.PERMANENT)
        await store.retry(claim.job.id)
    assert await faults_at_rest(tables) == []
    assert {c.job.id for c in await take(store)} == set(ids)


async def test_a_priority_that_changes_and_changes_back_leaves_a_job_in_the_line(
    store: SqlStore, tables: Tables
) -> None:
    ids = await submit_run(store)
    await store.update(ids[0], Changes(priority=4))
    assert [c.job.id for c in await take(store, 2)] == ids[1:3], "a job that was moved was taken at its old place"
    await store.update(ids[0], Changes(priority=2))
    assert await faults_at_rest(tables) == []
    assert {c.job.id for c in await take(store)} == set(ids) - set(ids[1:3])


async def test_a_claim_asks_again_where_a_run_covers_jobs_that_are_gone(store: SqlStore, tables: Tables) -> None:
    """A run of cancelled jobs stands before others: the claim that drops it must not come back empty."""
    ids = await submit_run(store)
    behind = await submit(store)
    for job_id in ids:
        assert await store.cancel(job_id) is State.CANCELLED
    assert [c.job.id for c in await take(store, MANY)] == [behind]
    assert await tables.run("SELECT * FROM euterpe_line") == []


async def test_claims_take_one_run_bit_by_bit(store: SqlStore, tables: Tables) -> None:
    ids = await submit_run(store)
    got = [(await take_one(store)).job.id for _ in ids]
    assert got == ids
    assert await faults_at_rest(tables) == []


async def test_jobs_that_end_their_lifetime_leave_their_run(
    store: SqlStore, tables: Tables, clock: FrozenClock
) -> None:
    await submit_run(store, lifetime_us=HOUR)
    clock.advance(hours=2)
    assert await store.sweeps.end_lifetimes() == MANY
    assert await take(store) == []
    assert await faults_at_rest(tables) == []


# A claim whose snapshot is older than what it locks. It waits for a row that it settles; meanwhile others go on.


class Late:
    """Two connections: one plays a turn that waits for a held row, on the other the row is held. A turn that comes
    short asks again, as the store does."""

    def __init__(self, engine: PostgresEngine, connections: list[asyncpg.Connection[Any]]) -> None:
        self._engine = engine
        self._own, self._holder, self._watcher = connections

    async def begin(self, settling: Any, limit: int) -> Actor:
        """The turn has taken its snapshot, and waits for the row of the job that it ends."""
        await self._holder.execute("BEGIN")
        await self._holder.execute("SELECT 1 FROM inbox_jobs WHERE seq = $1 FOR UPDATE", settling.job.seq)
        plain = plain_completions([Report(settling, Success(b"1"))])
        assert plain is not None
        actor = Actor(self._engine, self._own, lambda: turn(plain, ClaimRequest(worker_id="late", limit=limit)))
        actor.step()
        await until_done_or_blocked(actor, self._watcher)
        assert actor.pending is not None, "it did not wait"
        return actor

    async def end(self, actor: Actor, limit: int) -> list[str]:
        """The ids of what it claimed."""
        await self._holder.execute("COMMIT")
        while not actor.is_over:
            await until_done_or_blocked(actor, self._watcher)
            if not actor.is_over and actor.pending is None:
                actor.step()
        claims = list(actor.answer.claims)
        rest = ClaimRequest(worker_id="late", limit=limit - len(claims))
        if actor.answer.again:
            claims += (await run_alone(self._engine, self._own, lambda: turn(PlainCompletions(), rest))).answer.claims
        return [claim.job.id for claim in claims]


@pytest.fixture
async def late(fresh_postgres_url: str, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Late]:
    monkeypatch.setattr("euterpe.stores.sql.exchange.turn.LOCK_WAIT_MS", 20_000)
    engine = PostgresEngine(fresh_postgres_url, clock)
    connections = [await engine.connect() for _ in range(3)]
    yield Late(engine, connections)
    for connection in connections:
        await connection.close()


async def test_a_run_that_was_shortened_after_the_snapshot_is_taken_whole(
    store: SqlStore, tables: Tables, late: Late
) -> None:
    mine = await taken(store, "mine")
    ids = await submit_run(store)
    turn_of_late = await late.begin(mine, MANY)
    first = [c.job.id for c in await take(store, 2)]
    got = await late.end(turn_of_late, MANY)
    assert first + sorted(got, key=ids.index) == ids
    assert await tables.run("SELECT * FROM euterpe_line") == []
    assert await faults_at_rest(tables) == []


async def test_the_last_of_a_run_that_was_shortened_after_the_snapshot_is_taken_once(
    store: SqlStore, tables: Tables, late: Late
) -> None:
    """Before it in the line stands a job that another claim is taking, so the claim looks further than it meant to."""
    mine = await taken(store, "mine")
    first = await submit(store)
    ids = await submit_run(store, 3)
    turn_of_late = await late.begin(mine, 1)
    got = [c.job.id for c in await take(store, 3)]
    assert got == [first, *ids[:2]]
    got += await late.end(turn_of_late, 1)
    assert await faults_at_rest(tables) == []
    got += [c.job.id for c in await take(store)]
    assert got == [first, *ids]


async def test_a_run_that_was_shortened_after_the_snapshot_is_shortened_further(
    store: SqlStore, tables: Tables, late: Late
) -> None:
    mine = await taken(store, "mine")
    ids = await submit_run(store)
    turn_of_late = await late.begin(mine, 2)
    first = [c.job.id for c in await take(store, 2)]
    got = await late.end(turn_of_late, 2)
    assert first + got == ids[:4]
    assert [c.job.id for c in await take(store)] == ids[4:]
    assert await faults_at_rest(tables) == []


@pytest.mark.parametrize("lone", [True, False], ids=["a lone job", "the first of a run"])
async def test_a_job_that_came_back_after_the_snapshot_stays_in_the_line(
    store: SqlStore, tables: Tables, late: Late, lone: bool
) -> None:
    """The old snapshot shows its place in the line, but not that it is scheduled again."""
    mine = await taken(store, "mine")
    ids = await submit_run(store, 1 if lone else MANY)
    turn_of_late = await late.begin(mine, 1)
    await release(store, await take_one(store))
    got = await late.end(turn_of_late, 1)
    assert await faults_at_rest(tables) == []
    again = [c.job.id for c in await take(store)]
    assert sorted(got + again) == sorted(ids)


async def test_a_priority_that_changed_back_after_the_snapshot_keeps_its_job_in_the_line(
    store: SqlStore, tables: Tables, late: Late
) -> None:
    mine = await taken(store, "mine")
    ids = await submit_run(store)
    await store.update(ids[0], Changes(priority=4))
    turn_of_late = await late.begin(mine, 2)
    await store.update(ids[0], Changes(priority=2))
    got = await late.end(turn_of_late, 2)
    assert await faults_at_rest(tables) == []
    assert sorted(got + [c.job.id for c in await take(store)]) == sorted(ids)


@pytest.mark.parametrize("limit", [1, 2, 9])
async def test_nothing_behind_a_longer_run_that_somebody_holds_is_taken(
    store: SqlStore, fresh_postgres_url: str, clock: FrozenClock, limit: int
) -> None:
    """Nor where the claim looks behind its front, because somebody takes that as well. Lone jobs are passed over."""
    await submit(store)
    ids = await submit_run(store, 2)
    behind = await submit(store)
    engine = PostgresEngine(fresh_postgres_url, clock)
    holder, claimer = await engine.connect(), await engine.connect()
    ask = ClaimRequest(worker_id="w", limit=limit)
    try:
        async with holder.transaction():
            await holder.execute("SELECT 1 FROM euterpe_line ORDER BY seq LIMIT 2 FOR UPDATE")
            bounded = (await run_alone(engine, claimer, lambda: turn(PlainCompletions(), ask))).answer
        assert (bounded.claims, bool(bounded.again)) == ([], True)
        async with holder.transaction():
            await holder.execute("SELECT 1 FROM euterpe_line ORDER BY seq LIMIT 1 FOR UPDATE")
            passing = (await run_alone(engine, claimer, lambda: turn(PlainCompletions(), ask))).answer
        assert [claim.job.id for claim in passing.claims] == [*ids, behind][: len(passing.claims)]
    finally:
        await holder.close()
        await claimer.close()


async def test_what_was_completed_leaves_no_trace_in_the_line(store: SqlStore, tables: Tables) -> None:
    await submit_run(store)
    await submit(store)
    for claim in await take(store):
        await complete(store, claim)
    assert await take(store) == []
    assert await tables.run("SELECT * FROM euterpe_line") == []
    assert await faults_at_rest(tables) == []


@pytest.mark.parametrize("began", ["before the look", "after the look"])
async def test_a_claim_gets_what_is_behind_the_jobs_that_others_are_taking(
    store: SqlStore, late: Late, fresh_postgres_url: str, clock: FrozenClock, began: str
) -> None:
    """However many they take and however few it asks for: in one statement, whoever began first."""
    mine = await taken(store, "mine")
    ids = [await submit(store) for _ in range(MANY)]
    engine = PostgresEngine(fresh_postgres_url, clock)
    holder = await engine.connect()
    hold = "SELECT 1 FROM euterpe_line ORDER BY seq LIMIT 5 FOR UPDATE"
    try:
        async with holder.transaction():
            if began == "before the look":
                await holder.execute(hold)
            turn_of_late = await late.begin(mine, 1)
            if began == "after the look":
                await holder.execute(hold)
            assert await late.end(turn_of_late, 1) == ids[5:]
            assert not turn_of_late.answer.again, "it asked again"
    finally:
        await holder.close()


async def test_a_job_whose_claim_was_rolled_back_is_claimed_next(
    store: SqlStore, fresh_postgres_url: str, clock: FrozenClock
) -> None:
    ids = [await submit(store) for _ in range(3)]
    engine = PostgresEngine(fresh_postgres_url, clock)
    holder = await engine.connect()
    try:
        await holder.execute("BEGIN")
        await holder.execute("SELECT 1 FROM euterpe_line ORDER BY seq LIMIT 2 FOR UPDATE")
        await holder.execute("ROLLBACK")
        assert [claim.job.id for claim in await take(store, 2)] == ids[:2]
    finally:
        await holder.close()
