"""Claim: exclusive, atomic, and all the fields of 000 section 4 in one write."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from euterpe.model.claims.exchange import ClaimRequest, ProgressUpdate, Report
from euterpe.model.claims.outcome import Released, Success
from euterpe.model.state import State
from euterpe.ports import Capability
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import CALLBACK, MINUTE, SECOND, complete, fail, job, release, submit, take, take_one, taken
from tests.conformance.clock import FrozenClock
from tests.conformance.engines import Opened
from tests.conformance.needs import TABLES, needs


async def test_a_claimed_job_is_not_given_to_a_second_claimer(store: SqlStore) -> None:
    await submit(store)
    assert len(await take(store)) == 1
    assert await take(store, worker_id="w2") == []


async def test_claims_made_at_once_never_share_a_job(store: SqlStore) -> None:
    ids = {submitted.job_id for submitted in await store.submit_many([job() for _ in range(60)])}
    seen: Counter[str] = Counter()
    # A second time, if claims that others held up for long have come back empty.
    for _ in range(2):
        batches = await asyncio.gather(*(take(store, 7, worker_id=f"w{i}") for i in range(12)))
        seen.update(claim.job.id for batch in batches for claim in batch)
    assert set(seen) == ids
    assert set(seen.values()) == {1}


async def test_claims_of_two_stores_on_the_same_data_never_share_a_job(subject: Opened) -> None:
    await subject.store.submit_many([job() for _ in range(40)])
    seen: Counter[str] = Counter()
    async with subject.another() as other:
        for _ in range(2):
            batches = await asyncio.gather(
                *(take(s, 5, worker_id=f"w{i}") for i in range(5) for s in (subject.store, other))
            )
            seen.update(claim.job.id for batch in batches for claim in batch)
    assert len(seen) == 40
    assert set(seen.values()) == {1}


@needs(Capability.WHOLE_JOBS)
async def test_a_claim_sets_every_field_of_the_contract(store: SqlStore, clock: FrozenClock) -> None:
    job_id = await submit(store)
    claimed_at = clock.advance(seconds=5)
    claim = await take_one(store, worker_id="pod-1:abc", lease_ttl_us=60 * SECOND)
    stored = await store.get(job_id)
    assert claim.job == stored
    assert (stored.worker_id, stored.state, stored.stage, stored.status) == (
        "pod-1:abc",
        State.RUNNING,
        "claimed",
        "claimed",
    )
    assert stored.lease_expires_at == claimed_at + 60 * SECOND
    assert stored.heartbeat_at == stored.started_at == stored.updated_at == claimed_at
    assert (stored.claim_version, stored.attempt_count) == (1, 1)
    assert (claim.lease.job_id, claim.lease.claim_version) == (job_id, 1)
    assert claim.lease.expires_at == stored.lease_expires_at
    assert claim.lease.attempt_id == stored.attempt_id == f"{job_id}:1"


async def test_a_claim_of_jobs_of_a_batch_sets_every_field_of_the_contract(store: SqlStore, clock: FrozenClock) -> None:
    """Also where a batch is stored and claimed together."""
    submitted = await store.submit_many([job("t") for _ in range(3)])
    claimed_at = clock.advance(seconds=5)
    claims = await store.claim(ClaimRequest(worker_id="pod-1:abc", limit=3, lease_ttl_us=60 * SECOND))
    assert [claim.job.id for claim in claims] == [each.job_id for each in submitted]
    for claim in claims:
        stored = await store.get(claim.job.id)
        assert (stored.worker_id, stored.state, stored.stage) == ("pod-1:abc", State.RUNNING, "claimed")
        assert (stored.lease_expires_at, stored.heartbeat_at) == (claimed_at + 60 * SECOND, claimed_at)
        assert (stored.claim_version, stored.attempt_count, claim.lease.claim_version) == (1, 1, 1)


SAID: dict[str, dict[str, Any]] = {
    "nothing": {},
    "bytes": {"payload": b"\xff\x00", "payload_format": "bytes"},
    "empty": {"payload": b"", "payload_format": "bytes"},
    "large": {"payload": b'"' + b"x" * 9_000 + b'"'},
    "requester": {"requester_id": "ada"},
    "urgent": {"priority": 0},
    "times": {"execution_timeout_us": 7 * SECOND, "visibility_us": 9 * SECOND, "lifetime_us": 60 * MINUTE},
    "attempts": {"max_attempts": 7},
    "stages": {"stages": ("claimed", "mixing")},
    "tags": {"tags": {"a": "b"}},
    "correlation": {"correlation_id": "c1"},
    "callback": {"callback_url": CALLBACK},
    "events": {"callback_events": "terminal"},
    "key": {"idempotency_key": "k1"},
    "concurrency": {"concurrency_key": "c", "concurrency_limit": 3},
}


@needs(TABLES, Capability.WHOLE_JOBS)
@pytest.mark.parametrize("said", SAID.values(), ids=SAID)
async def test_a_claim_brings_a_job_as_it_is_stored_alone_and_among_others(
    store: SqlStore, said: dict[str, Any]
) -> None:
    alone = await submit(store, **said)
    assert (await take_one(store)).job == await store.get(alone)
    for more in ({}, said):
        # A key of its own: an idempotency key stands for one job.
        await submit(store, **{name: "k2" if name == "idempotency_key" else value for name, value in more.items()})
    claims = await take(store)
    assert [claim.job for claim in claims] == [await store.get(claim.job.id) for claim in claims]
    assert len(claims) == 2


@needs(TABLES, Capability.WHOLE_JOBS, Capability.DEPENDENCIES)
@pytest.mark.parametrize("count", [1, 3])
async def test_a_claim_brings_a_dependent_as_it_is_stored_with_what_it_waited_for(
    store: SqlStore, clock: FrozenClock, count: int
) -> None:
    before = tuple([await submit(store, priority=1) for _ in range(count)])
    between = await submit(store, depends_on=before)
    last = await submit(store, depends_on=(between,))
    for job_id in (*before, between, last):
        clock.advance(seconds=1)
        claim = await take_one(store)
        assert claim.job.id == job_id
        assert claim.job == await store.get(job_id)
        if job_id == between:
            assert claim.job.depends_on == before
        await complete(store, claim)


@needs(TABLES, Capability.WHOLE_JOBS)
async def test_a_claim_brings_neighbours_of_several_kinds_as_they_are_stored(store: SqlStore) -> None:
    for number, max_attempts in enumerate((3, 3, 7, 7, 3)):
        await submit(store, payload=b"%d" % number, max_attempts=max_attempts)
    for number, key in enumerate(("a", "b", None, "a"), 5):
        await submit(store, payload=b"%d" % number, concurrency_key=key, concurrency_limit=None if key is None else 2)
    claims = await take(store)
    assert [claim.job for claim in claims] == [await store.get(claim.job.id) for claim in claims]
    assert [claim.job.payload for claim in claims] == [b"%d" % number for number in range(9)]


@needs(TABLES, Capability.WHOLE_JOBS)
async def test_a_claim_brings_a_job_with_dependents_or_a_past_as_it_is_stored(
    store: SqlStore, clock: FrozenClock
) -> None:
    first = await submit(store, max_attempts=5)
    second = await submit(store, depends_on=(first,))
    claim = await take_one(store)
    assert claim.job == await store.get(first)
    assert claim.job.has_dependents
    await release(store, claim)
    claim = await take_one(store)
    assert claim.job == await store.get(first)
    await fail(store, claim)
    clock.advance(minutes=1)
    await store.sweeps.promote()
    claim = await take_one(store)
    assert claim.job == await store.get(first)
    await complete(store, claim)
    assert (await take_one(store)).job == await store.get(second)


async def test_every_claim_takes_a_new_version_and_charges_an_attempt(store: SqlStore, clock: FrozenClock) -> None:
    claim = await taken(store, max_attempts=5)
    for version in (2, 3, 4):
        await fail(store, claim)
        clock.advance(minutes=1)
        await store.sweeps.promote()
        claim = await take_one(store)
        assert (claim.job.claim_version, claim.job.attempt_count) == (version, version)


async def test_a_release_gives_the_attempt_back_but_never_the_version(store: SqlStore) -> None:
    await release(store, await taken(store))
    again = await take_one(store)
    assert (again.job.claim_version, again.job.attempt_count) == (2, 1)


async def test_a_claim_takes_no_more_than_its_limit(store: SqlStore) -> None:
    await store.submit_many([job() for _ in range(10)])
    assert len(await take(store, 3)) == 3
    assert len(await take(store, 100)) == 7
    assert await take(store, 100) == []


async def test_a_claim_for_nothing_takes_nothing(store: SqlStore) -> None:
    job_id = await submit(store)
    assert await take(store, 0) == []
    assert await take(store, queues=()) == []
    assert await take(store, types=()) == []
    assert (await store.get(job_id)).state is State.SCHEDULED


@needs(Capability.DEPENDENCIES)
async def test_only_scheduled_jobs_are_claimed(store: SqlStore) -> None:
    blocker = await submit(store, "blocker", delay_us=MINUTE)
    await submit(store, depends_on=(blocker,))
    await complete(store, await taken(store, "other"))
    assert await take(store) == []


async def test_a_lease_is_no_longer_than_the_jobs_visibility(store: SqlStore, clock: FrozenClock) -> None:
    short = await taken(store, "short", visibility_us=10 * SECOND)
    long = await taken(store, "long", visibility_us=5 * MINUTE)
    assert short.lease.expires_at == clock.now_us + 10 * SECOND
    assert long.lease.expires_at == clock.now_us + 60 * SECOND


@needs(Capability.CHOSEN_LEASE)
async def test_the_claimer_chooses_how_long_its_lease_is(store: SqlStore, clock: FrozenClock) -> None:
    await submit(store)
    claim = await take_one(store, lease_ttl_us=7 * SECOND)
    assert claim.lease.expires_at == clock.now_us + 7 * SECOND


async def test_a_new_attempt_starts_without_the_progress_of_the_last_one(store: SqlStore, clock: FrozenClock) -> None:
    from euterpe.model.claims.exchange import ProgressUpdate

    claim = await taken(store, stages=("claimed", "fetching"))
    await store.update_progress([ProgressUpdate(claim, stage="fetching", progress=70.0, message="nearly")])
    await fail(store, claim)
    clock.advance(minutes=1)
    await store.sweeps.promote()
    again = (await take_one(store)).job
    assert (again.stage, again.progress, again.progress_message) == ("claimed", None, None)


async def test_a_job_past_its_lifetime_is_not_claimed(store: SqlStore, clock: FrozenClock) -> None:
    await submit(store, lifetime_us=MINUTE)
    clock.advance(us=MINUTE)
    assert await take(store) == []


@needs(Capability.LARGE_BATCHES)
async def test_a_batch_too_large_for_one_answer_is_claimed_all_the_same(store: SqlStore) -> None:
    """SQLite gives a batch back in one value, which has a limit."""
    payload = b'"' + b"x" * 999_000 + b'"'
    await store.submit_many([job(payload=payload) for _ in range(9)])
    claims = await take(store, 9)
    assert [claim.job.payload for claim in claims] == [payload] * 9


@needs(Capability.RAW_BYTES)
async def test_bytes_of_every_kind_come_back_as_they_were(store: SqlStore) -> None:
    payload, checkpoint = bytes(range(256)), b"\x00\xff\xfe"
    await store.submit(job(payload=payload, payload_format="bytes"))
    (claim,) = await take(store, 1)
    await store.update_progress([ProgressUpdate(claim, checkpoint=checkpoint)])
    await store.settle([Report(claim, Released())])
    (again,) = await take(store, 1)
    assert (again.job.payload, again.job.checkpoint) == (payload, checkpoint)
    await store.settle([Report(again, Success(b"\xff\x00"))])
    assert (await store.get(again.job.id)).result == b"\xff\x00"
