"""Cancel: waiting jobs at once, running ones by request or by force, always bound to the claim that was seen."""

from __future__ import annotations

import pytest

from euterpe.model.errors import IllegalTransition, JobNotFound
from euterpe.model.failures.failure import Category
from euterpe.model.state import TERMINAL, WAITING, State
from euterpe.ports import Capability
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import (
    CALLBACK,
    complete,
    fail,
    release,
    state_of,
    stop,
    submit,
    submit_in,
    take,
    take_one,
    taken,
)
from tests.conformance.clock import FrozenClock
from tests.conformance.engines import Tables
from tests.conformance.needs import needs


@pytest.mark.parametrize("state", sorted(WAITING))
async def test_a_waiting_job_is_cancelled_at_once(store: SqlStore, clock: FrozenClock, state: State) -> None:
    waiting = await submit_in(store, state)
    at = clock.advance(seconds=1)
    assert await store.cancel(waiting.id) is State.CANCELLED
    stored = await store.get(waiting.id)
    assert (stored.state, stored.completed_at, stored.updated_at) == (State.CANCELLED, at, at)
    assert stored.claim_version == waiting.claim_version
    assert stored.error_document is not None
    assert stored.error_document["category"] == "cancelled"
    clock.advance(days=1)
    await store.sweeps.promote()
    assert waiting.id not in [claim.job.id for claim in await take(store)]


async def test_a_running_job_is_asked_to_stop_and_goes_on_until_it_does(store: SqlStore) -> None:
    claim = await taken(store)
    assert await store.cancel(claim.job.id) is State.RUNNING
    assert await state_of(store, claim.job.id) is State.RUNNING
    assert (await store.heartbeat([claim.lease]))[0].cancel_requested
    assert (await stop(store, claim)).state is State.CANCELLED


async def test_a_job_that_finishes_before_it_hears_of_the_cancel_is_completed(store: SqlStore) -> None:
    claim = await taken(store)
    await store.cancel(claim.job.id)
    assert (await complete(store, claim, b"1")).state is State.COMPLETED
    assert (await store.get(claim.job.id)).result == b"1"


async def test_a_cancelled_job_is_not_retried(store: SqlStore, clock: FrozenClock) -> None:
    claim = await taken(store)
    await store.cancel(claim.job.id)
    verdict = await fail(store, claim)
    assert verdict.state is State.CANCELLED
    stored = await store.get(claim.job.id)
    assert (stored.state, stored.completed_at) == (State.CANCELLED, clock.now_us)


async def test_a_cancelled_job_is_not_scheduled_again_by_a_release(store: SqlStore, clock: FrozenClock) -> None:
    claim = await taken(store)
    await store.cancel(claim.job.id)
    assert (await release(store, claim)).state is State.CANCELLED
    assert (await store.get(claim.job.id)).completed_at == clock.now_us
    assert await take(store) == []


async def test_a_cancelled_job_whose_worker_died_ends_cancelled(store: SqlStore, clock: FrozenClock) -> None:
    claim = await taken(store)
    await store.cancel(claim.job.id)
    clock.advance(minutes=10)
    assert await store.sweeps.reclaim() == 1
    assert await state_of(store, claim.job.id) is State.CANCELLED


async def test_a_permanent_failure_after_a_cancel_request_is_still_a_failure(store: SqlStore) -> None:
    claim = await taken(store)
    await store.cancel(claim.job.id)
    assert (await fail(store, claim, Category.PERMANENT)).state is State.FAILED


async def test_a_cancel_is_bound_to_the_claim_that_it_saw(store: SqlStore) -> None:
    claim = await taken(store)
    await store.cancel(claim.job.id)
    await fail(store, claim, Category.PERMANENT)
    await store.retry(claim.job.id)
    again = await take_one(store)
    assert not again.job.cancel_requested
    assert not (await store.heartbeat([again.lease]))[0].cancel_requested
    assert (await fail(store, again)).state is State.RETRYING


async def test_force_ends_a_running_job_and_fences_its_worker(store: SqlStore, clock: FrozenClock) -> None:
    claim = await taken(store)
    at = clock.advance(seconds=1)
    assert await store.cancel(claim.job.id, force=True) is State.CANCELLED
    stored = await store.get(claim.job.id)
    assert (stored.state, stored.completed_at) == (State.CANCELLED, at)
    assert stored.claim_version == claim.job.claim_version + 1
    assert not (await store.heartbeat([claim.lease]))[0].alive
    assert not (await complete(store, claim)).accepted
    [attempt] = await store.attempts(claim.job.id)
    assert (attempt.claim_version, attempt.outcome, attempt.ended_at) == (1, "cancelled", at)


async def test_a_look_at_leases_tells_what_a_heartbeat_would(store: SqlStore) -> None:
    asked, forced, kept = [await taken(store, f"type {n}") for n in range(3)]
    await store.cancel(asked.job.id)
    await store.cancel(forced.job.id, force=True)
    news = await store.check_leases([claim.lease for claim in (asked, forced, kept)])
    assert [(reply.alive, reply.cancel_requested) for reply in news] == [(True, True), (False, False), (True, False)]
    assert [reply.lease.job_id for reply in news] == [claim.job.id for claim in (asked, forced, kept)]


@pytest.mark.parametrize("state", sorted(WAITING))
async def test_force_on_a_waiting_job_is_a_plain_cancel(store: SqlStore, state: State) -> None:
    waiting = await submit_in(store, state)
    assert await store.cancel(waiting.id, force=True) is State.CANCELLED
    assert await state_of(store, waiting.id) is State.CANCELLED


@pytest.mark.parametrize("state", sorted(TERMINAL - {State.CANCELLED}))
@pytest.mark.parametrize("force", [False, True])
async def test_an_ended_job_cannot_be_cancelled(store: SqlStore, state: State, force: bool) -> None:
    ended = await submit_in(store, state)
    with pytest.raises(IllegalTransition, match="already ended"):
        await store.cancel(ended.id, force=force)
    assert await store.get(ended.id) == ended


async def test_cancelling_twice_is_the_same_as_once(store: SqlStore, tables: Tables) -> None:
    job_id = await submit(store, callback_url=CALLBACK)
    await store.cancel(job_id)
    before = await store.get(job_id)
    assert await store.cancel(job_id) is State.CANCELLED
    assert await store.get(job_id) == before
    assert await tables.run("SELECT COUNT(*) FROM job_outbox_events") == [(1,)]


@needs(Capability.ANY_REQUESTER)
async def test_another_requesters_job_cannot_be_cancelled(store: SqlStore) -> None:
    job_id = await submit(store, requester_id="alice")
    with pytest.raises(JobNotFound):
        await store.cancel(job_id, "mallory")
    with pytest.raises(JobNotFound):
        await store.cancel(job_id, "mallory", force=True)
    assert await state_of(store, job_id) is State.SCHEDULED
    assert await store.cancel(job_id, "alice") is State.CANCELLED


async def test_an_unknown_job_cannot_be_cancelled(store: SqlStore) -> None:
    with pytest.raises(JobNotFound):
        await store.cancel("00000000-0000-4000-8000-000000000000")
