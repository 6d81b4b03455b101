"""Redis Streams carry wake-ups: one of the group is woken, the database decides, and messages go when it has."""

from __future__ import annotations

import asyncio
import logging
import statistics
import time
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
import redis

from euterpe import Queue
from euterpe.backends.engines import connect, wakeups_url_of
from euterpe.config import load_config
from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.outcome import Failed, Outcome, Released, Success
from euterpe.model.errors import InvalidInput
from euterpe.model.failures.failure import Category, Failure
from euterpe.model.state import State
from euterpe.ports import CANCEL_CHANNEL
from euterpe.queue.queue import core_of
from euterpe.wakeups.redis_streams import StreamWakeups
from euterpe.wakeups.stream_messages import GROUP, Note, StreamMessages
from tests.patience import in_time
from tests.servers.process import free_port
from tests.wakeups.crew import crew_process, is_drained, messages_in, streams_queue, until, working

STREAM = "euterpe:default:2"


def streams_of(queue: Queue) -> StreamWakeups:
    wakeups = core_of(queue).wakeups
    assert isinstance(wakeups, StreamWakeups)
    return wakeups


@pytest.fixture
def client(redis_url: str) -> redis.Redis:
    return redis.Redis.from_url(redis_url, decode_responses=True)


@pytest.fixture
async def submitter(sqlite_url: str, redis_url: str) -> AsyncIterator[Queue]:
    """Another process's queue, as far as wake-ups can tell."""
    async with streams_queue(sqlite_url, redis_url) as queue:
        yield queue


def messages(client: redis.Redis, stream: str = STREAM) -> list[dict[str, str]]:
    entries: Any = client.xrange(stream)
    return [fields for _, fields in entries]


async def submit_in_silence(url: str, **payload: str) -> str:
    """A job that nobody is told of."""
    async with Queue(url) as silent:
        core_of(silent).store.wakeups = None
        return (await silent.submit("note", payload)).id


async def test_a_message_names_the_job_and_its_enqueueing_in_the_stream_of_its_queue_and_priority(
    submitter: Queue, client: redis.Redis
) -> None:
    job = await submitter.submit("note", {}, queue="mail", priority="high")
    await until(lambda: client.xlen("euterpe:mail:1") == 1)
    (fields,) = messages(client, "euterpe:mail:1")
    assert fields["job_id"] == job.id
    assert len(fields["enqueue_id"]) == 32


@pytest.mark.parametrize("engine", ["sqlite_url", "fresh_postgres_url"])
async def test_a_worker_in_another_process_starts_jobs_soon_and_the_streams_drain(
    engine: str, redis_url: str, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    url = request.getfixturevalue(engine)
    async with streams_queue(url, redis_url) as queue:
        with crew_process(url, redis_url) as crew:
            await until(lambda: bool(crew.said))
            for _ in range(60):
                await queue.submit("note", {"at": time.time()})
                await asyncio.sleep(0.05)  # the rate that is measured: 20 a second
            await until(lambda: len(crew.started) == 60)
            latencies_ms = sorted((line["started"] - line["at"]) * 1000 for line in crew.started)
            await until(lambda: is_drained(redis_url))
    p50, p99 = statistics.median(latencies_ms), latencies_ms[-1]
    with capsys.disabled():
        print(f"\n  submit to start at 20/s over Redis Streams ({engine}): p50 {p50:.1f} ms, worst {p99:.1f} ms")
    in_time(p50 / 1000, 0.5)


@pytest.mark.parametrize("end", [Success(), Released(), Failed(Failure(Category.TEMPORARY, "not now"))], ids=str)
async def test_a_message_stays_pending_until_the_end_of_its_job_or_its_return_is_committed(
    end: Outcome, submitter: Queue, sqlite_url: str, redis_url: str, client: redis.Redis
) -> None:
    async with streams_queue(sqlite_url, redis_url) as other:
        woken = asyncio.Event()
        stop = core_of(other).wakeups.subscribe(woken.set, ["default"])
        job = await submitter.submit("note", {})
        await asyncio.wait_for(woken.wait(), 30)
        # Handed on: it was looked at, found to be of use still, and kept.
        await until(lambda: [m.get("hops") for m in messages(client)] == ["1"])
        assert (await other.get(job.id)).state is State.SCHEDULED
        claims = await core_of(other).store.claim(ClaimRequest(worker_id="w", limit=1))
        assert [claim.job.id for claim in claims] == [job.id]
        await until(lambda: messages_in(redis_url) == (1, 1))
        await until(lambda: bool(streams_of(other)._registry.running))
        await streams_of(other)._drop_done()  # whatever it does about a message, it does it here
        assert messages_in(redis_url) == (1, 1)
        before = messages(client)[0]["enqueue_id"]
        await core_of(other).store.settle([Report(claims[0], end)])
        if isinstance(end, Released):  # it waits again, which is what a new message says
            await until(lambda: [m["enqueue_id"] for m in messages(client)] not in ([], [before]))
            await submitter.cancel(job.id)
        await until(lambda: is_drained(redis_url))
        stop()


async def test_a_message_left_by_a_crash_after_the_claims_commit_is_taken_over_and_harmless(
    submitter: Queue, sqlite_url: str, redis_url: str
) -> None:
    dead = StreamMessages(redis_url, "euterpe")
    streams = await dead.ensure_groups({"default"})
    job = await submitter.submit("note", {})
    (held,) = (await dead.read(streams, 10, 10_000)).held
    assert held.note.job_id == job.id
    (claim,) = await core_of(submitter).store.claim(ClaimRequest(worker_id="w", limit=1))
    await dead.close()  # It claimed and died: no acknowledgement.
    assert messages_in(redis_url) == (1, 1)
    async with streams_queue(sqlite_url, redis_url, visibility_s=0.2) as other, working(other) as started:
        await until(lambda: bool(streams_of(other)._registry.running))
        assert messages_in(redis_url) == (1, 1)
        assert await core_of(submitter).store.settle([Report(claim, Success())])
        await until(lambda: is_drained(redis_url))
        assert started == []
        assert (await other.get(job.id)).attempt == 1


async def test_a_message_left_by_a_crash_between_the_last_commit_and_its_acknowledgement_is_redelivered_and_goes(
    submitter: Queue, sqlite_url: str, redis_url: str
) -> None:
    dead = StreamMessages(redis_url, "euterpe")
    streams = await dead.ensure_groups({"default"})
    job = await submitter.submit("note", {})
    assert len((await dead.read(streams, 10, 10_000)).held) == 1
    (claim,) = await core_of(submitter).store.claim(ClaimRequest(worker_id="w", limit=1))
    assert await core_of(submitter).store.settle([Report(claim, Success())])
    await dead.close()  # Committed, and it died: no acknowledgement.
    assert messages_in(redis_url) == (1, 1)
    async with streams_queue(sqlite_url, redis_url, visibility_s=0.2) as other, working(other) as started:
        await until(lambda: is_drained(redis_url))
        assert started == []
        assert (await other.get(job.id)).state is State.COMPLETED


async def test_a_message_that_a_dead_process_had_in_hand_wakes_another_after_the_visibility_timeout(
    submitter: Queue, sqlite_url: str, redis_url: str
) -> None:
    job_id = await submit_in_silence(sqlite_url)
    dead = StreamMessages(redis_url, "euterpe")
    streams = await dead.ensure_groups({"default"})
    await dead.publish([Note("default", 2, job_id)])
    (held,) = (await dead.read(streams, 10, 10_000)).held
    await dead.close()
    async with streams_queue(sqlite_url, redis_url, visibility_s=2, republish_s=600) as other:
        wakes: list[float] = []
        stop = core_of(other).wakeups.subscribe(lambda: wakes.append(time.monotonic()), ["default"])
        await until(lambda: len(wakes) > 1)  # The first one says that it listens now.
        assert wakes[1] - held.read_at >= 1.9
        await submitter.cancel(job_id)
        await until(lambda: is_drained(redis_url))
        stop()


async def test_pending_entries_of_trimmed_messages_go_too(sqlite_url: str, redis_url: str, client: redis.Redis) -> None:
    dead = StreamMessages(redis_url, "euterpe")
    streams = await dead.ensure_groups({"default"})
    await dead.publish([Note("default", 2, str(uuid.uuid4())) for _ in range(3)])
    assert len((await dead.read(streams, 10, 10_000)).held) == 3
    await dead.close()
    client.xtrim(STREAM, maxlen=0, approximate=False)
    assert messages_in(redis_url) == (0, 3)
    async with streams_queue(sqlite_url, redis_url, visibility_s=0.2) as other, working(other):
        await until(lambda: is_drained(redis_url))


async def test_duplicates_and_forgeries_are_harmless_and_drained(
    submitter: Queue, sqlite_url: str, redis_url: str, client: redis.Redis
) -> None:
    client.set("euterpe:default:4", "not a stream")
    job = await submitter.submit("note", {"name": "real"})
    for _ in range(50):
        client.xadd(STREAM, {"job_id": job.id, "enqueue_id": "again"})
    for priority in range(4):
        name = f"euterpe:default:{priority}"
        client.xadd(name, {"nothing": "here"})
        client.xadd(name, {"job_id": "'; DROP TABLE inbox_jobs; --"})
        client.xadd(name, {"job_id": "x" * 36})
        client.xadd(name, {"job_id": "\u00fc" * 36})
        client.xadd(name, {"job_id": b"\xff\xfe" * 18})
        client.xadd(name, {"job_id": str(uuid.uuid4()), "hops": "-1"})
        client.xadd(name, {"job_id": job.id.upper(), "hops": "9" * 500})
        client.xadd(name, {"job_id": "", "enqueue_id": "\x00"})
    async with streams_queue(sqlite_url, redis_url) as other, working(other) as started:
        await until(lambda: len(started) >= 1)
        await until(lambda: is_drained(redis_url))
        await submitter.submit("note", {"name": "next"})
        await until(lambda: len(started) == 2)
        assert [line["name"] for line in started] == ["real", "next"]
        assert (await other.get(job.id)).attempt == 1


async def test_a_destroyed_group_is_made_again_and_nothing_waits_for_a_poll(
    submitter: Queue, sqlite_url: str, redis_url: str, client: redis.Redis
) -> None:
    async with streams_queue(sqlite_url, redis_url) as other, working(other) as started:
        await submitter.submit("note", {"name": "before"})
        await until(lambda: len(started) == 1)
        streams = [f"euterpe:default:{priority}" for priority in range(5)]
        # The job may have been found by a look at the file, before the listener had made all its groups.
        await until(lambda: client.exists(*streams) == len(streams))
        for stream in streams:
            client.xgroup_destroy(stream, GROUP)
        await submitter.submit("note", {"name": "after"})
        await until(lambda: len(started) == 2)
        await until(lambda: is_drained(redis_url))


async def test_a_busy_process_hands_a_message_on_to_one_that_is_free(
    submitter: Queue, sqlite_url: str, redis_url: str
) -> None:
    async with streams_queue(sqlite_url, redis_url, republish_s=600) as busy:
        woken = asyncio.Event()
        stop = core_of(busy).wakeups.subscribe(woken.set, ["default"])  # It listens and never claims.
        await submitter.submit("note", {"name": "first"})
        await asyncio.wait_for(woken.wait(), 30)
        async with streams_queue(sqlite_url, redis_url, republish_s=600) as free, working(free) as started:
            for i in range(10):
                await submitter.submit("note", {"name": f"later {i}"})
            await until(lambda: len(started) == 11)
            await until(lambda: is_drained(redis_url))
        stop()


async def test_an_announcement_without_ids_reaches_other_processes_too(
    submitter: Queue, sqlite_url: str, redis_url: str
) -> None:
    async with streams_queue(sqlite_url, redis_url, republish_s=600) as other, working(other) as started:
        await submitter.submit("note", {"name": "first"})
        await until(lambda: len(started) == 1)
        await until(lambda: is_drained(redis_url))
        await submit_in_silence(sqlite_url, name="second")
        core_of(submitter).wakeups.announce(["default"])
        await until(lambda: len(started) == 2)


async def test_a_cancel_is_told_by_the_transport_beside_and_is_no_queue_to_read(
    fresh_postgres_url: str, redis_url: str
) -> None:
    heard = asyncio.Event()
    async with Queue(fresh_postgres_url, transport=redis_url) as one, Queue(fresh_postgres_url) as other:
        stop = core_of(one).wakeups.subscribe(heard.set, [CANCEL_CHANNEL])
        try:
            core_of(other).wakeups.announce([CANCEL_CHANNEL])
            await asyncio.wait_for(heard.wait(), 30)
            heard.clear()
            core_of(one).wakeups.announce([CANCEL_CHANNEL])
            await asyncio.wait_for(heard.wait(), 30)
        finally:
            stop()
    assert not any(CANCEL_CHANNEL.encode() in key for key in redis.Redis.from_url(redis_url).scan_iter())


async def test_jobs_that_nobody_announced_are_told_of_after_a_few_seconds(sqlite_url: str, redis_url: str) -> None:
    async with streams_queue(sqlite_url, redis_url, republish_s=0.5) as other, working(other) as started:
        await other.submit("note", {"name": "first"})
        await until(lambda: len(started) == 1)
        await until(lambda: is_drained(redis_url))
        await submit_in_silence(sqlite_url, name="second")
        await until(lambda: len(started) == 2)


async def test_without_redis_submits_succeed_workers_poll_and_one_warning_says_so(
    sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    nowhere = f"redis://127.0.0.1:{free_port()}/0"
    with caplog.at_level(logging.WARNING, "euterpe.wakeups"):
        async with (
            Queue(sqlite_url, transport=nowhere) as other,
            Queue(sqlite_url, transport=nowhere) as queue,
            working(other, poll="50ms") as started,
        ):
            for i in range(20):
                await queue.submit("note", {"name": str(i)})
            await until(lambda: len(started) == 20)
            await until(lambda: caplog.text.count("Redis unavailable") >= 2)
    assert caplog.text.count("Redis unavailable") == 2  # One for each of the two queues.


async def test_a_process_that_ends_sends_what_it_still_has_to_say(sqlite_url: str, redis_url: str) -> None:
    async with streams_queue(sqlite_url, redis_url) as other, working(other) as started:
        for i in range(5):
            async with streams_queue(sqlite_url, redis_url) as script:
                await script.submit("note", {"name": str(i)})
        await until(lambda: len(started) == 5)
        await until(lambda: is_drained(redis_url))


async def test_a_stopped_process_leaves_no_consumer_and_no_pending_message(
    submitter: Queue, sqlite_url: str, redis_url: str, client: redis.Redis
) -> None:
    async with streams_queue(sqlite_url, redis_url) as other:
        stop = core_of(other).wakeups.subscribe(lambda: None, ["default"])
        await submitter.submit("note", {})
        await until(lambda: messages_in(redis_url)[1] == 1)
    stop()
    assert messages_in(redis_url) == (1, 0)
    assert client.xinfo_consumers(STREAM, GROUP) == []


async def test_wakeups_can_be_opened_again_on_another_loop(sqlite_url: str, redis_url: str) -> None:
    queue = streams_queue(sqlite_url, redis_url)

    async def use() -> None:
        async with queue:
            await queue.submit("note", {})

    for _ in range(2):
        await asyncio.to_thread(asyncio.run, use())
    assert messages_in(redis_url)[0] == 2


async def test_a_stream_is_bounded(redis_url: str, client: redis.Redis) -> None:
    messages = StreamMessages(redis_url, "euterpe", maxlen=100)
    for _ in range(4):
        await messages.publish([Note("default", 2, str(uuid.uuid4())) for _ in range(500)])
    await messages.close()
    assert client.xlen(STREAM) < 500  # Redis trims whole nodes of its tree.


def test_the_configuration_names_the_redis_of_the_transport() -> None:
    assert wakeups_url_of(load_config(None, {})) is None
    environ = {
        "TRANSPORT_KIND": "streams",
        "REDIS_ADDR": "10.0.0.9:6380",
        "REDIS_PASSWORD": "p@ss/word",
        "REDIS_DB": "3",
    }
    assert wakeups_url_of(load_config(None, environ)) == "redis://:p%40ss%2Fword@10.0.0.9:6380/3"
    named = environ | {"REDIS_USERNAME": "eu:terpe"}
    assert wakeups_url_of(load_config(None, named)) == "redis://eu%3Aterpe:p%40ss%2Fword@10.0.0.9:6380/3"
    named["REDIS_PASSWORD"] = ""
    assert wakeups_url_of(load_config(None, named)) == "redis://eu%3Aterpe@10.0.0.9:6380/3"


def test_a_transport_that_is_no_redis_is_refused(sqlite_url: str) -> None:
    with pytest.raises(InvalidInput, match="transport"):
        connect(sqlite_url, wakeups_url="kafka://127.0.0.1")


def test_streams_stand_beside_notify_on_postgres(fresh_postgres_url: str, redis_url: str) -> None:
    backend = connect(fresh_postgres_url, wakeups_url=redis_url)
    assert isinstance(backend.wakeups, StreamWakeups)
    assert backend.channel is not None  # a caller's own transaction still tells by NOTIFY
