"""The two scripts that stand alone do what the whole ones do, and leave to them what they do not know."""

from __future__ import annotations

from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest
import redis

from euterpe.model.claims.exchange import ClaimRequest
from euterpe.model.errors import StoreUnavailable
from euterpe.model.job import Claim
from euterpe.model.submitting.batch import Draft, Unit
from euterpe.redis.pipelined import PipelinedRedis
from euterpe.stores.redis_lists.scripts import source_of
from euterpe.stores.redis_lists.store import RedisListStore
from euterpe.stores.redis_lists.watch import ListWatch
from tests.conformance.acts import HOUR, complete, fail, job, submit, take, take_one
from tests.conformance.clock import FrozenClock
from tests.redis_lists.foreign import HIGH, foreign
from tests.redis_lists.test_scripts import snapshot
from tests.servers.redis import DATABASES

ID = "00000000-0000-4000-8000-00000000000%d"
WAIT_S = 0.05


@pytest.fixture
async def twin(redis_url: str, clock: FrozenClock) -> AsyncIterator[RedisListStore]:
    """The same names in a database of their own, which nobody else uses."""
    address, _, database = redis_url.rpartition("/")
    other = f"{address}/{DATABASES - 1 - int(database)}"
    lists = RedisListStore(other, clock=clock, rng=Random(7))
    await lists.open()
    await lists.scripts.client.flushdb()
    yield lists
    await lists.scripts.client.flushdb()
    await lists.close()


def all_of(store: RedisListStore) -> dict[str, object]:
    with redis.Redis.from_url(store.plain_url, decode_responses=True) as client:
        return snapshot(client)


def wakes_of(store: RedisListStore) -> dict[str, int]:
    with redis.Redis.from_url(store.plain_url, decode_responses=True) as client:
        return {key: client.llen(key) for key in client.scan_iter("*:wake")}


async def wait_and_claim(store: RedisListStore, **asked: Any) -> list[Claim]:
    """As a worker does that has nothing to do."""
    said: dict[str, Any] = {"worker_id": "w1", "limit": 5} | asked
    return await store._exchange.claim_when_ready(ClaimRequest(**said), WAIT_S)


@pytest.fixture
def scripts_run(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commands with a script that were sent. Redis counts those of all who use it."""
    sent: list[str] = []
    execute, execute_after = PipelinedRedis.execute, PipelinedRedis.execute_after

    async def counted(self: PipelinedRedis, *command: Any, **waiting: Any) -> Any:
        sent.append(command[0])
        return await execute(self, *command, **waiting)

    async def counted_after(self: PipelinedRedis, wait: Any, command: Any, wait_s: float) -> Any:
        sent.append(command[0])
        return await execute_after(self, wait, command, wait_s)

    # Looks for jobs of other programs come at any time, and are no part of a claim.
    monkeypatch.setattr(ListWatch, "begin", lambda _watch, _worker_id, _lists: None)
    monkeypatch.setattr(PipelinedRedis, "execute", counted)
    monkeypatch.setattr(PipelinedRedis, "execute_after", counted_after)
    return sent


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"priority": 0, "queue": "mail", "payload": b'{"a":"\\u0000"}'},
        {"requester_id": "r1", "execution_timeout_us": HOUR, "visibility_us": 5_000_000, "lifetime_us": HOUR},
        {"stages": ("claimed", "a"), "tags": {"k": "v"}, "correlation_id": "c", "max_attempts": 1},
    ],
    ids=["plain", "queue and priority", "its own limits", "stages and tags"],
)
async def test_one_job_alone_is_stored_and_claimed_as_in_a_batch(
    store: RedisListStore, twin: RedisListStore, said: dict[str, Any]
) -> None:
    unit = Unit((Draft(ID % 1, job(**said)),))
    submit_results = await store.submit_unit(unit)
    apart = Unit((Draft(ID % 2, job("other", queue="apart")),))
    told, _ = await twin._submitting.write([unit, apart])
    assert told == submit_results
    queues = (said.get("queue", "default"),)
    (claim,) = await wait_and_claim(store, queues=queues)
    (other,) = await take(twin, queues=queues)
    assert claim == other
    ours, theirs = all_of(store), all_of(twin)
    for key in (f"jobqueue:job:{ID % 1}", "jobqueue:worker:w1:processing", "worker:hb:w1"):
        assert ours[key] == theirs[key]


async def test_counts_lifetimes_and_tokens_are_those_of_the_whole_scripts(
    store: RedisListStore, twin: RedisListStore
) -> None:
    units = [Unit((Draft(ID % i, job(priority=i % 5)),)) for i in range(4)]
    for unit in units:
        await store.submit_unit(unit)
    await twin._submitting.write(units)
    assert all_of(store) == all_of(twin)
    assert wakes_of(store) == wakes_of(twin)
    for _ in units:
        assert await wait_and_claim(store) == await take(twin, 1)
        assert all_of(store) == all_of(twin)


async def test_tokens_stay_few_however_many_jobs_come_alone(store: RedisListStore, twin: RedisListStore) -> None:
    for _ in range(20):
        await submit(store)
    await twin.submit_many([job() for _ in range(20)])
    assert set(wakes_of(store).values()) == set(wakes_of(twin).values()) == {16}


@pytest.mark.parametrize("jobs", [1, 2], ids=["alone", "in a batch"])
async def test_a_job_that_is_there_already_is_not_stored_again(
    store: RedisListStore, clock: FrozenClock, jobs: int
) -> None:
    unit = Unit(tuple(Draft(ID % i, job()) for i in range(jobs)))
    first = await store.submit_unit(unit)
    before = all_of(store)
    clock.advance(minutes=1)
    assert await store.submit_unit(unit) == first
    assert all_of(store) == before | {"jobqueue:seq": all_of(store)["jobqueue:seq"]}
    await complete(store, await take_one(store))
    ended = all_of(store)
    assert await store.submit_unit(unit) == first
    assert all_of(store) == ended | {"jobqueue:seq": all_of(store)["jobqueue:seq"]}


async def test_a_list_that_is_a_string_is_named_and_nothing_is_stored(store: RedisListStore, raw: redis.Redis) -> None:
    raw.set("jobqueue:normal_priority", "mine")
    before = all_of(store)
    with pytest.raises(StoreUnavailable, match="jobqueue:normal_priority holds a string"):
        await submit(store)
    after = all_of(store)
    assert after.pop("jobqueue:seq", None) is not None
    assert after == before


async def test_one_round_trip_claims_a_plain_job(store: RedisListStore, scripts_run: list[str]) -> None:
    await submit(store)
    await wait_and_claim(store)  # The script is loaded by then.
    await submit(store)
    scripts_run.clear()
    assert len(await wait_and_claim(store)) == 1
    assert scripts_run == ["EVALSHA"]


async def test_what_is_not_plain_is_claimed_by_the_whole_script(
    store: RedisListStore, raw: redis.Redis, clock: FrozenClock
) -> None:
    await submit(store)
    (claim,) = await wait_and_claim(store)
    await fail(store, claim)
    clock.advance(seconds=1)
    await store.sweeps.urgent()
    (again,) = await wait_and_claim(store)
    assert (again.job.id, again.job.claim_version, again.job.attempt_count) == (claim.job.id, 2, 2)
    raw.lpush(HIGH, foreign())
    (theirs,) = await wait_and_claim(store)
    assert theirs.job.id == "job-1"
    raw.lpush(HIGH, "no job")
    assert await wait_and_claim(store) == []
    assert raw.lrange("jobqueue:dead_letter", 0, -1) == ["no job"]


async def test_a_waiting_worker_takes_nothing_that_is_not_for_it(
    store: RedisListStore, raw: redis.Redis, clock: FrozenClock
) -> None:
    await submit(store, "other")
    assert await wait_and_claim(store, types=("work",)) == []
    assert raw.lrange("jobqueue:normal_priority:type:other", 0, -1) != []
    await store.pause("queue", "default")
    await submit(store)
    assert await wait_and_claim(store) == []
    await store.resume("queue", "default")
    clock.advance(hours=24 * 30)
    assert await wait_and_claim(store, types=("work",)) == []
    raw.set(HIGH, "mine")
    await submit(store, priority=4)
    assert len(await wait_and_claim(store, types=("work",))) == 1


async def test_a_waiting_worker_finds_what_is_more_urgent_than_its_last_job(
    store: RedisListStore, scripts_run: list[str]
) -> None:
    """It looks first where it found a job before, and not past a list that comes first."""
    await submit(store, priority=3)
    assert len(await wait_and_claim(store)) == 1
    assert await wait_and_claim(store) == []
    later, urgent, last = [await submit(store, priority=priority) for priority in (3, 1, 4)]
    scripts_run.clear()
    for expected in (urgent, later, last):
        assert [claim.job.id for claim in await wait_and_claim(store)] == [expected]
    assert scripts_run == ["EVALSHA"] * 3
    await submit(store, queue="mail")
    assert len(await wait_and_claim(store, queues=("mail",))) == 1
    assert len(await wait_and_claim(store, queues=("none",))) == 0


async def test_an_entry_that_a_waiting_worker_leaves_is_the_first_of_its_list_again(
    store: RedisListStore, raw: redis.Redis
) -> None:
    assert await wait_and_claim(store) == []  # The script is loaded by then.
    raw.lpush(HIGH, foreign("first"), foreign("second"))
    assert [claim.job.id for claim in await wait_and_claim(store)] == ["first", "second"]


async def test_a_processing_list_that_is_a_string_leaves_the_job_where_it_is(
    store: RedisListStore, raw: redis.Redis
) -> None:
    job_id = await submit(store)
    raw.set("jobqueue:worker:w1:processing", "mine")
    before = all_of(store)
    with pytest.raises(StoreUnavailable, match="processing holds a string"):
        await wait_and_claim(store)
    assert all_of(store) == before
    assert [claim.job.id for claim in await wait_and_claim(store, worker_id="w2")] == [job_id]


@pytest.mark.parametrize("field", ["kind", "expires_at"])
async def test_a_record_that_lacks_a_field_leaves_its_entry_where_it_is(
    store: RedisListStore, raw: redis.Redis, field: str
) -> None:
    assert await wait_and_claim(store) == []  # The script is loaded by then.
    job_id = await submit(store)
    raw.hdel(f"jobqueue:job:{job_id}", field)
    waiting = raw.lrange("jobqueue:normal_priority", 0, -1)
    with pytest.raises(StoreUnavailable):
        await wait_and_claim(store)
    assert raw.lrange("jobqueue:normal_priority", 0, -1) == waiting
    assert not raw.exists("jobqueue:worker:w1:processing")


async def test_a_script_that_redis_has_forgotten_is_there_for_the_next_wait(
    store: RedisListStore, raw: redis.Redis
) -> None:
    await submit(store)
    raw.script_flush()
    assert len(await wait_and_claim(store)) == 1
    assert raw.script_exists(source_of("claim_one")[1]) == [True]


async def test_a_claim_is_answered_by_one_string(store: RedisListStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Redis 6 writes each table of an answer by itself: 454 writes for a claim of 450 jobs, and the worker reads as
    often."""
    answers: list[Any] = []
    execute, execute_after = PipelinedRedis.execute, PipelinedRedis.execute_after

    async def heard(self: PipelinedRedis, *command: Any, wait_s: float = 0.0) -> object:
        answers.append(await execute(self, *command, wait_s=wait_s))
        return answers[-1]

    async def heard_after(self: PipelinedRedis, *command: Any) -> tuple[object, object]:
        waited, answer = await execute_after(self, *command)
        answers.append(answer)
        return waited, answer

    monkeypatch.setattr(PipelinedRedis, "execute", heard)
    monkeypatch.setattr(PipelinedRedis, "execute_after", heard_after)
    await wait_and_claim(store)  # Redis learns the script.
    for _ in range(5):
        await submit(store)
    await wait_and_claim(store)
    assert [type(answer) for answer in answers[-1:]] == [bytes]
    await take(store, limit=4)
    assert [type(part) for part in answers[-1]] == [bytes, list, bytes, bytes, int]
    assert answers[-1][1] == []


async def test_large_payloads_are_claimed_like_small_ones(store: RedisListStore) -> None:
    """They are not packed: Redis would have them in memory twice more."""
    payloads = [b'"%d%s"' % (i, b"x" * 600_000) for i in range(4)]
    for payload in payloads:
        await submit(store, payload=payload)
    claims = await take(store, limit=4)
    assert [claim.job.payload for claim in claims] == payloads
    assert all(claim.lease.claim_version == claim.job.attempt_count == 1 for claim in claims)
