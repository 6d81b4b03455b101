"""A submission as stored: its id, defaults, metadata of 003 section 10, and payloads that come back byte for byte."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import msgspec
import pytest

from euterpe.model.errors import InvalidInput, PayloadTooLarge
from euterpe.model.failures.backoff import Backoff, Strategy
from euterpe.model.failures.retry import RetryPolicy
from euterpe.model.job import Claim
from euterpe.model.reading.document import rfc3339
from euterpe.model.state import TRANSCODE_STAGES, State
from euterpe.model.submitting.submission import PAYLOAD_CEILING, PAYLOAD_LIMIT, Submission
from euterpe.ports import Capability
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import CALLBACK, DAY, MINUTE, SECOND, complete, fail, job, state_of, submit, take, take_one
from tests.conformance.clock import FrozenClock
from tests.conformance.engines import Opened, Tables, row_counts
from tests.conformance.needs import TABLES, needs


async def test_the_system_gives_every_job_a_version_4_uuid(store: SqlStore) -> None:
    ids = [r.job_id for r in await store.submit_many([job() for _ in range(50)])] + [await submit(store)]
    for job_id in ids:
        parsed = uuid.UUID(job_id)
        assert (parsed.version, parsed.variant, str(parsed)) == (4, uuid.RFC_4122, job_id)
    assert len(set(ids)) == 51
    assert len({job_id[:8] for job_id in ids}) == 51, "the first bits are no clock"


@needs(Capability.WHOLE_JOBS)
async def test_an_unadorned_submission_has_the_defaults_of_the_model(store: SqlStore, clock: FrozenClock) -> None:
    stored = await store.get((await store.submit(Submission(type="t"))).job_id)
    assert (stored.requester_id, stored.queue, stored.type, stored.priority) == ("local", "default", "t", 2)
    assert (stored.max_attempts, stored.attempt_count, stored.release_count) == (3, 0, 0)
    assert (stored.execution_timeout_us, stored.visibility_us) == (30 * MINUTE, 5 * MINUTE)
    assert stored.expires_at == clock.now_us + 7 * DAY
    assert stored.created_at == stored.updated_at == stored.scheduled_at == stored.run_at == clock.now_us
    assert (stored.started_at, stored.completed_at, stored.result, stored.error) == (None, None, None, None)
    assert (stored.tags, stored.stages, stored.retry) == ({}, ("claimed",), RetryPolicy())
    assert (stored.state, stored.status) == (State.SCHEDULED, "queued")


@needs(Capability.ANY_REQUESTER)
@needs(Capability.OUTBOX, Capability.CONCURRENCY_KEYS)
async def test_everything_said_is_stored_and_read_back(store: SqlStore, clock: FrozenClock) -> None:
    retry = RetryPolicy(Backoff(Strategy.LINEAR, 2 * SECOND, 9 * SECOND, jitter=0.5), on_timeout=False, on_system=False)
    stored = await store.get(
        await submit(
            store,
            "report.render",
            payload=b'{"n": 1}',
            requester_id="alice",
            queue="reports",
            priority=4,
            delay_us=MINUTE,
            max_attempts=9,
            execution_timeout_us=3 * SECOND,
            visibility_us=4 * SECOND,
            lifetime_us=5 * DAY,
            retry=retry,
            stages=TRANSCODE_STAGES,
            correlation_id="trace/\u00e9\U0001f600",
            tags={"team": "a", "ключ": "значение", 'quo"te': "back\\slash"},
            callback_url=CALLBACK,
            callback_events="terminal",
            concurrency_key="k",
            concurrency_limit=7,
        )
    )
    assert (stored.type, stored.payload, stored.requester_id, stored.queue) == (
        "report.render",
        b'{"n": 1}',
        "alice",
        "reports",
    )
    assert (stored.priority, stored.max_attempts, stored.run_at) == (4, 9, clock.now_us + MINUTE)
    assert (stored.execution_timeout_us, stored.visibility_us) == (3 * SECOND, 4 * SECOND)
    assert stored.expires_at == clock.now_us + 5 * DAY
    assert (stored.retry, stored.stages) == (retry, TRANSCODE_STAGES)
    assert stored.correlation_id == "trace/\u00e9\U0001f600"
    assert stored.tags == {"team": "a", "ключ": "значение", 'quo"te': "back\\slash"}
    assert (stored.callback_url, stored.callback_events) == (CALLBACK, "terminal")
    assert (stored.concurrency_key, stored.concurrency_limit) == ("k", 7)
    assert stored.state is State.DELAYED


@pytest.mark.parametrize("delay_us", [0, MINUTE])
@pytest.mark.parametrize(
    "keyed", [{}, {"concurrency_key": "k", "concurrency_limit": 7}], ids=["without a key", "keyed"]
)
@needs(Capability.OUTBOX)
async def test_however_it_was_submitted_a_job_is_stored_the_same(
    store: SqlStore, delay_us: int, keyed: dict[str, Any]
) -> None:
    """Alone, among its like, and among others: three statements that must say the same. With a key it is one."""
    same = Submission(
        type="render",
        payload=b'{"text": "\xc3\xa9"}',
        delay_us=delay_us,
        priority=1,
        max_attempts=9,
        execution_timeout_us=3 * SECOND,
        visibility_us=4 * SECOND,
        lifetime_us=5 * DAY,
        retry=RetryPolicy(Backoff(Strategy.LINEAR, 2 * SECOND, 9 * SECOND, jitter=0.5)),
        stages=TRANSCODE_STAGES,
        correlation_id="trace",
        tags={"team": "a"},
        callback_url=CALLBACK,
        callback_events="terminal",
        **keyed,
    )
    alone = await store.submit(same)
    _, among_its_like = await store.submit_many([same.with_payload(b"[]"), same])
    _, among_others = await store.submit_many([Submission(type="other"), same])
    stored = [await store.get(submitted.job_id) for submitted in (alone, among_its_like, among_others)]
    first, *others = [msgspec.structs.replace(job, id="", seq=0) for job in stored]
    assert others == [first, first]
    assert {(r.state, r.created_at, r.priority) for r in (alone, among_its_like, among_others)} == {
        (first.state, rfc3339(first.created_at), "high")
    }


@pytest.mark.parametrize("payloads", [[b"", b"{}"], [b"\xff\x00", b""], [b'"\\u0000"', b"\x00"]])
async def test_payloads_of_a_batch_come_back_byte_for_byte(store: SqlStore, payloads: list[bytes]) -> None:
    submit_results = await store.submit_many(
        [Submission(type="t", payload=p, payload_format="bytes") for p in payloads]
    )
    assert [(await store.get(submitted.job_id)).payload for submitted in submit_results] == payloads


async def test_the_timestamps_of_a_job_tell_its_story(store: SqlStore, clock: FrozenClock) -> None:
    created = clock.now_us
    job_id = await submit(store, delay_us=MINUTE)
    scheduled = clock.advance(minutes=1)
    await store.sweeps.promote()
    started = clock.advance(seconds=1)
    claim = await take_one(store)
    ended = clock.advance(seconds=2)
    await complete(store, claim)
    stored = await store.get(job_id)
    assert (stored.created_at, stored.scheduled_at, stored.started_at, stored.completed_at, stored.updated_at) == (
        created,
        scheduled,
        started,
        ended,
        ended,
    )


async def test_started_at_is_the_current_attempts(store: SqlStore, clock: FrozenClock) -> None:
    await fail(store, await _claimed(store))
    clock.advance(minutes=1)
    await store.sweeps.promote()
    assert (await take_one(store)).job.started_at == clock.now_us


async def _claimed(store: SqlStore) -> Claim:
    await submit(store)
    return await take_one(store)


async def test_the_submit_result_says_what_was_stored(store: SqlStore) -> None:
    submitted = await store.submit(job("t", queue="q", priority=1, correlation_id="c"))
    assert (submitted.type, submitted.queue, submitted.state, submitted.priority) == ("t", "q", "scheduled", "high")
    assert (submitted.created_at, submitted.correlation_id, submitted.replayed) == (
        "2026-01-01T00:00:00.000000Z",
        "c",
        False,
    )


async def test_many_single_submits_at_once_are_all_stored_in_order_of_arrival(store: SqlStore, tables: Tables) -> None:
    submit_results = await asyncio.gather(*(store.submit(job(f"t{i}")) for i in range(200)))
    assert len({r.job_id for r in submit_results}) == 200
    assert [r.type for r in submit_results] == [f"t{i}" for i in range(200)]
    assert [c.job.type for c in await take(store, 200)] == [f"t{i}" for i in range(200)]


async def test_a_cancelled_submitter_does_not_take_its_neighbours_along(store: SqlStore) -> None:
    tasks = [asyncio.create_task(store.submit(job(f"t{i}"))) for i in range(20)]
    await asyncio.sleep(0)
    tasks[7].cancel()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert sum(isinstance(a, asyncio.CancelledError) for a in answers) == 1
    assert len([a for a in answers if not isinstance(a, BaseException)]) == 19
    assert await submit(store)


# --- payloads ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "payload", [b"", b"\x00", bytes(range(256)), b"\xff\xfe", "\U0001f600".encode(), b"null"], ids=repr
)
async def test_a_binary_payload_comes_back_byte_for_byte(store: SqlStore, payload: bytes) -> None:
    job_id = await submit(store, payload=payload, payload_format="bytes")
    claim = await take_one(store)
    assert (claim.job.payload, claim.job.payload_format) == (payload, "bytes")
    assert (await store.get(job_id)).payload == payload


async def test_a_payload_of_exactly_the_limit_is_stored_and_one_byte_more_is_not(
    store: SqlStore, tables: Tables
) -> None:
    await submit(store, payload=b"x" * PAYLOAD_LIMIT, payload_format="bytes")
    before = await row_counts(tables)
    with pytest.raises(PayloadTooLarge) as refused:
        await submit(store, payload=b"x" * (PAYLOAD_LIMIT + 1), payload_format="bytes")
    assert refused.value.field == "payload"
    assert str(PAYLOAD_LIMIT) in str(refused.value)
    assert await row_counts(tables) == before


@needs(TABLES)
async def test_the_payload_limit_can_be_raised_to_sixteen_megabytes(subject: Opened) -> None:
    store = SqlStore(subject.store.engine, payload_limit=PAYLOAD_CEILING)
    payload = b"\x00\x01" * (PAYLOAD_CEILING // 2)
    job_id = (await store.submit(job(payload=payload, payload_format="bytes"))).job_id
    assert (await store.get(job_id)).payload == payload
    with pytest.raises(PayloadTooLarge):
        await store.submit(job(payload=payload + b"x", payload_format="bytes"))


@pytest.mark.parametrize("limit", [0, -1, PAYLOAD_CEILING + 1])
@needs(TABLES)
async def test_no_other_payload_limit_can_be_set(subject: Opened, limit: int) -> None:
    from euterpe.model.errors import InvalidInput

    with pytest.raises(InvalidInput) as refused:
        SqlStore(subject.store.engine, payload_limit=limit)
    assert refused.value.field == "payload_limit"


async def test_a_payload_never_changes(store: SqlStore, clock: FrozenClock) -> None:
    job_id = await submit(store, payload=b'{"a": 1}')
    await fail(store, await take_one(store))
    clock.advance(minutes=1)
    await store.sweeps.promote()
    await complete(store, await take_one(store), b"2")
    assert (await store.get(job_id)).payload == b'{"a": 1}'


@pytest.mark.parametrize("key", [None, "k"])
async def test_a_run_at_beyond_the_lifetime_is_refused_by_the_clock_of_the_database(
    store: SqlStore, clock: FrozenClock, tables: Tables, key: str | None
) -> None:
    before = await row_counts(tables)
    with pytest.raises(InvalidInput) as refused:
        await submit(store, run_at=clock.now_us + DAY, lifetime_us=DAY, idempotency_key=key)
    assert refused.value.field == "run_at"
    assert await row_counts(tables) == before
    soon = await submit(store, run_at=clock.now_us + DAY - 1, lifetime_us=DAY, idempotency_key=key)
    assert await state_of(store, soon) is State.DELAYED
