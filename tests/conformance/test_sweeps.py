"""Sweeps: promote exactly what is due, reclaim only after expiry, end what outlived its lifetime."""

from __future__ import annotations

import asyncio

import pytest

from euterpe.model.dependency import Dependency
from euterpe.model.failures.failure import Category
from euterpe.model.failures.retry import RetryPolicy
from euterpe.model.state import LIVE, State
from euterpe.ports import Capability
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import (
    CALLBACK,
    HOUR,
    MINUTE,
    SECOND,
    complete,
    fail,
    job,
    release,
    state_of,
    submit,
    submit_in,
    take,
    take_one,
    taken,
)
from tests.conformance.clock import FrozenClock
from tests.conformance.engines import Opened, Tables
from tests.conformance.needs import needs

# --- promote -------------------------------------------------------------------------------------------


async def test_a_delayed_job_is_promoted_at_its_time_and_not_before(store: SqlStore, clock: FrozenClock) -> None:
    job_id = await submit(store, delay_us=MINUTE, queue="later")
    delayed = await store.get(job_id)
    assert (delayed.state, delayed.run_at, delayed.scheduled_at) == (State.DELAYED, clock.now_us + MINUTE, None)
    clock.advance(us=MINUTE - 1)
    assert await store.sweeps.promote() == []
    at = clock.advance(us=1)
    assert await store.sweeps.promote() == ["later"]
    promoted = await store.get(job_id)
    assert (promoted.state, promoted.scheduled_at, promoted.updated_at) == (State.SCHEDULED, at, at)
    assert await store.sweeps.promote() == []


async def test_a_run_at_in_the_future_delays_and_one_in_the_past_does_not(store: SqlStore, clock: FrozenClock) -> None:
    later = await store.submit(job(run_at=clock.now_us + HOUR))
    now = await store.submit(job(run_at=clock.now_us))
    past = await store.submit(job(run_at=0))
    assert [r.state for r in (later, now, past)] == ["delayed", "scheduled", "scheduled"]
    clock.advance(us=HOUR)
    assert len(await store.sweeps.promote()) == 1


async def test_a_run_at_wins_over_a_delay(store: SqlStore, clock: FrozenClock) -> None:
    stored = await store.get(await submit(store, run_at=clock.now_us + MINUTE, delay_us=HOUR))
    assert stored.run_at == clock.now_us + MINUTE


async def test_a_promotion_counts_every_job_even_beyond_one_batch(store: SqlStore, clock: FrozenClock) -> None:
    await store.submit_many([job(delay_us=MINUTE) for _ in range(1100)])
    clock.advance(minutes=1)
    assert len(await store.sweeps.promote()) == 1100


async def test_the_time_until_the_next_job_is_due_is_known(store: SqlStore, clock: FrozenClock) -> None:
    assert await store.sweeps.next_due_in_us() is None
    await submit(store, delay_us=HOUR)
    await submit(store, delay_us=MINUTE)
    assert await store.sweeps.next_due_in_us() == MINUTE
    clock.advance(hours=2)
    assert await store.sweeps.next_due_in_us() == 0


async def test_a_waiting_retry_whose_budget_was_taken_away_is_dead_lettered(
    store: SqlStore, clock: FrozenClock, tables: Tables
) -> None:
    claim = await taken(store, callback_url=CALLBACK)
    await fail(store, claim)
    await tables.run("UPDATE inbox_jobs SET max_attempts = 1")
    clock.advance(minutes=1)
    assert await store.sweeps.promote() == []
    assert await store.sweeps.dead_letter_spent() == 1
    stored = await store.get(claim.job.id)
    assert stored.state is State.DEAD_LETTER
    assert stored.error_document is not None
    assert stored.error_document["code"] == "budget_exhausted"


# --- reclaim -------------------------------------------------------------------------------------------


async def test_a_lost_lease_is_retried_and_its_attempt_stays_charged(store: SqlStore, clock: FrozenClock) -> None:
    claim = await taken(store)
    at = clock.advance(minutes=2)
    assert await store.sweeps.reclaim() == 1
    stored = await store.get(claim.job.id)
    assert (stored.state, stored.attempt_count, stored.run_at) == (State.RETRYING, 1, at + SECOND)
    assert stored.lease_expires_at is None
    assert stored.error_document is not None
    assert (stored.error_document["code"], stored.error_document["category"]) == ("lost_lease", "system")
    [attempt] = await store.attempts(claim.job.id)
    assert (attempt.claim_version, attempt.ended_at) == (1, at)
    clock.advance(seconds=1)
    await store.sweeps.promote()
    assert (await take_one(store)).job.claim_version == 2


async def test_a_payload_that_kills_its_worker_is_dead_lettered_after_exactly_max_attempts(
    store: SqlStore, clock: FrozenClock
) -> None:
    job_id = await submit(store, max_attempts=3)
    claims = 0
    while (await state_of(store, job_id)) is not State.DEAD_LETTER:
        claims += len(await take(store))
        clock.advance(minutes=10)
        await store.sweeps.urgent()
        assert claims <= 3
    assert claims == 3
    assert (await store.get(job_id)).attempt_count == 3


async def test_a_reclaim_leaves_jobs_with_a_live_lease_alone(store: SqlStore, clock: FrozenClock) -> None:
    dead = await taken(store, "dead")
    clock.advance(seconds=50)
    live = await taken(store, "live")
    clock.advance(seconds=11)
    assert await store.sweeps.reclaim() == 1
    assert await state_of(store, dead.job.id) is State.RETRYING
    assert await state_of(store, live.job.id) is State.RUNNING


async def test_a_reclaim_never_touches_a_job_that_ended_meanwhile(store: SqlStore, clock: FrozenClock) -> None:
    claim = await taken(store)
    clock.advance(minutes=10)
    await complete(store, claim)
    assert await store.sweeps.reclaim() == 0
    assert await state_of(store, claim.job.id) is State.COMPLETED


async def test_sweeps_that_run_at_once_reclaim_each_job_once(subject: Opened, clock: FrozenClock) -> None:
    await subject.store.submit_many([job() for _ in range(30)])
    await take(subject.store)
    clock.advance(minutes=10)
    async with subject.another() as other:
        counts = await asyncio.gather(*(s.sweeps.reclaim() for s in (subject.store, other) * 3))
    assert sum(counts) == 30
    page = (await subject.store.stats()).by_state
    assert page == {"retrying": 30}


async def test_a_job_that_must_not_be_retried_after_a_crash_goes_to_the_dead_letter(
    store: SqlStore, clock: FrozenClock
) -> None:
    once = await taken(store, "once", retry=RetryPolicy(on_system=False))
    other = await taken(store, "other")
    clock.advance(minutes=10)
    assert await store.sweeps.reclaim() == 2
    assert await state_of(store, once.job.id) is State.DEAD_LETTER
    assert await state_of(store, other.job.id) is State.RETRYING


async def test_a_reclaim_handles_more_than_one_batch(
    store: SqlStore, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On Redis lists a pass ends after 200 ms, which a busy machine may need for the first batch alone.
    monkeypatch.setattr("euterpe.stores.redis_lists.reaper.PASS_S", 60.0)
    await store.submit_many([job() for _ in range(600)])
    await take(store, 600)
    clock.advance(minutes=10)
    assert await store.sweeps.reclaim() == 600


# --- lifetime ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", sorted(LIVE))
async def test_every_live_job_past_its_lifetime_goes_to_the_dead_letter(
    store: SqlStore, clock: FrozenClock, state: State
) -> None:
    live = await submit_in(store, state, lifetime_us=30 * SECOND)
    clock.advance(us=30 * SECOND - 1)
    assert await store.sweeps.end_lifetimes() == 0
    at = clock.advance(us=1)
    assert await store.sweeps.end_lifetimes() == 1
    ended = await store.get(live.id)
    assert (ended.state, ended.completed_at) == (State.DEAD_LETTER, at)
    assert ended.error_document is not None
    assert ended.error_document["code"] == "lifetime_exceeded"
    assert ended.claim_version == live.claim_version + (1 if state is State.RUNNING else 0)


@needs(Capability.DEPENDENCIES)
async def test_a_dependent_that_ends_with_its_dependency_is_not_ended_a_second_time(
    store: SqlStore, clock: FrozenClock
) -> None:
    """Both are over their lifetime: the running one ends, and with it, as a chain does, the one that waits."""
    claim = await taken(store, "a", lifetime_us=MINUTE)
    said = {"depends_on": (claim.job.id,), "dependency": Dependency.CHAIN, "lifetime_us": MINUTE}
    waiting = await submit(store, "b", callback_url=CALLBACK, **said)
    clock.advance(us=MINUTE)
    await store.sweeps.end_lifetimes()
    assert await state_of(store, waiting) is State.CANCELLED
    assert [e.type for _, e in await store.outbox.search(job_id=waiting)] == ["job.cancelled"]


@pytest.mark.parametrize("state", [State.COMPLETED, State.FAILED, State.CANCELLED])
async def test_an_ended_job_has_no_lifetime_any_more(store: SqlStore, clock: FrozenClock, state: State) -> None:
    ended = await submit_in(store, state, lifetime_us=30 * SECOND)
    clock.advance(days=1)
    assert await store.sweeps.end_lifetimes() == 0
    assert await store.get(ended.id) == ended


async def test_the_default_lifetime_is_seven_days_from_submission(store: SqlStore, clock: FrozenClock) -> None:
    job_id = await submit(store)
    for _ in range(6):
        clock.advance(days=1)
        await release(store, await take_one(store))
    clock.advance(days=1)
    assert await store.sweeps.end_lifetimes() == 1
    assert await state_of(store, job_id) is State.DEAD_LETTER


async def test_a_far_away_run_at_cannot_break_the_sweep(store: SqlStore, clock: FrozenClock, tables: Tables) -> None:
    from euterpe.model.submitting.submission import LATEST_US

    job_id = await submit(store, run_at=clock.now_us + HOUR, callback_url=CALLBACK)
    await tables.run(f"UPDATE inbox_jobs SET run_at = {LATEST_US}")  # An older release took it.
    clock.advance(days=7)
    assert await store.sweeps.end_lifetimes() == 1
    assert await state_of(store, job_id) is State.DEAD_LETTER
    assert [e.type for _, e in await store.outbox.search(job_id=job_id)] == ["job.dead_letter"]


# --- all of them together ------------------------------------------------------------------------------


@needs(Capability.OUTBOX)
async def test_one_pass_of_the_urgent_sweeps_says_what_it_did(store: SqlStore, clock: FrozenClock) -> None:
    await taken(store, "lost")
    await submit(store, "old", lifetime_us=MINUTE)
    await submit(store, "due", delay_us=MINUTE, queue="q")
    await taken(store, "told", callback_url=CALLBACK, visibility_us=HOUR)
    await store.outbox.claim("d1", 10)
    clock.advance(minutes=2)
    swept = await store.sweeps.urgent()
    assert (swept.promoted, swept.reclaimed, swept.lifetimes, swept.events_reclaimed) == (["q"], 2, 1, 1)
    again = await store.sweeps.urgent()
    assert (again.reclaimed, again.lifetimes, again.events_reclaimed, again.dead_lettered, again.unparked) == (
        0,
        0,
        0,
        0,
        0,
    )


async def test_sweeps_over_an_empty_database_find_nothing(store: SqlStore) -> None:
    swept = await store.sweeps.urgent()
    assert (swept.promoted, swept.reclaimed, swept.dead_lettered, swept.lifetimes) == ([], 0, 0, 0)
    assert await store.sweeps.prune() == 0
    assert await store.sweeps.expire_keys() == 0


async def test_a_permanent_failure_is_left_alone_by_every_sweep(store: SqlStore, clock: FrozenClock) -> None:
    claim = await taken(store)
    await fail(store, claim, Category.PERMANENT)
    before = await store.get(claim.job.id)
    clock.advance(days=6)
    await store.sweeps.urgent()
    assert await store.get(claim.job.id) == before
