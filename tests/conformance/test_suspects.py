"""Attempts that ended with a lost worker: counted on the job, and given back when it ends an attempt by itself."""

from __future__ import annotations

from euterpe.model.claims.outcome import Failed
from euterpe.model.failures.failure import NOT_ITS_TURN, Category
from euterpe.model.job import Claim, JobRow
from euterpe.model.state import State
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import MINUTE, complete, end, fail, release, submit, take_one
from tests.conformance.clock import FrozenClock


async def lose(store: SqlStore, clock: FrozenClock, claim: Claim) -> JobRow:
    """Its worker is never heard of again, and the job becomes due."""
    clock.advance(minutes=10)
    await store.sweeps.urgent()
    clock.advance(minutes=10)
    await store.sweeps.urgent()
    return await store.get(claim.job.id)


async def test_a_job_that_always_loses_its_worker_is_dead_after_exactly_its_attempts(
    store: SqlStore, clock: FrozenClock
) -> None:
    await submit(store, max_attempts=3, execution_timeout_us=60 * MINUTE)
    for lost in range(3):
        claim = await take_one(store)
        assert (claim.job.attempt_count, claim.job.lost_attempts) == (lost + 1, lost)
        job = await lose(store, clock, claim)
    assert (job.state, job.attempt_count) == (State.DEAD_LETTER, 3)


async def test_a_failure_of_its_own_gives_the_lost_attempts_back(store: SqlStore, clock: FrozenClock) -> None:
    job_id = await submit(store, max_attempts=3, execution_timeout_us=60 * MINUTE)
    for _ in range(2):
        await lose(store, clock, await take_one(store))
    await fail(store, await take_one(store))
    job = await store.get(job_id)
    assert (job.state, job.attempt_count, job.lost_attempts) == (State.RETRYING, 1, 0)
    for _ in range(2):
        clock.advance(minutes=10)
        await store.sweeps.urgent()
        await fail(store, await take_one(store))
    job = await store.get(job_id)
    assert (job.state, job.attempt_count) == (State.DEAD_LETTER, 3)
    assert [attempt.attempt for attempt in await store.attempts(job_id)] == [1, 2, 3, 2, 3]


async def test_a_job_that_failed_for_good_after_a_loss_may_still_be_retried(
    store: SqlStore, clock: FrozenClock
) -> None:
    job_id = await submit(store, max_attempts=2, execution_timeout_us=60 * MINUTE)
    await lose(store, clock, await take_one(store))
    await fail(store, await take_one(store), Category.PERMANENT)
    job = await store.get(job_id)
    assert (job.state, job.attempt_count) == (State.FAILED, 1)


async def test_a_suspect_that_is_given_back_stays_a_suspect_and_pays_nothing(
    store: SqlStore, clock: FrozenClock
) -> None:
    job_id = await submit(store, max_attempts=2, execution_timeout_us=60 * MINUTE)
    await lose(store, clock, await take_one(store))
    for given_back in range(5):
        claim = await take_one(store)
        assert (claim.job.attempt_count, claim.job.lost_attempts, claim.job.times_left) == (2, 1, given_back)
        await end(store, claim, Failed(NOT_ITS_TURN))
        assert (await store.get(job_id)).run_at - clock() <= 9_000_000, "it asks again soon"
        clock.advance(minutes=1)
        await store.sweeps.urgent()
    await release(store, await take_one(store))
    claim = await take_one(store)
    assert (claim.job.attempt_count, claim.job.lost_attempts) == (2, 1)
    await complete(store, claim)
    assert (await store.get(job_id)).lost_attempts == 0


async def test_a_job_that_loses_its_worker_on_its_last_attempt_is_tried_once_more(
    store: SqlStore, clock: FrozenClock
) -> None:
    """Its own failures have used the rest of its budget; the loss may be the fault of a neighbour."""
    job_id = await submit(store, max_attempts=2, execution_timeout_us=60 * MINUTE)
    await fail(store, await take_one(store))
    clock.advance(minutes=10)
    await store.sweeps.urgent()
    claim = await take_one(store)
    clock.advance(minutes=10)
    await store.sweeps.urgent()
    job = await store.get(job_id)
    assert (job.state, job.attempt_count, job.lost_attempts) == (State.RETRYING, 1, 1)
    clock.advance(minutes=10)
    await store.sweeps.urgent()
    claim = await take_one(store)
    assert not claim.job.can_lose_its_worker, "so it starts alone"
    await fail(store, claim)
    job = await store.get(job_id)
    assert (job.state, job.attempt_count) == (State.DEAD_LETTER, 2)


async def test_a_job_that_loses_its_worker_twice_on_its_last_attempt_is_a_dead_letter(
    store: SqlStore, clock: FrozenClock
) -> None:
    job_id = await submit(store, max_attempts=2, execution_timeout_us=60 * MINUTE)
    await fail(store, await take_one(store))
    clock.advance(minutes=10)
    await store.sweeps.urgent()
    for _ in range(2):
        await lose(store, clock, await take_one(store))
    job = await store.get(job_id)
    assert (job.state, job.attempt_count) == (State.DEAD_LETTER, 2)


async def test_a_job_with_one_attempt_is_never_begun_twice(store: SqlStore, clock: FrozenClock) -> None:
    await submit(store, max_attempts=1, execution_timeout_us=60 * MINUTE)
    job = await lose(store, clock, await take_one(store))
    assert (job.state, job.attempt_count) == (State.DEAD_LETTER, 1)
