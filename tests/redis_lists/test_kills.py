"""kill -9, of workers and of Redis: no job is lost, and none is in two lists."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections import Counter
from contextlib import suppress

import pytest
import redis

import euterpe
from euterpe.model.errors import StoreUnavailable
from euterpe.stores.redis_lists.store import RedisListStore
from tests.redis_lists.private_server import DURABLE, ConfiguredRedis

JOBS = 200
PATIENCE_S = 60.0


async def victim(url: str) -> Process:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.redis_lists.victim", url, stdout=PIPE, start_new_session=True
    )
    assert process.stdout is not None
    assert (await process.stdout.readline()).startswith(b"ready")
    return process


async def kill(process: Process) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


ENTRIES_EVERYWHERE = """
local found = redis.call('ZRANGE', 'jobqueue:due', 0, -1)
for _, key in ipairs(redis.call('KEYS', 'jobqueue:*')) do
    local aside = string.find(key, '^jobqueue:attempts:') or string.find(key, ':wake$')
    if not aside and redis.call('TYPE', key).ok == 'list' then
        for _, entry in ipairs(redis.call('LRANGE', key, 0, -1)) do
            table.insert(found, cjson.decode(entry).id)
        end
    end
end
return found
"""


def entries_everywhere(raw: redis.Redis) -> Counter[str]:
    """How often each job stands in any list, or waits for its time.

    One script reads them all: between two reads a worker may move a job from a list that is read later to one that was
    read before, and it would seem lost.
    """
    found = raw.eval(ENTRIES_EVERYWHERE, 0)
    assert isinstance(found, list)
    return Counter(str(job_id) for job_id in found)


async def until_all_completed(raw: redis.Redis, jobs: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while raw.llen("jobqueue:completed") < jobs:  # noqa: ASYNC110  # another process completes them
            await asyncio.sleep(0.02)


async def submit_all(url: str, jobs: int) -> list[str]:
    queue = euterpe.Queue(url)
    async with queue:
        backoff = {"strategy": "constant", "initial": "10ms", "jitter": 0.0}
        handles = [
            await queue.submit("count", {"number": i}, max_attempts=1000, backoff=backoff, priority=i % 5)
            for i in range(jobs)
        ]
    return [handle.id for handle in handles]


async def test_workers_that_are_killed_at_random_lose_no_job(redis_url: str) -> None:
    chance = random.Random(11)
    ids = await submit_all(redis_url, JOBS)
    with redis.Redis.from_url(redis_url, decode_responses=True) as raw:
        for _ in range(2):
            process = await victim(redis_url)
            await asyncio.sleep(chance.uniform(0.02, 0.15))
            await kill(process)
            assert entries_everywhere(raw) == Counter(ids), "each job stands in exactly one place"
        last = await victim(redis_url)
        await until_all_completed(raw, JOBS)
        await kill(last)
        assert entries_everywhere(raw) == Counter(ids)
        assert len(raw.hgetall("runs")) == JOBS
    store = RedisListStore(redis_url)
    await store.open()
    assert (await store.stats()).by_state == {"completed": JOBS}
    await store.close()


async def test_a_redis_that_is_killed_keeps_what_it_acknowledged() -> None:
    """With an AOF that is synced at every write. Without one, what Redis had not saved is gone with it."""
    chance = random.Random(5)
    with ConfiguredRedis(**DURABLE) as server:
        known: set[str] = set()
        worker = await victim(server.url)
        queue = euterpe.Queue(server.url)
        async with queue:
            over = asyncio.Event()
            submitting = asyncio.create_task(_submit_until(over, queue, known))
            for _ in range(3):
                await asyncio.sleep(chance.uniform(0.05, 0.2))
                await asyncio.to_thread(server.restart, immediate=True)
            over.set()
            await submitting
        with redis.Redis.from_url(server.url, decode_responses=True) as raw:
            stored = entries_everywhere(raw)
            assert known <= set(stored), "what was acknowledged is there"
            await until_all_completed(raw, len(stored))
            assert entries_everywhere(raw) == Counter(set(stored)), "and each ends in one place"
        await kill(worker)


async def _submit_until(over: asyncio.Event, queue: euterpe.Queue, known: set[str]) -> None:
    while not over.is_set():
        with suppress(StoreUnavailable):
            known.add((await queue.submit("count", {"number": len(known)}, max_attempts=1000)).id)


@pytest.mark.parametrize("at", ["before the answer", "after the answer"])
async def test_a_submit_whose_answer_was_lost_can_be_repeated(redis_url: str, at: str) -> None:
    """The client sends a command again after a broken connection; ids are ours, so the second finds the first."""
    from euterpe.model.submitting.batch import Unit, drafts_of
    from euterpe.model.submitting.submission import Submission

    store = RedisListStore(redis_url)
    await store.open()
    unit = Unit(drafts_of([Submission(type="once"), Submission(type="later", delay_us=60_000_000)]))
    first = await store.submit_unit(unit)
    if at == "after the answer":
        assert await store.submit_unit(unit) == first
    again = await store._submitting.write([unit])
    assert again == [first]
    assert (await store.stats()).by_state == {"scheduled": 1, "delayed": 1}
    await store.close()
