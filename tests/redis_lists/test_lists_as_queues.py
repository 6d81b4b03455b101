"""A list of `worker.queues` is a queue of its own to its jobs, and to a worker one of the default queue's lists."""

from __future__ import annotations

from euterpe.model.claims.presence import BreakerState, Presence, TrippedBreaker, WorkerFacts
from euterpe.model.reading.why import Reason
from euterpe.stores.redis_lists.store import RedisListStore
from tests.conformance.acts import submit, take
from tests.redis_lists.foreign import HIGH, LOW


async def alive(store: RedisListStore, **breakers: TrippedBreaker) -> None:
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
    await alive(store, default=TrippedBreaker(BreakerState.OPEN, 20_000_000))
    told = await why(store, job_id, Reason.BREAKER_OPEN)
    assert told.startswith("The circuit breaker of queue 'default' is open")
