"""A claim of bulk jobs is on their rows, and listed once (`euterpe_running`); every promise about claims holds."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest

from euterpe.model.claims.exchange import ClaimRequest, ProgressUpdate, Report
from euterpe.model.claims.outcome import Success
from euterpe.model.errors import StoreUnavailable
from euterpe.model.job import Claim
from euterpe.model.reading.views import Search
from euterpe.model.reading.why import Reason
from euterpe.model.retention import Retention
from euterpe.model.state import State
from euterpe.stores.sql.postgres.engine import PostgresEngine
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import DAY, complete, fail, release, submit, take
from tests.conformance.clock import FrozenClock
from tests.conformance.engines import PostgresTables
from tests.line.acts import bulk, claims_listed, held, runs

LOT = 16


async def claimed(store: SqlStore, **said: Any) -> list[Claim]:
    await bulk(store, LOT, **said)
    return await take(store)


async def row(tables: PostgresTables, job_id: str, columns: str) -> tuple[Any, ...]:
    (found,) = await tables.run(f"SELECT {columns} FROM inbox_jobs WHERE id = '{job_id}'")
    return found


async def test_a_claim_and_a_plain_completion_write_each_row_once(
    store: SqlStore, tables: PostgresTables, clock: FrozenClock
) -> None:
    claims = await claimed(store)
    assert (len(claims), await claims_listed(tables), await runs(tables)) == (LOT, 1, [])
    seen = "SELECT DISTINCT state, claim_version, attempt_count, worker_id, transitions FROM inbox_jobs"
    assert await tables.run(seen) == [("running", 1, 1, "w1", 2)]
    clock.advance(seconds=3)
    results = await store.settle([Report(claim, Success(b"1")) for claim in claims])
    assert all(result.accepted for result in results)
    done = await store.get(claims[0].job.id)
    assert (done.state, done.attempt_count, done.claim_version, done.worker_id) == (State.COMPLETED, 1, 1, "w1")
    assert (done.started_at, done.completed_at) == (claims[0].job.started_at, clock())
    assert done.transitions == claims[0].job.transitions + 1
    (attempt,) = await store.attempts(done.id)
    assert (attempt.outcome, attempt.worker_id, attempt.attempt) == ("completed", "w1", 1)
    assert [r.accepted for r in await store.settle([Report(claims[0], Success(b"1"))])] == [True], "a lost answer"


async def test_a_claimed_job_reads_as_its_claim_tells(store: SqlStore, clock: FrozenClock) -> None:
    claim = (await claimed(store, visibility_us=7_000_000))[0]
    assert await store.get(claim.job.id) == claim.job
    assert claim.lease.expires_at == clock() + 7_000_000
    assert (await store.why(claim.job.id)).reason is Reason.RUNNING
    assert [beat.alive for beat in await store.check_leases([claim.lease])] == [True]


async def test_progress_waits_for_a_row_that_somebody_holds_and_calls_no_claim_stale(
    store: SqlStore, fresh_postgres_url: str, tables: PostgresTables
) -> None:
    claim, *_ = await claimed(store)
    async with held(fresh_postgres_url, claim.job.id):
        writing = asyncio.create_task(store.update_progress([ProgressUpdate(claim, progress=50)]))
        while not writing.done() and not await tables.run("SELECT 1 FROM pg_locks WHERE NOT granted"):  # noqa: ASYNC110  # the server does not tell
            await asyncio.sleep(0.01)
    assert await writing == [True]
    assert (await store.get(claim.job.id)).progress == 50


async def test_what_is_claimed_shows_as_running_wherever_anybody_looks(store: SqlStore) -> None:
    claims = await claimed(store)
    assert (await store.stats()).by_state == {State.RUNNING: LOT}
    assert len((await store.search(Search(state=State.RUNNING))).jobs) == LOT
    assert (await complete(store, claims[0])).accepted


async def test_a_lost_worker_costs_its_jobs_one_attempt_when_their_leases_are_over(
    store: SqlStore, another: SqlStore, tables: PostgresTables, clock: FrozenClock
) -> None:
    claims = await claimed(store, max_attempts=2)
    assert await another.sweeps.reclaim() == 0
    clock.advance(seconds=61)
    assert await another.sweeps.reclaim() == LOT
    assert await claims_listed(tables) == 0
    job = await another.get(claims[0].job.id)
    assert (job.state, job.attempt_count, job.claim_version) == (State.RETRYING, 1, 1)
    assert not (await complete(store, claims[0])).accepted, "its claim is over"
    clock.advance(seconds=60)
    await another.sweeps.promote()
    again = await take(another)
    assert {(claim.job.claim_version, claim.job.attempt_count) for claim in again} == {(2, 2)}
    assert not (await complete(store, claims[1])).accepted


async def test_a_lost_job_is_taken_back_when_its_own_lease_ends(
    store: SqlStore, another: SqlStore, clock: FrozenClock
) -> None:
    await bulk(store, LOT)
    short = await bulk(store, LOT, visibility_us=5_000_000, max_attempts=2)
    assert len(await take(store)) == 2 * LOT
    clock.advance(seconds=6)
    assert await another.sweeps.reclaim() == LOT
    assert (await another.get(short[0])).state is State.RETRYING


async def test_whoever_knows_a_claim_renews_releases_fails_or_completes_it_from_another_process(
    store: SqlStore, another: SqlStore
) -> None:
    claims = await claimed(store)
    (beat,) = await another.heartbeat([claims[0].lease])
    assert (beat.alive, beat.renewed) == (True, True)
    assert (await complete(another, claims[1])).accepted
    await fail(another, claims[2])
    await release(another, claims[3])
    states = [(await store.get(claim.job.id)).state for claim in claims[:4]]
    assert states == [State.RUNNING, State.COMPLETED, State.RETRYING, State.SCHEDULED]
    (again,) = await take(another)
    assert (again.job.id, again.job.claim_version, again.job.attempt_count) == (claims[3].job.id, 2, 1)
    assert (await complete(store, claims[0])).accepted
    assert (await complete(store, claims[4])).accepted


async def test_a_cancel_reaches_a_running_job_and_force_ends_it_at_once(store: SqlStore) -> None:
    claims = await claimed(store)
    assert await store.cancel(claims[0].job.id) is State.RUNNING
    (beat,) = await store.heartbeat([claims[0].lease])
    assert beat.cancel_requested
    assert await store.cancel(claims[1].job.id, force=True) is State.CANCELLED
    assert not (await complete(store, claims[1])).accepted
    assert [beat.alive for beat in await store.heartbeat([claims[1].lease])] == [False]


async def test_a_lifetime_ends_a_running_job_and_no_late_settle_is_accepted(
    store: SqlStore, clock: FrozenClock
) -> None:
    claims = await claimed(store, lifetime_us=30_000_000)
    clock.advance(seconds=31)
    assert await store.sweeps.end_lifetimes() == LOT
    assert not (await complete(store, claims[0])).accepted
    job = await store.get(claims[0].job.id)
    assert (job.state, job.attempt_count) == (State.DEAD_LETTER, 1)


async def test_a_dependent_that_comes_while_a_job_runs_is_told_of_its_end(store: SqlStore) -> None:
    claims = await claimed(store)
    after = await submit(store, depends_on=(claims[0].job.id,))
    results = await store.settle([Report(claim, Success(b"1")) for claim in claims])
    assert all(result.accepted for result in results)
    assert (await store.get(after)).state is State.SCHEDULED


async def test_a_row_that_somebody_holds_keeps_its_claim_and_its_lease(
    store: SqlStore, another: SqlStore, tables: PostgresTables, fresh_postgres_url: str, clock: FrozenClock
) -> None:
    claims = await claimed(store, max_attempts=2)
    async with held(fresh_postgres_url, claims[0].job.id):
        beats = await another.heartbeat([claim.lease for claim in claims[:2]])
        assert [(beat.alive, beat.renewed) for beat in beats] == [(True, False), (True, True)]
        clock.advance(seconds=61)
        assert await another.sweeps.reclaim() == LOT - 1
        assert await claims_listed(tables) == 1, "it still stands for the job that is held"
    assert await another.sweeps.reclaim() == 1
    assert await claims_listed(tables) == 0


async def test_jobs_of_a_claim_whose_answer_was_lost_are_given_back_uncharged(
    store: SqlStore, another: SqlStore, tables: PostgresTables
) -> None:
    claims = await claimed(store)
    begun = [(claim.job.id, claim.job.claim_version) for claim in claims[:2]]
    assert await another.sweeps.release_unbegun("w1", begun) == LOT - 2
    job = await another.get(claims[5].job.id)
    assert (job.state, job.attempt_count) == (State.SCHEDULED, 0)
    assert (await complete(store, claims[0])).accepted
    assert not (await complete(store, claims[5])).accepted


@pytest.mark.parametrize("isolation", ["read_committed", "repeatable_read", "serializable"])
async def test_a_handler_completes_a_running_job_in_its_own_transaction(
    store: SqlStore, another: SqlStore, fresh_postgres_url: str, isolation: Any
) -> None:
    await bulk(store, LOT)
    claims = await take(store, 4)
    connection: asyncpg.Connection[Any] = await PostgresEngine(fresh_postgres_url).connect()
    try:
        async with connection.transaction(isolation=isolation):
            await connection.fetchval("SELECT COUNT(*) FROM inbox_jobs")
            assert len(await take(another, 4)) == 4, "the run is shortened meanwhile"
            await store.complete_on(Report(claims[0], Success(b"1")), connection)
    finally:
        await connection.close()
    assert (await store.get(claims[0].job.id)).state is State.COMPLETED


async def test_a_drain_by_turns_leaves_neither_run_nor_claim_and_retention_removes_its_jobs(
    store: SqlStore, tables: PostgresTables, clock: FrozenClock
) -> None:
    await bulk(store, 500)
    finished: list[Report] = []
    total = 0
    while True:
        results, claims = await store.exchange(finished, ClaimRequest(worker_id="w1", limit=24))
        assert all(result.accepted for result in results)
        total += len(claims)
        if not claims and not finished:
            break
        finished = [Report(claim, Success(b"1")) for claim in claims]
    assert total == 500
    assert (await store.stats()).by_state == {State.COMPLETED: 500}
    assert await runs(tables) == []
    clock.advance(days=40)
    assert await store.sweeps.prune(Retention(completed_us=DAY)) == 500
    await store.sweeps.reclaim()
    assert await claims_listed(tables) == 0


async def test_a_claim_that_could_not_be_deleted_is_deleted_when_the_database_is_back(
    store: SqlStore, tables: PostgresTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = await claimed(store)
    await store.settle([Report(claim, Success(b"1")) for claim in claims])

    async def away(*_: object, **__: object) -> None:
        raise StoreUnavailable("away")

    with monkeypatch.context() as patch:
        patch.setattr(store.engine, "write_one", away)
        with pytest.raises(StoreUnavailable):
            await take(store)
    assert await claims_listed(tables) == 1
    await take(store)
    assert await claims_listed(tables) == 0, "it does not wait for its end"
