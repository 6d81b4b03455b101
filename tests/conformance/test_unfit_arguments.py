"""Arguments that do not fit a worker's handler: the job waits for one that they fit, uncharged, as long as it lives."""

from __future__ import annotations

from euterpe.model.claims.outcome import MAX_RELEASES, Failed
from euterpe.model.failures.failure import Category, Failure
from euterpe.model.state import State
from euterpe.ports import Capability
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import HOUR, MINUTE, SECOND, complete, end, release, submit, take, take_one
from tests.conformance.clock import FrozenClock
from tests.conformance.needs import needs

UNFIT = Failed(Failure(Category.SYSTEM, "the payload does not fit render: colour", "bad_payload", unfit=True))


async def leave(store: SqlStore, clock: FrozenClock) -> int:
    """Claim it, find that it does not fit, and wait until it may be claimed again; returns how long that was."""
    claim = await take_one(store)
    await end(store, claim, UNFIT)
    left = await store.get(claim.job.id)
    assert left.state is State.RETRYING
    delay_us = left.run_at - clock()
    assert await take(store) == []
    clock.advance(us=delay_us)
    await store.sweeps.urgent()
    return delay_us


@needs(Capability.WHOLE_JOBS)
async def test_only_its_lifetime_ends_a_job_that_fits_nobody(store: SqlStore, clock: FrozenClock) -> None:
    job_id = await submit(store, max_attempts=1, lifetime_us=10 * HOUR)
    waits = [await leave(store, clock) for _ in range(MAX_RELEASES + 5)]
    assert 0.9 * SECOND <= waits[0] <= 1.1 * SECOND
    assert 1.8 * SECOND <= waits[1] <= 2.2 * SECOND
    assert 9 * MINUTE <= waits[-1] <= 11 * MINUTE
    left = await store.get(job_id)
    assert (left.attempt_count, left.release_count, left.state) == (0, 0, State.SCHEDULED)
    assert left.error_document is not None
    assert (left.error_document["code"], left.error_document["unfit_claims"]) == ("bad_payload", "25")
    # It may still be given back by workers that shut down, as often as any job.
    for _ in range(MAX_RELEASES):
        await release(store, await take_one(store))
    assert (await store.get(job_id)).state is State.SCHEDULED
    clock.advance(us=10 * HOUR)
    await store.sweeps.urgent()
    assert (await store.get(job_id)).state is State.DEAD_LETTER


async def test_a_worker_that_fits_completes_it_as_its_first_attempt(store: SqlStore, clock: FrozenClock) -> None:
    job_id = await submit(store, max_attempts=1)
    for _ in range(3):
        await leave(store, clock)
    claim = await take_one(store)
    assert claim.job.attempt_count == 1
    await complete(store, claim)
    assert (await store.get(job_id)).state is State.COMPLETED
    assert [attempt.outcome for attempt in await store.attempts(job_id)] == ["released"] * 3 + ["completed"]
