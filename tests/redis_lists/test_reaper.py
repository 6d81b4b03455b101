"""The reaper: what a lost worker's processing list holds goes back where it came from, in one step."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable

import pytest
import redis

from euterpe.model.state import State
from euterpe.model.submitting.submission import Submission
from euterpe.observe.metrics import Metrics
from euterpe.stores.redis_lists import reaper
from euterpe.stores.redis_lists.store import RedisListStore
from tests.conformance.acts import complete, submit, take, take_one
from tests.conformance.clock import FrozenClock
from tests.redis_lists.foreign import HIGH, LOW, foreign

DEAD = "jobqueue:dead_letter"
LOST = "jobqueue:worker:gone:processing"


async def test_the_jobs_of_a_worker_without_a_heartbeat_are_retried_at_once(
    store: RedisListStore, raw: redis.Redis, clock: FrozenClock, caplog: pytest.LogCaptureFixture
) -> None:
    metrics = Metrics({})
    store.telemetry = metrics
    job_id = await submit(store, priority=1)
    await take_one(store)
    assert (await store.sweeps.recover()).reclaimed == 0, "its heartbeat is there"
    raw.delete("worker:hb:w1")
    with caplog.at_level(logging.WARNING):
        assert (await store.sweeps.recover()).reclaimed == 1
    assert (await store.get(job_id)).state is State.RETRYING
    assert raw.llen("jobqueue:worker:w1:processing") == 0
    assert "reaper_jobs_moved_total 1.0" in metrics.render()[1].decode()
    assert "an attempt was ended without its worker" in caplog.text
    clock.advance(seconds=1)
    await store.sweeps.promote()
    assert json.loads(str(raw.lindex(HIGH, -1)))["origin_queue"] == HIGH


async def test_a_claim_whose_answer_was_lost_is_found_though_its_worker_lives(
    store: RedisListStore, clock: FrozenClock
) -> None:
    await submit(store)
    await take_one(store)
    clock.advance(seconds=61)
    other = await submit(store, "other")
    assert (await take_one(store)).job.id == other, "the worker lives and claims"
    assert (await store.sweeps.recover()).reclaimed == 1
    assert (await store.get(other)).state is State.RUNNING


async def test_a_heartbeat_that_came_in_between_keeps_the_job(store: RedisListStore, raw: redis.Redis) -> None:
    """Between the look and the move the worker may have come back."""
    await submit(store)
    claim = await take_one(store)
    raw.delete("worker:hb:w1")
    sweeps = store.sweeps
    job = await store.get(claim.job.id)
    await store.heartbeat([claim.lease])
    assert await sweeps._take_back([job.id]) == 0
    assert (await complete(store, claim)).accepted


async def test_a_look_at_leases_renews_none(store: RedisListStore, clock: FrozenClock) -> None:
    await submit(store)
    await submit(store, "other")
    first, second = await take(store)
    await store.cancel(first.job.id)
    await complete(store, second)
    clock.advance(seconds=10)
    news = await store.check_leases([first.lease, second.lease])
    assert [(reply.alive, reply.cancel_requested, reply.expires_at) for reply in news] == [
        (True, True, first.lease.expires_at),
        (False, False, 0),
    ]


async def test_entries_of_other_programs_go_back_to_their_origin(store: RedisListStore, raw: redis.Redis) -> None:
    named = foreign("a", origin_queue=LOW)
    by_priority = foreign("b")
    spent = foreign("c", origin_queue=LOW, retries=4)
    nowhere = foreign("d", priority="odd")
    raw.lpush(LOST, named, by_priority, spent, nowhere, "{not json")
    raw.set("worker:hb:gone", "alive")
    assert await store.sweeps.reclaim() == 0, "its heartbeat is there"
    raw.delete("worker:hb:gone")
    assert await store.sweeps.reclaim() == 5
    assert raw.exists(LOST) == 0
    assert (raw.lrange(LOW, 0, -1), raw.lrange(HIGH, 0, -1)) == ([named], [by_priority])
    assert set(raw.lrange(DEAD, 0, -1)) == {spent, nowhere, "{not json"}
    assert {claim.job.id for claim in await take(store)} == {"a", "b"}


async def test_an_entry_that_was_moved_but_not_claimed_goes_back(store: RedisListStore, raw: redis.Redis) -> None:
    """As BRPOPLPUSH by hand, or by a program that died right after it, leaves it."""
    job_id = await submit(store, priority=1)
    raw.rpoplpush(HIGH, LOST)
    assert await store.sweeps.reclaim() == 1
    assert (await take_one(store)).job.id == job_id


async def test_a_processing_list_that_is_no_list_stops_nobody_elses_rescue(
    store: RedisListStore, raw: redis.Redis
) -> None:
    raw.set("jobqueue:worker:odd:processing", "text")
    raw.lpush(LOST, foreign("a", origin_queue=LOW))
    assert await store.sweeps.reclaim() == 1
    assert raw.get("jobqueue:worker:odd:processing") == "text"


async def test_a_pass_ends_after_its_time_and_the_next_goes_on(
    store: RedisListStore, raw: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    async def paused(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(reaper, "PASS_S", 0.0)
    monkeypatch.setattr(asyncio, "sleep", paused)
    with raw.pipeline() as pipe:
        for i in range(2_000):
            pipe.set(f"noise:{i}", "x")
        # One alone may be among the first that Redis comes to.
        lost = [LOST.replace("gone", f"gone-{i}") for i in range(20)]
        for i, processing in enumerate(lost):
            pipe.lpush(processing, foreign(f"a{i}", origin_queue=LOW))
        pipe.execute()
    passes = 0
    while raw.exists(*lost):
        await store.sweeps.reclaim()
        passes += 1
    assert passes > 1, "a pass without time looks at one page of keys"
    monkeypatch.setattr(reaper, "PASS_S", 10.0)
    for _ in range(2):  # to the end, and then through all
        await store.sweeps.reclaim()
    base = reaper.PAGE_PAUSE_S
    assert len(pauses) > 10
    assert all(0.5 * base <= pause <= 1.5 * base for pause in pauses)
    assert max(pauses) - min(pauses) > 0.3 * base


class CountedTrips:
    """How often this store waited for an answer of Redis."""

    def __init__(self, store: RedisListStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        for name in ("run", "read", "read_all", "read_fitting"):
            monkeypatch.setattr(store.scripts, name, self._counted(getattr(store.scripts, name)))

    def _counted(self, ask: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[object]]:
        async def asked(*arguments: object) -> object:
            self.count += 1
            return await ask(*arguments)

        return asked


@pytest.mark.parametrize("jobs", [1, 200])
async def test_a_rescue_takes_a_few_round_trips_however_many_jobs_were_lost(
    store: RedisListStore, raw: redis.Redis, monkeypatch: pytest.MonkeyPatch, jobs: int
) -> None:
    """Each is a moment of the time within which lost jobs are promised back; on a busy machine a long one."""
    await store.submit_many([Submission(type="work", max_attempts=3)] * jobs)
    assert len(await take(store, limit=jobs)) == jobs
    raw.delete("worker:hb:w1")
    monkeypatch.setattr(reaper, "PASS_S", 0.0)  # one page of the scan for others
    trips = CountedTrips(store, monkeypatch)
    assert await store.sweeps.reclaim() == jobs
    assert trips.count <= 6


async def test_what_was_not_begun_is_given_back_in_a_few_round_trips(
    store: RedisListStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.submit_many([Submission(type="work", max_attempts=3)] * 200)
    await take(store, limit=200)
    trips = CountedTrips(store, monkeypatch)
    assert await store.sweeps.release_unbegun("w1", set()) == 200
    assert trips.count <= 6


async def test_a_pass_that_has_much_to_move_ends_after_its_time_too(
    store: RedisListStore, raw: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reaper, "PASS_S", 0.0)
    monkeypatch.setattr(reaper, "BATCH", 50)
    await store.submit_many([Submission(type="work", max_attempts=3)] * 120)
    await take(store, limit=120)
    raw.delete("worker:hb:w1")
    assert [await store.sweeps.reclaim() for _ in range(4)] == [50, 50, 20, 0], "a batch a pass"


async def test_other_programs_lists_are_found_though_the_known_workers_take_all_the_time(
    store: RedisListStore, raw: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reaper, "PASS_S", 0.0)
    raw.lpush(LOST, foreign("a", origin_queue=LOW))
    while raw.exists(LOST):
        await store.sweeps.reclaim()


async def test_two_reapers_at_once_move_each_entry_once(
    redis_url: str, store: RedisListStore, raw: redis.Redis
) -> None:
    for i in range(50):
        raw.lpush(LOST, foreign(f"f{i}", origin_queue=LOW))
    other = RedisListStore(redis_url)
    await other.open()
    moved = 0
    while raw.llen(LOST):  # A pass ends after its time, which on a busy machine is before the end of the list.
        moved += sum(await asyncio.gather(store.sweeps.reclaim(), other.sweeps.reclaim()))
    await other.close()
    assert (moved, raw.llen(LOW)) == (50, 50)
