"""What stands in the lists: the job of the fifth document, field for field, ours and other programs'."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import pytest
import redis

from euterpe import Queue
from euterpe.model.claims.exchange import ClaimRequest
from euterpe.model.errors import InvalidInput, StaleLease
from euterpe.model.state import State
from euterpe.model.submitting.submission import Submission
from euterpe.stores.redis_lists.entry import EntryTemplate, entry_of
from euterpe.stores.redis_lists.settings import ListSettings, settings_from, with_settings
from euterpe.stores.redis_lists.store import RedisListStore
from tests.conformance.acts import complete, end, fail, failure, submit, take, take_one
from tests.conformance.clock import FrozenClock
from tests.redis_lists.foreign import HIGH, LOW, foreign

RFC3339_NANO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,8}[1-9])?Z")


async def test_an_entry_has_the_fields_of_the_document_and_its_origin(store: RedisListStore, raw: redis.Redis) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    payload = msgspec.json.encode({"filepath": "/in/a.wav", "filesize": 9, "priority": "high"})
    job_id = (
        await store.submit(Submission(type="process_file", payload=payload, priority=1, tags={"traceparent": trace}))
    ).job_id
    (text,) = raw.lrange(HIGH, 0, -1)
    said = json.loads(text)
    assert list(said)[:8] == [
        "id", "filepath", "filesize", "priority", "retries", "creation_time", "trace_id", "span_id",
    ]  # fmt: skip
    assert (said["id"], said["filepath"], said["filesize"], said["retries"]) == (job_id, "/in/a.wav", 9, 0)
    assert (said["priority"], said["origin_queue"]) == ("high", HIGH)
    assert (said["trace_id"], said["span_id"]) == tuple(trace.split("-")[1:3])
    assert RFC3339_NANO.fullmatch(said["creation_time"])


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"correlation_id": '"creation_time":"', "tags": {"a": '"}', "é": "\n"}, "max_attempts": 1, "requester_id": "r"},
        {"queue": "mail", "priority": 0, "payload_format": "bytes", "replay_of": "x"},
    ],
)
def test_an_entry_from_a_template_is_the_same(said: dict[str, Any]) -> None:
    submission = Submission(type="work", payload=b'{"n":1}', **said)
    template = EntryTemplate(submission, "list", "high")
    job_id, at = "6f1b2c3d-0000-4000-8000-000000000001", "2026-11-17T20:00:00.5Z"
    whole = entry_of(job_id, submission, "list", "high", at, None)
    assert template.entry_of(job_id, b'{"n":1}', at) == whole
    assert template.entry_of(job_id, b'{"filepath":"/a"}', at) is None


async def test_the_jobs_of_a_type_have_the_same_entries_however_many_came_before(
    redis_url: str, raw: redis.Redis
) -> None:
    """From the second on, what they have in common is remembered."""
    queue = Queue(redis_url)

    @queue.job("process_file", priority="high")
    async def process_file(filepath: str, filesize: int) -> None: ...

    @queue.job("count", priority="high", timeout="3m")
    async def count(number: int) -> None: ...

    async with queue:
        for number in range(4):
            await process_file.submit(filepath=f"/in/{number}", filesize=number)
            await count.submit(number=number)
        for number in range(3):
            await count.submit(number=number)
            await count.options(correlation_id=f"c{number}").submit(number=number)
    entries = [json.loads(text) for text in reversed(raw.lrange(HIGH, 0, -1))]
    assert raw.hget(f"jobqueue:job:{entries[-1]['id']}", "timeout_us") == "180000000"
    files = [entry for entry in entries if entry["type"] == "process_file"]
    assert [(entry["filepath"], entry["filesize"]) for entry in files] == [(f"/in/{n}", n) for n in range(4)]
    others = [entry for entry in entries if entry["type"] == "count"]
    assert [entry.pop("correlation_id", None) for entry in others[4:]] == [None, "c0", None, "c1", None, "c2"]
    assert len({entry.pop("id") for entry in others}) == len(others) == 10
    assert all(RFC3339_NANO.fullmatch(entry.pop("creation_time")) for entry in others)
    assert others == [others[0]] * 10


async def test_a_job_goes_through_the_lists_of_the_document(store: RedisListStore, raw: redis.Redis) -> None:
    await submit(store, priority=1)
    processing = "jobqueue:worker:w1:processing"
    claim = await take_one(store)
    assert (raw.llen(HIGH), raw.llen(processing), raw.exists("worker:hb:w1")) == (0, 1, 1)
    assert raw.pttl("worker:hb:w1") > 0
    await complete(store, claim)
    assert (raw.llen(processing), raw.llen("jobqueue:completed"), raw.exists("worker:hb:w1")) == (0, 1, 0)


async def test_a_failure_counts_its_retries_in_the_entry_and_waits_outside_the_lists(
    store: RedisListStore, raw: redis.Redis, clock: FrozenClock
) -> None:
    job_id = await submit(store, priority=3, max_attempts=2)
    await fail(store, await take_one(store))
    assert raw.llen(LOW) == 0
    assert raw.zscore("jobqueue:due", job_id) == clock() + 1_000_000
    clock.advance(seconds=1)
    await store.sweeps.promote()
    assert json.loads(raw.lrange(LOW, 0, -1)[0])["retries"] == 1
    await fail(store, await take_one(store))
    assert (raw.llen(LOW), raw.llen("jobqueue:dead_letter")) == (0, 1)


async def test_another_programs_job_runs_with_the_configured_retries(
    redis_url: str, raw: redis.Redis, clock: FrozenClock
) -> None:
    store = RedisListStore(f"{redis_url}?max_retries=2&backoff_base=10s&backoff_max=15s", clock=clock)
    await store.open()
    raw.lpush(HIGH, foreign(job_id="file-7"))
    delays = []
    for _ in range(3):
        claim = await take_one(store)
        assert (claim.job.id, claim.job.type, claim.job.queue) == ("file-7", "process_file", HIGH)
        assert json.loads(claim.job.payload) == {"filepath": "/in/a.wav", "filesize": 12, "priority": "high"}
        assert claim.job.tags == {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
        (result,) = [await end(store, claim, failure())]
        delays.append(result.delay_us)
        clock.advance(us=result.delay_us)
        await store.sweeps.promote()
    assert delays == [10_000_000, 15_000_000, 0], "min(base * 2^(n-1), max), then the dead letter"
    assert (await store.get("file-7")).state is State.DEAD_LETTER
    assert raw.llen("jobqueue:dead_letter") == 1
    await store.close()


async def test_a_dead_letter_that_is_moved_back_by_hand_starts_anew(store: RedisListStore, raw: redis.Redis) -> None:
    job_id = await submit(store, priority=1, max_attempts=1)
    await fail(store, await take_one(store))
    raw.rpoplpush("jobqueue:dead_letter", HIGH)
    again = await take_one(store)
    assert (again.job.id, again.job.attempt_count, again.job.claim_version) == (job_id, 1, 2)
    await complete(store, again)
    assert (raw.llen("jobqueue:dead_letter"), raw.llen("jobqueue:completed")) == (0, 1)
    assert (await store.stats()).by_state == {"completed": 1}


async def test_priorities_are_fetched_in_their_order_and_others_between_them(
    store: RedisListStore, raw: redis.Redis
) -> None:
    for level in (4, 3, 2, 1, 0):
        await submit(store, f"level{level}", priority=level)
    raw.lpush(HIGH, foreign())
    assert [claim.job.type for claim in await take(store)] == [
        "level0", "level1", "process_file", "level2", "level3", "level4",
    ]  # fmt: skip


def test_a_priority_with_a_list_that_this_worker_does_not_fetch_is_left_alone() -> None:
    settings = ListSettings(priorities=("urgent", "high"), lists={"urgent": "u", "high": "h", "low": "l"})
    assert settings.lists_of("default") == (
        "u", "jobqueue:critical_priority", "h", "jobqueue:normal_priority", "jobqueue:bulk_priority",
    )  # fmt: skip


async def test_every_name_can_be_configured(redis_url: str, raw: redis.Redis) -> None:
    settings = ListSettings(
        priorities=("high", "low"),
        lists={"high": "in:fast", "low": "in:slow"},
        processing_list_pattern="busy:%s:now",
        heartbeat_key_pattern="alive/%s",
        completed_list="out:done",
        dead_letter_list="out:dead",
        brpoplpush_timeout_us=250_000,
        max_retries=1,
    )
    url = with_settings(redis_url, settings)
    assert settings_from(url) == (redis_url, settings), "another process reads the same out of the URL"
    store = RedisListStore(url)
    await store.open()
    await submit(store, priority=1)
    bad = await submit(store, "bad", priority=3, max_attempts=1)
    claims = await take(store, worker_id="w9")
    assert (raw.llen("busy:w9:now"), raw.exists("alive/w9"), len(claims)) == (2, 1, 2)
    await complete(store, claims[0])
    await fail(store, claims[1])
    assert (raw.llen("out:done"), raw.llen("out:dead"), (await store.get(bad)).state) == (1, 1, State.DEAD_LETTER)
    await store.close()


@pytest.mark.parametrize(
    "query",
    ["prefix=", "processing_list_pattern=x", "heartbeat_key_pattern=%25s%25s", "max_retries=x", "priorities=odd"],
)
def test_a_wrong_option_of_the_url_is_named(query: str) -> None:
    with pytest.raises(InvalidInput, match=query.partition("=")[0]):
        RedisListStore(f"redis://127.0.0.1/0?{query}")


async def test_installations_with_prefixes_of_their_own_share_a_database(redis_url: str) -> None:
    stores = [RedisListStore(f"{redis_url}?prefix={name}") for name in ("shop", "mail")]
    for one in stores:
        await one.open()
    await submit(stores[0])
    assert (len(await take(stores[1])), len(await take(stores[0]))) == (0, 1)
    for one in stores:
        await one.close()


async def test_a_worker_that_does_not_know_a_type_sets_its_jobs_aside_for_one_that_does(
    store: RedisListStore, raw: redis.Redis
) -> None:
    for _ in range(3):
        await submit(store, "strange", priority=1)
    await submit(store, "known", priority=1)
    assert [c.job.type for c in await take(store, types=("known",))] == ["known"]
    assert (await store.unknown_types(["default"], ["known"])) == {"strange": 3}
    depths = {(d.queue, d.state): d.count for d in await store.depths()}
    assert depths[HIGH, State.SCHEDULED] == 3, "they wait, and are counted"
    assert len(await take(store, types=("strange",), worker_id="w2")) == 3
    assert raw.exists("jobqueue:aside") == 0


async def test_a_job_behind_thousands_of_unknown_ones_is_found(store: RedisListStore, raw: redis.Redis) -> None:
    await store.submit_many([Submission(type="strange")] * 2_500)
    await submit(store, "known")
    assert [c.job.type for c in await take(store, types=("known",))] == ["known"]
    assert raw.llen("jobqueue:normal_priority:type:strange") == 2_500


async def test_children_are_stored_while_the_parent_runs_and_never_after(store: RedisListStore) -> None:
    await submit(store, "parent")
    parent = await take_one(store)
    (child,) = await store.spawn(parent.lease, [Submission(type="child")])
    assert (await store.get(child.job_id)).parent_id == parent.job.id
    await complete(store, parent)
    with pytest.raises(StaleLease):
        await store.spawn(parent.lease, [Submission(type="child")])
    assert [c.job.type for c in await store.claim(ClaimRequest(worker_id="w", limit=9))] == ["child"]


async def test_a_job_of_another_program_is_found_by_the_id_that_it_chose(
    store: RedisListStore, raw: redis.Redis
) -> None:
    shouted = "550E8400-E29B-41D4-A716-446655440000"
    for job_id in ("job 7/a", shouted):
        raw.lpush(HIGH, foreign(job_id))
    assert {claim.job.id for claim in await take(store)} == {"job 7/a", shouted}
    assert [(await store.get(job_id)).id for job_id in ("job 7/a", shouted)] == ["job 7/a", shouted]
    assert await store.cancel(shouted, force=True) is State.CANCELLED
