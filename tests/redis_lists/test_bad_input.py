"""Lists and servers that are not as they should be: a clear error, nothing lost, and one bad entry stops no queue."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import redis
from redis.exceptions import BusyLoadingError, OutOfMemoryError

from euterpe.model.errors import CommitUnknown, EuterpeError, ServerNotReady, StoreUnavailable
from euterpe.model.state import State
from euterpe.model.submitting.submission import PAYLOAD_CEILING, Submission
from euterpe.redis.errors import unavailable
from euterpe.stores.redis_lists.store import RedisListStore
from tests.conformance.acts import complete, fail, job, submit, take, take_one
from tests.redis_lists.foreign import HIGH, foreign
from tests.redis_lists.private_server import ConfiguredRedis
from tests.servers import RedisServer

DEAD, NORMAL = "jobqueue:dead_letter", "jobqueue:normal_priority"


@asynccontextmanager
async def opened(url: str, payload_limit: int = 1_000_000) -> AsyncIterator[RedisListStore]:
    store = RedisListStore(url, payload_limit=payload_limit)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def test_entries_that_are_no_jobs_become_dead_letters_and_the_others_run(
    store: RedisListStore, raw: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    bad = ["", "{", "null", "[1]", '"x"', "{}", '{"id":7}', '{"id":""}', '{"id":"a\\u0000b"}', "\x00\xff", "x" * 10_000]
    for text in bad:
        raw.lpush(HIGH, text)
    await submit(store, priority=1)
    with caplog.at_level(logging.ERROR):
        assert len(await take(store)) == 1
    assert sorted(raw.lrange(DEAD, 0, -1)) == sorted(bad), "byte for byte, for whoever put them there"
    assert "an entry that is no job was moved to the dead-letter list" in caplog.text
    assert await store.sweeps.prune() == 0
    assert raw.llen(DEAD) == len(bad), "nobody but an operator throws them away"


async def test_without_a_list_for_dead_letters_an_entry_that_is_no_job_stays_and_is_told(
    store: RedisListStore, raw: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    """A list that is a string once more: nothing is lost between the lists, and no claim is half made."""
    raw.set(DEAD, "mine")
    first = await submit(store, priority=1)
    raw.lpush(HIGH, "no job")
    last = await submit(store, priority=1)
    with caplog.at_level(logging.ERROR):
        assert [claim.job.id for claim in await take(store)] == [first]
        assert await take(store) == []
    assert "a list is another kind of key" in caplog.text
    assert [entry == "no job" for entry in raw.lrange(HIGH, 0, -1)] == [False, True]
    assert (await store.stats()).by_state == {"running": 1, "scheduled": 1}
    behind = await submit(store, priority=4)
    assert [claim.job.id for claim in await take(store)] == [behind], "the other lists are served"
    raw.delete(DEAD)
    assert [claim.job.id for claim in await take(store)] == [last]
    assert raw.lrange(DEAD, 0, -1) == ["no job"]


async def test_a_long_line_is_claimed_from_its_front_in_order(store: RedisListStore, raw: redis.Redis) -> None:
    """What a claim took off the line and may not begin goes back to where it was."""
    ids = [submitted.job_id for submitted in await store.submit_many([job("work", max_attempts=1) for _ in range(30)])]
    front = await take(store, 4, prefetch=9, prefetch_types=("work",))
    assert [claim.job.id for claim in front] == ids[:4]
    assert [json.loads(entry)["id"] for entry in raw.lrange("jobqueue:normal_priority", 0, -1)] == ids[:3:-1]
    assert [claim.job.id for claim in await take(store)] == ids[4:]


async def test_json_of_the_wrong_kinds_is_a_dead_letter_that_says_why(store: RedisListStore, raw: redis.Redis) -> None:
    raw.lpush(HIGH, foreign("odd", filesize="large"))
    raw.lpush(HIGH, foreign("good"))
    assert [claim.job.id for claim in await take(store)] == ["good"]
    odd = await store.get("odd")
    assert (odd.state, (odd.error_document or {})["code"]) == (State.DEAD_LETTER, "unprocessable_row")


@pytest.mark.parametrize(
    "text",
    [
        b'{"id":"odd","filesize":1e400}',
        b'{"id":"odd","filesize":NaN}',
        b'{"filesize":0x10,"id":"odd"}',
        b'{"id":"odd","filepath":"one\nline"}',
        b'{"id":"odd","filepath":"\xff.wav"}',
        b'{"id":"odd","type":"\xff"}',
    ],
)
async def test_what_redis_takes_for_json_and_python_does_not_is_a_dead_letter_too(
    store: RedisListStore, raw: redis.Redis, text: bytes
) -> None:
    raw.lpush(HIGH, text)
    raw.lpush(HIGH, foreign("good"))
    assert [claim.job.id for claim in await take(store)] == ["good"]
    odd = await store.get("odd")
    assert (odd.id, odd.state) == ("odd", State.DEAD_LETTER)
    assert (raw.llen(DEAD), raw.llen("jobqueue:worker:w1:processing")) == (1, 1), "it left the hands of its worker"
    assert (await store.stats()).by_state == {"running": 1, "dead_letter": 1}


async def test_an_id_that_is_no_text_makes_its_entry_a_dead_letter(store: RedisListStore, redis_url: str) -> None:
    accented, bad = '{"id":"\u00fc\u20ac\U0001d11e"}'.encode(), b'{"id":"\xed\xa0\x80"}'
    with redis.Redis.from_url(redis_url) as raw:
        raw.lpush(HIGH, bad, b'{"id":"\xff"}', accented)
        assert [claim.job.id for claim in await take(store)] == ["\u00fc\u20ac\U0001d11e"]
        assert raw.lrange(DEAD, 0, -1) == [b'{"id":"\xff"}', bad]


async def test_a_job_without_an_origin_keeps_the_list_it_was_found_in(store: RedisListStore, raw: redis.Redis) -> None:
    raw.lpush(HIGH, foreign("a"))
    claim = await take_one(store)
    await store.settle([])
    raw.delete("worker:hb:w1")
    assert (await store.sweeps.recover()).reclaimed == 1
    assert raw.hget("jobqueue:job:a", "list") == HIGH
    assert (await complete(store, claim)).accepted is False


async def test_a_second_copy_of_an_entry_runs_nothing_twice(store: RedisListStore, raw: redis.Redis) -> None:
    await submit(store, priority=1)
    text = str(raw.lindex(HIGH, 0))
    raw.lpush(HIGH, text, text)
    claims = await take(store)
    assert len(claims) == 1
    await complete(store, claims[0])
    raw.lpush(HIGH, text)
    assert await take(store) == []


async def test_a_record_that_is_no_record_makes_its_entry_a_dead_letter(
    store: RedisListStore, raw: redis.Redis
) -> None:
    job_id = await submit(store, priority=1)
    other = await submit(store, priority=1)
    raw.set(f"jobqueue:job:{job_id}", "text")
    assert [claim.job.id for claim in await take(store)] == [other]
    assert json.loads(str(raw.lindex(DEAD, 0)))["id"] == job_id


async def test_a_payload_of_sixteen_megabytes_goes_through(redis_url: str) -> None:
    payload = b'"' + b"x" * (PAYLOAD_CEILING - 2) + b'"'
    async with opened(redis_url, PAYLOAD_CEILING) as store:
        await store.submit(Submission(type="big", payload=payload))
        claim = await take_one(store)
        assert claim.job.payload == payload
        await complete(store, claim, payload[:900_000] + b'"')
        assert (await store.get(claim.job.id)).payload == payload


async def test_a_list_that_is_a_string_is_named_and_the_other_lists_are_served(
    store: RedisListStore, raw: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    await submit(store)
    raw.set(HIGH, "text")
    with pytest.raises(StoreUnavailable, match=f"{HIGH} holds a string and not a list: another program uses it"):
        await submit(store, priority=1)
    with pytest.raises(StoreUnavailable, match=HIGH):
        await store.submit_many([Submission(type="a"), Submission(type="b", priority=1)])
    assert raw.llen(NORMAL) == 1, "of a batch nothing is stored"
    with caplog.at_level(logging.ERROR):
        assert len(await take(store)) == 1
    assert "a list is another kind of key" in caplog.text


@pytest.mark.parametrize(
    ("name", "act"), [("jobqueue:completed", complete), (DEAD, fail)], ids=["completed", "dead letters"]
)
async def test_an_end_that_has_no_list_to_go_to_changes_nothing_until_it_has(
    store: RedisListStore, raw: redis.Redis, name: str, act: object
) -> None:
    assert callable(act)
    await submit(store, max_attempts=1)
    claim = await take_one(store)
    raw.set(name, "text")
    with pytest.raises(StoreUnavailable, match=f"{name} holds a string"):
        await act(store, claim)
    assert (await store.get(claim.job.id)).state is State.RUNNING
    assert raw.llen("jobqueue:worker:w1:processing") == 1
    raw.delete(name)
    assert (await act(store, claim)).accepted


async def test_a_processing_list_that_is_a_string_takes_no_job(store: RedisListStore, raw: redis.Redis) -> None:
    await submit(store)
    raw.set("jobqueue:worker:w1:processing", "text")
    with pytest.raises(StoreUnavailable, match="worker:w1:processing holds a string"):
        await take(store)
    assert raw.llen(NORMAL) == 1


async def test_scripts_that_redis_has_forgotten_are_sent_again() -> None:
    with RedisServer() as server, redis.Redis.from_url(server.url) as raw:
        async with opened(server.url) as store:
            await submit(store)
            raw.script_flush()
            assert (await complete(store, await take_one(store))).accepted


async def test_a_redis_that_is_full_or_read_only_refuses_whole_writes(caplog: pytest.LogCaptureFixture) -> None:
    with (
        ConfiguredRedis(maxmemory_policy="allkeys-lru") as server,
        redis.Redis.from_url(server.url) as raw,
        caplog.at_level(logging.WARNING),
    ):
        async with opened(server.url) as store:
            assert "set its maxmemory-policy to noeviction" in caplog.text
            await submit(store)
            raw.config_set("maxmemory-policy", "noeviction")
            raw.config_set("maxmemory", "1")
            with pytest.raises(StoreUnavailable, match="out of memory"):
                await submit(store)
            with pytest.raises(StoreUnavailable, match="out of memory"):
                await take(store)
            raw.config_set("maxmemory", "0")
            raw.execute_command("REPLICAOF", "127.0.0.1", "1")
            with pytest.raises(StoreUnavailable, match="read-only"):
                await take(store)
            raw.execute_command("REPLICAOF", "NO", "ONE")
            assert len(await take(store)) == 1, "what was refused left nothing behind"


async def test_a_cluster_is_refused_in_words() -> None:
    with (
        ConfiguredRedis(cluster_enabled="yes", databases="1") as server,
        pytest.raises(EuterpeError, match="Redis Cluster, which the redis:// engine does not support"),
    ):
        await RedisListStore(server.url).open()


def test_errors_of_redis_say_what_they_mean_for_the_caller() -> None:
    assert isinstance(unavailable(BusyLoadingError("LOADING"), wrote=True), ServerNotReady)
    assert unavailable(OutOfMemoryError("OOM"), wrote=True).args[0].startswith("Redis is out of memory")
    assert isinstance(unavailable(redis.ConnectionError("Connection closed"), wrote=True), CommitUnknown)
    assert not isinstance(unavailable(redis.ConnectionError("Connection closed"), wrote=False), CommitUnknown)


async def test_a_redis_that_is_not_there_is_an_outage_by_name() -> None:
    with pytest.raises(ServerNotReady, match="Redis cannot be reached"):
        await RedisListStore("redis://127.0.0.1:1/0").open()
