"""Jobs that other programs push: any id, any spelling of JSON, begun at once, and lost nowhere."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import redis

from euterpe import Queue
from euterpe.model.state import State
from euterpe.stores.redis_lists.store import RedisListStore
from tests.conformance.acts import fail, take, take_one
from tests.conformance.clock import FrozenClock
from tests.redis_lists.foreign import HIGH, LOW, foreign
from tests.redis_lists.private_server import ConfiguredRedis
from tests.redis_lists.test_kills import entries_everywhere, kill, until_all_completed, victim

DEAD = "jobqueue:dead_letter"
WITHOUT_POLLS = "brpoplpush_timeout=120s"
"""What starts within the patience of a test was then no find of a poll."""
PATIENCE_S = 40.0


@asynccontextmanager
async def at_work(queue: Queue, **said: Any) -> AsyncIterator[None]:
    settings: dict[str, Any] = {"concurrency": 1, "poll": "60s"} | said
    async with queue:
        working = asyncio.create_task(queue.work(**settings))
        try:
            yield
        finally:
            working.cancel()
            with suppress(asyncio.CancelledError):
                await working


async def until_waiting(raw: redis.Redis) -> None:
    """Until a worker waits at its lists, and Redis tells of their changes."""
    mine = str(raw.connection_pool.connection_kwargs["db"])
    async with asyncio.timeout(PATIENCE_S):
        while True:
            clients = [client for client in raw.client_list() if client["db"] == mine]
            watches = [client for client in clients if "t" in client["flags"] and client["cmd"] == "exists"]
            if watches and any(client["cmd"] == "blpop" for client in clients):
                return
            await asyncio.sleep(0.005)


# --- ids --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("job_id", ["7", "job-1", "AB" * 18, "ä" * 128], ids=lambda job_id: len(job_id.encode()))
async def test_a_lease_is_renewed_whatever_the_length_of_the_id(redis_url: str, raw: redis.Redis, job_id: str) -> None:
    queue, versions = Queue(redis_url), list[str]()
    record = f"jobqueue:job:{job_id}"

    @queue.job("process_file")
    async def until_renewed(filepath: str, filesize: int, priority: str) -> None:
        versions.append(str(raw.hget(record, "claim_version")))
        started_at = int(str(raw.hget(record, "started_at")))
        while int(str(raw.hget(record, "lease_expires_at"))) < started_at + 3_000_000:  # noqa: ASYNC110  # a keeper does
            await asyncio.sleep(0.02)

    raw.lpush(HIGH, foreign(job_id))
    async with at_work(queue, lease="1s", concurrency=2, poll="50ms"), asyncio.timeout(PATIENCE_S):
        while raw.hget(record, "state") != "completed":  # noqa: ASYNC110  # the worker does
            await asyncio.sleep(0.02)
    assert versions == ["1"], "it ran once, under one claim"


async def test_an_id_over_the_limit_is_refused_aloud_and_nothing_is_lost(
    store: RedisListStore, raw: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    long_ones = [foreign("x" * 257), foreign("ä" * 129), json.dumps({"id": "y" * 9_000}, separators=(",", ":"))]
    raw.lpush(HIGH, *long_ones, foreign("ä" * 128), foreign("x" * 256))
    with caplog.at_level(logging.ERROR):
        assert [claim.job.id for claim in await take(store)] == ["ä" * 128, "x" * 256]
    assert sorted(raw.lrange(DEAD, 0, -1)) == sorted(long_ones), "byte for byte"
    assert caplog.text.count("its id is longer than 256 bytes; push it again with a shorter id") == 3
    assert (await store.get("ä" * 128)).state is State.RUNNING


async def test_a_payload_that_kills_its_worker_runs_as_often_as_it_may(redis_url: str, raw: redis.Redis) -> None:
    """Each worker dies of it, and the keeper of each gives back only what had not begun."""
    url = f"{redis_url}?max_retries=2&backoff_base=10ms"
    raw.lpush(HIGH, foreign("poison", type="kill", filepath="/in/poison"))
    async with asyncio.timeout(2 * PATIENCE_S):
        while not raw.llen(DEAD):
            process = await victim(url)
            ended = asyncio.ensure_future(process.wait())
            while not ended.done() and not raw.llen(DEAD):  # noqa: ASYNC110  # other processes do
                await asyncio.sleep(0.02)
            if not ended.done():
                await kill(process)
            await ended
    assert raw.hgetall("runs") == {"/in/poison": "3"}
    assert raw.hget("jobqueue:job:poison", "attempt_count") == "3"


# --- spellings --------------------------------------------------------------------------------------------

SPELLINGS = {
    "spaced": '{ "id" : "a", "retries" : 0 , "x": 1}',
    "compact": '{"id":"a","retries":0,"x":1}',
    "indented": json.dumps({"id": "a", "retries": 0, "x": 1}, indent=2),
    "in an object before": '{"id":"a","meta":{"retries":7},"retries":0,"x":1}',
    "in an object that says the new one": '{"id":"a","meta":{"retries": 1},"retries":0,"x":1}',
    "in a text before": '{"id":"a","filepath":"\\"retries\\": 3","retries": 0,"x":1}',
    "none": '{"id":"a","x":1}\n',
    "null": '{"id": "a", "retries": null, "x": 1}',
    "only in an object": '{"id": "a", "meta": {"retries": 5}, "x": 1 }',
}


@pytest.mark.parametrize("entry", SPELLINGS.values(), ids=SPELLINGS)
async def test_a_failure_raises_retries_however_the_entry_is_written(
    store: RedisListStore, raw: redis.Redis, clock: FrozenClock, entry: str
) -> None:
    raw.lpush(HIGH, entry)
    for failures in (1, 2):
        await fail(store, await take_one(store))
        clock.advance(hours=1)
        await store.sweeps.promote()
        (waiting,) = raw.lrange(HIGH, 0, -1)
        assert json.loads(waiting) == json.loads(entry) | {"retries": failures}


# --- at once ----------------------------------------------------------------------------------------------


async def test_what_another_program_pushes_starts_at_once_in_every_list(redis_url: str, raw: redis.Redis) -> None:
    queue, started = Queue(f"{redis_url}?{WITHOUT_POLLS}"), asyncio.Queue[str]()

    @queue.job("process_file")
    async def handle(filepath: str, filesize: int, priority: str) -> None:
        started.put_nowait(filepath)

    async with at_work(queue, queues=["default", "mail"]):
        for i, name in enumerate((HIGH, LOW, "jobqueue:bulk_priority", "jobqueue:queue:mail:normal", HIGH)):
            await until_waiting(raw)
            raw.lpush(name, foreign(f"job-{i}", filepath=name))
            assert await asyncio.wait_for(started.get(), PATIENCE_S) == name


async def test_what_is_pushed_while_nobody_watches_starts_when_a_worker_waits(redis_url: str, raw: redis.Redis) -> None:
    """The worker loses the connection that tells of changes, while it waits on another."""
    queue, started = Queue(f"{redis_url}?{WITHOUT_POLLS}"), asyncio.Queue[str]()

    @queue.job("process_file")
    async def handle(filepath: str, filesize: int, priority: str) -> None:
        started.put_nowait(filepath)

    async with at_work(queue):
        for i in range(3):
            await until_waiting(raw)
            mine = str(raw.connection_pool.connection_kwargs["db"])
            watches = [c["id"] for c in raw.client_list() if "t" in c["flags"] and c["db"] == mine]
            raw.client_kill_filter(_id=watches[0])
            raw.lpush(HIGH, foreign(f"job-{i}", filepath=str(i)))
            assert await asyncio.wait_for(started.get(), PATIENCE_S) == str(i)


async def test_the_more_urgent_list_is_served_first(redis_url: str, raw: redis.Redis) -> None:
    queue, started = Queue(f"{redis_url}?{WITHOUT_POLLS}"), asyncio.Queue[str]()

    @queue.job("process_file")
    async def handle(filepath: str, filesize: int, priority: str) -> None:
        started.put_nowait(filepath)

    async with at_work(queue):
        await until_waiting(raw)
        with raw.pipeline(transaction=True) as both:
            for i in range(3):
                both.lpush(LOW, foreign(f"low-{i}", filepath=f"low-{i}"))
            for i in range(3):
                both.lpush(HIGH, foreign(f"high-{i}", filepath=f"high-{i}"))
            both.execute()
        order = [await asyncio.wait_for(started.get(), PATIENCE_S) for _ in range(6)]
    assert order == ["high-0", "high-1", "high-2", "low-0", "low-1", "low-2"]


async def test_a_pause_holds_what_another_program_pushes(redis_url: str, raw: redis.Redis) -> None:
    queue, started = Queue(f"{redis_url}?{WITHOUT_POLLS}"), asyncio.Queue[str]()

    @queue.job("process_file")
    async def handle(filepath: str, filesize: int, priority: str) -> None:
        started.put_nowait(filepath)

    async with at_work(queue, queues=["default", "mail"]):
        await queue.pause(queue="default")
        await until_waiting(raw)
        raw.lpush(HIGH, foreign("held", filepath="held"))
        raw.lpush("jobqueue:queue:mail:normal", foreign("free", filepath="free"))
        assert await asyncio.wait_for(started.get(), PATIENCE_S) == "free"
        await until_waiting(raw)
        assert started.empty()
        assert raw.llen(HIGH) == 1
        await queue.resume(queue="default")
        raw.lpush(HIGH, foreign("next", filepath="next"))
        assert [await asyncio.wait_for(started.get(), PATIENCE_S) for _ in range(2)] == ["held", "next"]


async def test_an_idle_worker_looks_once_and_then_only_at_changes() -> None:
    with ConfiguredRedis() as server, redis.Redis.from_url(server.url, decode_responses=True) as raw:
        queue = Queue(f"{server.url}?brpoplpush_timeout=20ms")

        @queue.job("process_file")
        async def handle(filepath: str, filesize: int, priority: str) -> None: ...

        async with at_work(queue), asyncio.timeout(PATIENCE_S):
            await until_waiting(raw)
            assert await asyncio.to_thread(looks_during, raw, waits=20) == 0
            raw.lpush(HIGH, foreign())
            while not raw.llen("jobqueue:completed"):  # noqa: ASYNC110  # the worker does
                await asyncio.sleep(0.02)


def looks_during(raw: redis.Redis, waits: int) -> int:
    """How often the lists are looked at, outside of scripts, while a worker waits so often."""
    looks = 0
    client: Any = raw
    with client.monitor() as monitor:
        for said in monitor.listen():
            command = said["command"].split()[0].upper()
            looks += int(command == "EXISTS" and said["client_type"] != "lua")
            waits -= command == "BLPOP"
            if not waits:
                return looks
    raise AssertionError("MONITOR ended")


async def test_without_the_right_to_track_a_push_is_found_when_the_wait_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with ConfiguredRedis() as server, redis.Redis.from_url(server.url) as raw:
        raw.acl_setuser(
            "worker", enabled=True, passwords=["+secret"], keys=["*"], commands=["+@all", "-client", "+client|setname"]
        )
        url = server.url.replace("redis://:", "redis://worker:secret@").split("@")
        queue, done = Queue(f"{url[0]}@{url[-1]}?brpoplpush_timeout=50ms"), asyncio.Event()

        @queue.job("process_file")
        async def handle(filepath: str, filesize: int, priority: str) -> None:
            done.set()

        with caplog.at_level(logging.WARNING):
            async with at_work(queue), asyncio.timeout(PATIENCE_S):
                while "refuses CLIENT TRACKING" not in caplog.text:  # noqa: ASYNC110  # the watch says it
                    await asyncio.sleep(0.01)
                raw.lpush(HIGH, foreign())
                await done.wait()
        assert caplog.text.count("refuses CLIENT TRACKING") == 1


async def test_workers_that_are_killed_while_they_wait_lose_nothing_that_is_pushed(
    redis_url: str, raw: redis.Redis
) -> None:
    chance, ids = random.Random(3), list[str]()
    for _ in range(3):
        process = await victim(redis_url)
        await until_waiting(raw)
        for _ in range(10):
            ids.append(f"job-{len(ids)}")
            raw.lpush(chance.choice((HIGH, LOW)), foreign(ids[-1], filepath=ids[-1], max_attempts=1000))
        await asyncio.sleep(chance.uniform(0, 0.02))
        await kill(process)
        assert entries_everywhere(raw) == Counter(ids), "each job stands in exactly one place"
    last = await victim(redis_url)
    await until_all_completed(raw, len(ids))
    await kill(last)
    assert entries_everywhere(raw) == Counter(ids)
    assert set(raw.hgetall("runs")) == set(ids)
