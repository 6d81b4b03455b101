"""Concurrency keys: the limit holds over all claimers, what is over it is parked, and nobody is parked for ever."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from euterpe.model.claims.exchange import Report
from euterpe.model.claims.outcome import Success
from euterpe.model.failures.failure import Category
from euterpe.model.reading.views import Search
from euterpe.model.state import State
from euterpe.model.submitting.submission import Submission
from euterpe.ports import Capability
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import (
    MINUTE,
    complete,
    fail,
    job,
    release,
    state_of,
    stop,
    submit,
    take,
    take_one,
)
from tests.conformance.clock import FrozenClock
from tests.conformance.engines import Opened, Tables
from tests.conformance.needs import needs

pytestmark = needs(Capability.CONCURRENCY_KEYS)


def keyed(key: str = "k", limit: int = 1, **said: Any) -> Submission:
    return job(concurrency_key=key, concurrency_limit=limit, **said)


async def park(store: SqlStore, tables: Tables) -> None:
    """Take all jobs of keys out of the line, and tell nobody."""
    if "euterpe_line" not in await tables.names():
        await tables.run("DELETE FROM euterpe_key_fronts")
        return
    await tables.run(
        """WITH gone AS (DELETE FROM euterpe_line WHERE key IS NOT NULL RETURNING *)
        INSERT INTO euterpe_key_line (key, queue, type, priority, seq, since, expires_at, most, can_wait, tells)
        SELECT key, queue, type, priority, seq, since, expires_at, 1, can_wait, tells FROM gone"""
    )


async def test_no_more_jobs_of_a_key_run_than_its_limit(store: SqlStore) -> None:
    await store.submit_many([keyed(limit=2) for _ in range(5)])
    assert len(await take(store)) == 2
    assert await take(store) == []


async def test_the_limit_holds_over_many_claimers_at_once(subject: Opened) -> None:
    await subject.store.submit_many([keyed(limit=3) for _ in range(20)])
    async with subject.another() as other:
        stores = (subject.store, other)
        batches = await asyncio.gather(*(take(stores[i % 2], 2, worker_id=f"w{i}") for i in range(10)))
    assert sum(len(batch) for batch in batches) == 3


async def test_the_oldest_jobs_of_a_key_go_first(store: SqlStore) -> None:
    submit_results = await store.submit_many([keyed() for _ in range(3)])
    order = []
    for _ in range(3):
        claim = await take_one(store)
        order.append(claim.job.id)
        await complete(store, claim)
    assert order == [submitted.job_id for submitted in submit_results]


async def test_the_most_urgent_job_of_a_key_goes_first(store: SqlStore) -> None:
    low, high = await store.submit(keyed(priority=4)), await store.submit(keyed(priority=0))
    first = await take_one(store)
    assert first.job.id == high.job_id
    await complete(store, first)
    assert (await take_one(store)).job.id == low.job_id


async def test_a_key_at_its_limit_does_not_hold_up_other_jobs(store: SqlStore) -> None:
    await store.submit_many([keyed() for _ in range(10)])
    free = await submit(store, "free")
    other = await store.submit(keyed("other"))
    claims = await take(store, 3)
    assert {free, other.job_id} < {claim.job.id for claim in claims}


async def test_a_parked_job_waits_as_scheduled_and_was_never_started(store: SqlStore) -> None:
    await store.submit_many([keyed() for _ in range(2)])
    running = await take_one(store)
    assert await take(store) == []
    [parked] = [j for j in (await store.search(Search())).jobs if j.id != running.job.id]
    assert (parked.state, parked.attempt_count, parked.claim_version) == (State.SCHEDULED, 0, 0)
    assert (parked.attempt_id, parked.worker_id, parked.started_at, parked.stage) == (None, None, None, None)
    assert await store.attempts(parked.id) == []
    await complete(store, running)
    claim = await take_one(store)
    assert (claim.job.attempt_count, claim.job.previous_attempt_id) == (1, None)


@pytest.mark.parametrize("ending", [complete, fail, release, stop], ids=lambda act: act.__name__)
async def test_a_parked_job_goes_on_when_a_running_one_ends(store: SqlStore, clock: FrozenClock, ending: Any) -> None:
    submit_results = await store.submit_many([keyed() for _ in range(2)])
    first = await take_one(store)
    assert await take(store) == []
    await ending(store, first)
    claims = await take(store, 1)
    assert len(claims) == 1
    assert claims[0].job.id in {submitted.job_id for submitted in submit_results}


@pytest.mark.parametrize("way", ["force", "lifetime", "reclaim", "permanent"])
async def test_a_parked_job_goes_on_whatever_way_the_running_one_ended(
    store: SqlStore, clock: FrozenClock, way: str
) -> None:
    await store.submit(keyed(lifetime_us=MINUTE if way == "lifetime" else 100 * MINUTE))
    second = await store.submit(keyed())
    first = await take_one(store)
    assert await take(store) == []
    match way:
        case "force":
            await store.cancel(first.job.id, force=True)
        case "lifetime":
            clock.advance(us=MINUTE)
            await store.sweeps.end_lifetimes()
        case "reclaim":
            clock.advance(us=MINUTE + 1)
            assert await store.sweeps.reclaim() == 1
        case "permanent":
            await fail(store, first, Category.PERMANENT)
    assert (await take_one(store)).job.id == second.job_id


async def test_as_many_parked_jobs_go_on_as_places_became_free(store: SqlStore) -> None:
    await store.submit_many([keyed(limit=3) for _ in range(9)])
    claims = await take(store)
    assert len(claims) == 3
    assert await take(store) == []
    await complete(store, claims[0])
    await complete(store, claims[1])
    assert len(await take(store)) == 2
    assert await take(store) == []


async def test_a_turn_that_ends_jobs_of_many_keys_frees_as_many_places_of_each(store: SqlStore) -> None:
    limits = {"a": 1, "b": 2, "c": 3}
    await store.submit_many([keyed(key, limit, type=key) for key, limit in limits.items() for _ in range(6)])
    claims = await take(store, 18)
    assert Counter(claim.job.type for claim in claims) == limits
    ended = [claim for claim in claims if claim.job.type != "c"] + claims[-1:]
    await store.settle([Report(claim, Success()) for claim in ended])
    again = await take(store, 18)
    assert Counter(claim.job.type for claim in again) == {"a": 1, "b": 2, "c": 1}
    assert await take(store) == []


async def test_a_parked_job_that_is_cancelled_does_not_block_the_next(store: SqlStore) -> None:
    first, second, third = await store.submit_many([keyed() for _ in range(3)])
    running = await take_one(store)
    assert await take(store) == []
    await store.cancel(second.job_id)
    await complete(store, running)
    assert running.job.id == first.job_id
    assert (await take_one(store)).job.id == third.job_id


async def test_an_unparked_job_that_is_cancelled_hands_its_place_on(store: SqlStore) -> None:
    _, second, third = await store.submit_many([keyed() for _ in range(3)])
    running = await take_one(store)
    assert await take(store) == []
    await complete(store, running)
    await store.cancel(second.job_id)
    assert (await take_one(store)).job.id == third.job_id


async def test_a_paused_type_does_not_keep_its_key_from_others(store: SqlStore, clock: FrozenClock) -> None:
    await store.submit(keyed(type="a"))
    held = await store.submit(keyed(type="held"))
    free = await store.submit(keyed(type="free"))
    running = await take_one(store, types=("a",))
    assert await take(store) == []
    await store.pause("type", "held")
    await complete(store, running)
    for _ in range(3):
        await store.sweeps.unpark_idle()
        claims = await take(store)
        if claims:
            break
    assert [claim.job.id for claim in claims] == [free.job_id]
    assert await state_of(store, held.job_id) is State.SCHEDULED


async def test_the_sweep_finds_parked_jobs_that_nobody_will_wake(subject: Opened) -> None:
    store, tables = subject.store, subject.tables
    await store.submit_many([keyed() for _ in range(2)])
    await park(store, tables)
    assert await take(store) == []
    assert await store.sweeps.unpark_idle() >= 1
    assert len(await take(store)) == 1


async def test_the_sweep_leaves_parked_jobs_of_a_busy_key_alone(store: SqlStore) -> None:
    await store.submit_many([keyed() for _ in range(2)])
    await take_one(store)
    assert await take(store) == []
    assert await store.sweeps.unpark_idle() == 0


async def test_a_limit_may_differ_from_job_to_job_of_one_key(store: SqlStore) -> None:
    await store.submit(keyed(limit=2))
    await store.submit(keyed(limit=2))
    await store.submit(keyed(limit=1))
    assert len(await take(store)) == 2


async def test_everything_of_a_key_is_done_in_the_end(store: SqlStore, clock: FrozenClock) -> None:
    submit_results = await store.submit_many([keyed(f"k{i % 3}", limit=1 + i % 2) for i in range(30)])
    done = 0
    for _ in range(100):
        claims = await take(store, 4)
        for claim in claims:
            done += 1
            await complete(store, claim)
        if done == 30:
            break
        await store.sweeps.urgent()
    assert {await state_of(store, submitted.job_id) for submitted in submit_results} == {State.COMPLETED}


async def test_a_free_slot_goes_to_a_job_that_is_not_paused(store: SqlStore) -> None:
    await store.submit(keyed(type="a"))
    running = await take_one(store)
    await store.submit(keyed(type="b"))
    waiting = await store.submit(keyed(type="c"))
    assert await take(store) == []
    await store.pause("type", "b")
    await complete(store, running)
    assert [claim.job.id for claim in await take(store)] == [waiting.job_id]


async def test_a_job_that_is_paused_when_its_turn_comes_does_not_keep_the_others_parked(store: SqlStore) -> None:
    await store.submit(keyed(type="a"))
    running = await take_one(store)
    await store.submit(keyed(type="b"))
    waiting = await store.submit(keyed(type="c"))
    assert await take(store) == []
    await complete(store, running)
    await store.pause("type", "b")
    await store.sweeps.recover()
    assert [claim.job.id for claim in await take(store)] == [waiting.job_id]


async def test_a_paused_job_goes_on_when_it_is_resumed(store: SqlStore) -> None:
    await store.submit(keyed(type="a"))
    running = await take_one(store)
    paused = await store.submit(keyed(type="b"))
    assert await take(store) == []
    await store.pause("type", "b")
    await complete(store, running)
    await store.resume("type", "b")
    await store.sweeps.recover()
    assert [claim.job.id for claim in await take(store)] == [paused.job_id]


@needs(Capability.ANY_REQUESTER)
async def test_requesters_do_not_share_a_key(store: SqlStore) -> None:
    """One requester can neither park the jobs of another, nor learn from its own that another's run."""
    mine = [await store.submit(keyed(requester_id="me")) for _ in range(2)]
    theirs = [await store.submit(keyed(requester_id="them")) for _ in range(2)]
    claims = await take(store)
    assert sorted(claim.job.id for claim in claims) == sorted([mine[0].job_id, theirs[0].job_id])
    await complete(store, next(claim for claim in claims if claim.job.requester_id == "me"))
    assert [claim.job.id for claim in await take(store)] == [mine[1].job_id]
