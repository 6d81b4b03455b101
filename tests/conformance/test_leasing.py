"""Heartbeats: many in one statement, late ones accepted, stale ones refused, and the cancel request they bring."""

from __future__ import annotations

from euterpe.model.claims.outcome import Cancelled, Outcome, Released, Success
from euterpe.model.failures.failure import Category
from euterpe.model.job import Lease
from euterpe.model.state import State
from euterpe.model.submitting.submission import OVERRUN_US
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import (
    MINUTE,
    SECOND,
    complete,
    end,
    fail,
    failure,
    job,
    release,
    submit,
    take,
    take_one,
    taken,
)
from tests.conformance.clock import FrozenClock


async def test_a_heartbeat_renews_the_lease_from_now(store: SqlStore, clock: FrozenClock) -> None:
    claim = await taken(store)
    now = clock.advance(seconds=40)
    [beat] = await store.heartbeat([claim.lease], 60 * SECOND)
    assert (beat.lease, beat.alive, beat.expires_at) == (claim.lease, True, now + 60 * SECOND)
    stored = await store.get(claim.job.id)
    assert (stored.lease_expires_at, stored.heartbeat_at) == (now + 60 * SECOND, now)


async def test_a_heartbeat_is_not_a_change_of_state(store: SqlStore, clock: FrozenClock) -> None:
    claim = await taken(store)
    clock.advance(seconds=10)
    await store.heartbeat([claim.lease])
    stored = await store.get(claim.job.id)
    assert (stored.updated_at, stored.transitions, stored.claim_version) == (
        claim.job.updated_at,
        claim.job.transitions,
        claim.job.claim_version,
    )


async def test_a_heartbeat_never_reaches_beyond_the_jobs_visibility(store: SqlStore, clock: FrozenClock) -> None:
    claim = await taken(store, visibility_us=15 * SECOND)
    now = clock.advance(seconds=5)
    [beat] = await store.heartbeat([claim.lease], 60 * SECOND)
    assert beat.expires_at == now + 15 * SECOND


async def test_many_leases_are_renewed_together_and_answered_in_order(store: SqlStore, clock: FrozenClock) -> None:
    await store.submit_many([job(visibility_us=(i + 1) * SECOND) for i in range(20)])
    leases = [claim.lease for claim in await take(store)]
    now = clock.advance(us=1)
    beats = await store.heartbeat(leases[::-1])
    assert [beat.lease for beat in beats] == leases[::-1]
    assert [beat.expires_at for beat in beats] == [now + (i + 1) * SECOND for i in reversed(range(20))]


async def test_no_heartbeat_costs_nothing(store: SqlStore) -> None:
    assert await store.heartbeat([]) == []


async def test_a_late_heartbeat_is_accepted_while_its_version_is_current(store: SqlStore, clock: FrozenClock) -> None:
    claim = await taken(store)
    clock.advance(minutes=30)
    [beat] = await store.heartbeat([claim.lease])
    assert beat.alive
    assert await store.sweeps.reclaim() == 0


async def test_a_renewed_lease_is_not_reclaimed(store: SqlStore, clock: FrozenClock) -> None:
    claim = await taken(store)
    for _ in range(5):
        clock.advance(seconds=50)
        assert (await store.heartbeat([claim.lease]))[0].alive
        assert await store.sweeps.reclaim() == 0
    assert (await complete(store, claim)).accepted


async def test_the_heartbeat_of_a_reclaimed_job_is_refused(store: SqlStore, clock: FrozenClock) -> None:
    claim = await taken(store)
    clock.advance(minutes=2)
    assert await store.sweeps.reclaim() == 1
    [beat] = await store.heartbeat([claim.lease])
    assert not beat.alive


async def test_the_heartbeat_of_an_older_claim_is_refused_and_the_newer_one_kept(
    store: SqlStore, clock: FrozenClock
) -> None:
    old = await taken(store)
    await release(store, old)
    new = await take_one(store, worker_id="w2")
    clock.advance(seconds=10)
    stale, alive = await store.heartbeat([old.lease, new.lease])
    assert (stale.alive, alive.alive) == (False, True)
    before = (await store.get(new.job.id)).lease_expires_at
    clock.advance(seconds=10)
    await store.heartbeat([old.lease])
    assert (await store.get(new.job.id)).lease_expires_at == before


async def test_the_heartbeat_of_an_ended_attempt_is_refused(store: SqlStore) -> None:
    ended = []
    outcomes: list[Outcome] = [Success(), failure(), Released(), Cancelled()]
    for i, outcome in enumerate(outcomes):
        claim = await taken(store, f"t{i}")
        await end(store, claim, outcome)
        ended.append(claim.lease)
    assert [beat.alive for beat in await store.heartbeat(ended)] == [False] * 4


async def test_the_heartbeat_of_a_job_that_never_was_is_refused(store: SqlStore) -> None:
    [beat] = await store.heartbeat([Lease("00000000-0000-4000-8000-000000000000", 1, 0)])
    assert not beat.alive


async def test_a_cancel_request_travels_in_the_next_heartbeats_answer(store: SqlStore) -> None:
    claim, other = await taken(store, "a"), await taken(store, "b")
    assert not (await store.heartbeat([claim.lease]))[0].cancel_requested
    await store.cancel(claim.job.id)
    asked, unasked = await store.heartbeat([claim.lease, other.lease])
    assert (asked.alive, asked.cancel_requested) == (True, True)
    assert (unasked.alive, unasked.cancel_requested) == (True, False)


async def test_a_waiting_job_has_no_lease(store: SqlStore) -> None:
    job_id = await submit(store)
    stored = await store.get(job_id)
    assert (stored.lease_expires_at, stored.heartbeat_at, stored.worker_id) == (None, None, None)
    await complete(store, await take_one(store))
    assert (await store.get(job_id)).lease_expires_at is None


async def test_a_lease_lasts_until_the_instant_it_expires(store: SqlStore, clock: FrozenClock) -> None:
    await submit(store)
    await take_one(store, lease_ttl_us=MINUTE)
    clock.advance(us=MINUTE)
    assert await store.sweeps.reclaim() == 0
    clock.advance(us=1)
    assert await store.sweeps.reclaim() == 1


async def test_a_lease_ends_with_the_execution_timeout_and_the_time_to_write_it_down(
    store: SqlStore, clock: FrozenClock, engine_name: str
) -> None:
    """Over HTTP with the timeout itself: nobody on that side can stop the handler."""
    overrun = 0 if "http" in engine_name else OVERRUN_US
    claim = await taken(store, execution_timeout_us=20 * SECOND)
    deadline = (claim.job.started_at or 0) + 20 * SECOND
    assert claim.lease.expires_at == min(deadline + overrun, (claim.job.started_at or 0) + 60 * SECOND)
    assert (await store.get(claim.job.id)).lease_expires_at == claim.lease.expires_at
    clock.advance(seconds=19)
    [beat] = await store.heartbeat([claim.lease])
    assert (beat.alive, beat.expires_at) == (True, deadline + overrun)
    clock.advance(us=SECOND + overrun)
    assert (await store.heartbeat([claim.lease]))[0].alive
    clock.advance(us=1)
    assert not (await store.heartbeat([claim.lease]))[0].alive
    assert await store.sweeps.reclaim() == 1
    error = (await store.get(claim.job.id)).error_document or {}
    assert (error["category"], error["code"], error["retryable"]) == ("timeout", "timeout", True)


async def test_a_worker_beside_the_database_may_write_its_timeout_after_the_deadline(
    store: SqlStore, clock: FrozenClock
) -> None:
    claim = await taken(store, execution_timeout_us=20 * SECOND)
    clock.advance(seconds=25)
    assert (await store.heartbeat([claim.lease]))[0].alive or claim.lease.token is not None
    assert (await fail(store, claim, Category.TIMEOUT)).state is State.RETRYING


async def test_a_worker_that_died_is_no_timeout_however_short_its_job_may_run(
    store: SqlStore, clock: FrozenClock, engine_name: str
) -> None:
    claim = await taken(store, execution_timeout_us=120 * SECOND)
    clock.advance(seconds=61)
    assert await store.sweeps.reclaim() == 1
    assert ((await store.get(claim.job.id)).error_document or {})["code"] == "lost_lease"
    if "http" not in engine_name:
        short = await taken(store, "short", execution_timeout_us=5 * SECOND)
        clock.advance(seconds=61)
        assert await store.sweeps.reclaim() == 1
        assert ((await store.get(short.job.id)).error_document or {})["code"] == "lost_lease"
