"""Depths and stats: counts that add up, ages, and nothing of other requesters."""

from __future__ import annotations

from euterpe.model.failures.failure import Category
from euterpe.model.state import State
from euterpe.ports import Capability
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import (
    CALLBACK,
    HOUR,
    MINUTE,
    SECOND,
    complete,
    fail,
    stop,
    submit,
    take,
    taken,
)
from tests.conformance.clock import FrozenClock
from tests.conformance.needs import needs


async def test_depths_count_live_jobs_by_queue_and_tell_the_age_of_the_oldest(
    store: SqlStore, clock: FrozenClock
) -> None:
    await submit(store, queue="a")
    clock.advance(seconds=10)
    await submit(store, queue="a")
    await submit(store, queue="b", delay_us=HOUR)
    await complete(store, await taken(store, "done", queue="b"))
    clock.advance(seconds=5)
    depths = {(d.queue, d.state): (d.count, d.oldest_age_us) for d in await store.depths()}
    ages = {("a", State.SCHEDULED): (2, 15 * SECOND), ("b", State.DELAYED): (1, 5 * SECOND)}
    if Capability.SEARCH not in store.capabilities:
        ages["b", State.DELAYED] = (1, 0)  # Lists tell the age of what is in line only.
    assert depths == ages


async def test_stats_count_by_state_queue_and_type(store: SqlStore) -> None:
    await complete(store, await taken(store, "a", queue="q1"))
    await fail(store, await taken(store, "a", queue="q1"), Category.PERMANENT)
    await submit(store, "b", queue="q2")
    stats = await store.stats()
    assert stats.by_state == {"completed": 1, "failed": 1, "scheduled": 1}
    assert stats.by_queue == {"q1": {"completed": 1, "failed": 1}, "q2": {"scheduled": 1}}
    assert stats.by_type == {"a": {"completed": 1, "failed": 1}, "b": {"scheduled": 1}}


async def test_stats_tell_oldest_ages_and_ends_of_the_last_minute(store: SqlStore, clock: FrozenClock) -> None:
    await complete(store, await taken(store, "old"))
    clock.advance(minutes=2)
    await complete(store, await taken(store, "a"))
    await fail(store, await taken(store, "b", max_attempts=1))
    await submit(store, "waiting")
    clock.advance(seconds=30)
    stats = await store.stats()
    assert stats.oldest_age_us == {"default": 30 * SECOND}
    assert (stats.per_minute["completed"], stats.per_minute["failed"], stats.per_minute["dead_letter"]) == (1, 0, 1)
    clock.advance(minutes=2)
    assert set((await store.stats()).per_minute.values()) == {0}


@needs(Capability.OUTBOX)
async def test_stats_tell_of_the_outbox(store: SqlStore) -> None:
    await stop(store, await taken(store, "c", callback_url=CALLBACK))
    assert (await store.stats()).outbox == {"scheduled": 2}


@needs(Capability.ANY_REQUESTER, Capability.OUTBOX)
async def test_stats_of_one_requester_show_nothing_of_the_others(store: SqlStore, clock: FrozenClock) -> None:
    for requester in ("alice", "bob"):
        await complete(store, await taken(store, requester, requester_id=requester, callback_url=CALLBACK))
    await submit(store, "bobs", requester_id="bob", queue="bobs")
    clock.advance(us=MINUTE // 2)
    stats = await store.stats("alice")
    assert stats.by_state == {"completed": 1}
    assert stats.by_type == {"alice": {"completed": 1}}
    assert (stats.per_minute["completed"], stats.oldest_age_us, stats.outbox) == (1, {}, {"scheduled": 2})


async def test_a_job_of_a_type_that_no_worker_here_knows_is_seen(store: SqlStore) -> None:
    await submit(store, "known")
    await submit(store, "unknown")
    await submit(store, "unknown")
    await submit(store, "elsewhere", queue="other")
    assert await store.unknown_types(["default"], ["known"]) == {"unknown": 2}
    assert [c.job.type for c in await take(store, types=("known",))] == ["known"]
