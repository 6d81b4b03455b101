"""A list of `worker.queues` is a queue of its own to its jobs, and to a worker one of the default queue's lists."""

from __future__ import annotations

import pytest
import redis

from euterpe.model.claims.presence import BreakerState, Presence, TrippedBreaker, WorkerFacts
from euterpe.model.reading.why import Reason
from euterpe.stores.redis_lists.store import RedisListStore
from tests.conformance.acts import job, submit, take
from tests.conformance.clock import FrozenClock
from tests.redis_lists.foreign import HIGH, LOW
from tests.redis_lists.test_reaper import CountedTrips


async def alive(store: RedisListStore, *breakers: TrippedBreaker) -> None:
    facts = WorkerFacts(queues=("default",), types=("work",), breakers=breakers)
    await store.workers.register([Presence(worker_id="w1", facts=facts)])


async def why(store: RedisListStore, job_id: str, reason: Reason) -> str:
    told = await store.why(job_id)
    assert told.reason is reason
    return told.sentence


async def test_a_list_is_paused_alone_or_with_the_default_queue(store: RedisListStore) -> None:
    low, high = await submit(store, queue=LOW), await submit(store, queue=HIGH)
    await alive(store)
    await store.pause("queue", LOW)
    assert f"resume --queue {LOW}" in await why(store, low, Reason.QUEUE_PAUSED)
    await why(store, high, Reason.NEXT)
    await store.pause("queue", "default")
    assert await take(store) == []
    assert "resume --queue default" in await why(store, high, Reason.QUEUE_PAUSED)
    await store.resume("queue", "default")
    assert [claim.job.id for claim in await take(store)] == [high]
    await store.resume("queue", LOW)
    assert [claim.job.id for claim in await take(store)] == [low]


async def test_the_breaker_of_the_default_queue_is_why_a_job_in_a_list_waits(store: RedisListStore) -> None:
    job_id = await submit(store, queue=LOW)
    await alive(store, TrippedBreaker("default", "work", BreakerState.OPEN, 20_000_000))
    told = await why(store, job_id, Reason.BREAKER_OPEN)
    assert told.startswith("The circuit breaker of work in queue default is open")


async def test_depths_and_ages_of_many_queues_take_a_few_round_trips(
    store: RedisListStore, monkeypatch: pytest.MonkeyPatch, clock: FrozenClock
) -> None:
    """Every worker asks for them every ten seconds."""
    names = {f"q{n}" for n in range(150)}
    await store.submit_many([job("work", queue=name) for name in names])
    clock.advance(us=3_000_000)
    trips = CountedTrips(store, monkeypatch)
    depths = await store.depths()
    assert {(d.queue, d.count, d.oldest_age_us) for d in depths} == {(name, 1, 3_000_000) for name in names}
    assert (await store.stats()).oldest_age_us == dict.fromkeys(names, 3_000_000)
    assert trips.count <= 20


async def test_a_list_that_is_a_string_does_not_hide_what_the_others_hold(
    store: RedisListStore, raw: redis.Redis
) -> None:
    raw.set(HIGH, "mine")
    record = await submit(store, queue=LOW)
    raw.set(f"jobqueue:job:{record}", "mine too")
    await submit(store, queue="mail")
    assert {d.queue: d.count for d in await store.depths()} == {LOW: 1, "mail": 1}
    assert set((await store.stats()).oldest_age_us) == {"mail"}
