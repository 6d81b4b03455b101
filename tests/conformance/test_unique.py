"""Unique keys: one job of a type and key at a time, kept, changed or pushed back by whoever submits again."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from euterpe.model.claims.exchange import Report
from euterpe.model.errors import IllegalTransition, InvalidInput
from euterpe.model.failures.failure import Category
from euterpe.model.state import State
from euterpe.model.submitting.batch import SubmitResult
from euterpe.model.submitting.submission import Submission
from euterpe.model.submitting.unique import Unique
from euterpe.ports import Capability
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import MINUTE, complete, fail, failure, job, release, take, take_one
from tests.conformance.clock import FrozenClock
from tests.conformance.engines import Opened
from tests.conformance.needs import needs

pytestmark = needs(Capability.UNIQUE_KEYS)


def unique(how: Unique = Unique.WAITING, payload: bytes = b"1", key: str = "k", **said: Any) -> Submission:
    return job(unique_key=key, unique=how, payload=payload, **said)


async def submit(store: SqlStore, *said: Any, **more: Any) -> SubmitResult:
    return await store.submit(unique(*said, **more))


async def test_a_waiting_job_is_kept_and_a_running_one_does_not_count(store: SqlStore) -> None:
    first = await submit(store)
    again = await submit(store, payload=b"2")
    assert (again.job_id, again.state) == (first.job_id, State.SCHEDULED)
    running = await take_one(store)
    assert running.job.payload == b"1"
    second = await submit(store, payload=b"3")
    assert second.job_id != first.job_id
    assert (await submit(store)).job_id == second.job_id
    await fail(store, running)
    assert (await submit(store)).job_id == second.job_id, "the newest has the key"


async def test_active_means_waiting_or_running(store: SqlStore) -> None:
    first = await submit(store, Unique.ACTIVE)
    running = await take_one(store)
    assert (await submit(store, Unique.ACTIVE)).job_id == first.job_id
    await complete(store, running)
    assert (await submit(store, Unique.ACTIVE)).job_id != first.job_id


async def test_a_waiting_job_takes_new_arguments(store: SqlStore) -> None:
    first = await submit(store, Unique.REPLACE)
    assert (await submit(store, Unique.REPLACE, b"2")).job_id == first.job_id
    running = await take_one(store)
    assert (running.job.id, running.job.payload) == (first.job_id, b"2")
    third = await submit(store, Unique.REPLACE, b"3")
    assert third.job_id != first.job_id, "what runs is not changed"


async def test_a_debounced_job_runs_after_a_quiet_time_with_the_last_arguments(
    store: SqlStore, clock: FrozenClock
) -> None:
    first = await submit(store, Unique.DEBOUNCE, delay_us=MINUTE)
    for payload in (b"2", b"3"):
        clock.advance(seconds=59)
        assert (await submit(store, Unique.DEBOUNCE, payload, delay_us=MINUTE)).job_id == first.job_id
    clock.advance(seconds=59)
    await store.sweeps.promote()
    assert await take(store) == []
    clock.advance(seconds=1)
    await store.sweeps.promote()
    late = await submit(store, Unique.DEBOUNCE, b"4", delay_us=MINUTE)
    assert (late.job_id, late.state) == (first.job_id, State.SCHEDULED), "its time has come, and it stays come"
    assert (await take_one(store)).job.payload == b"4"


async def test_of_many_at_once_one_is_stored(subject: Opened) -> None:
    async with subject.another() as other:
        stores = (subject.store, other)
        submit_results = await asyncio.gather(*(stores[i % 2].submit(unique(payload=b"%d" % i)) for i in range(20)))
    assert len({submitted.job_id for submitted in submit_results}) == 1
    assert len(await take(subject.store)) == 1


async def test_keys_belong_to_types_and_ends_set_them_free(store: SqlStore) -> None:
    first = await submit(store)
    assert (await submit(store, type="other")).job_id != first.job_id
    assert (await submit(store, key="other")).job_id != first.job_id
    await store.cancel(first.job_id)
    assert (await submit(store)).job_id != first.job_id


@needs(Capability.OPERATE)
async def test_keys_of_ended_jobs_are_forgotten_and_those_of_living_ones_kept(store: SqlStore) -> None:
    ended, living = await submit(store, key="ended"), await submit(store, key="living")
    await store.cancel(ended.job_id)
    await store.sweeps.expire_keys()
    assert (await submit(store, key="living")).job_id == living.job_id
    assert (await submit(store, key="ended")).job_id != ended.job_id


@pytest.mark.parametrize("how", [Unique.WAITING, Unique.ACTIVE])
@pytest.mark.parametrize("forgotten", [False, True])
async def test_a_retry_takes_its_key_again_or_is_refused(store: SqlStore, how: Unique, forgotten: bool) -> None:
    first = await submit(store, how)
    await fail(store, await take_one(store), Category.PERMANENT)
    second = await submit(store, how)
    with pytest.raises(IllegalTransition, match="unique key"):
        await store.retry(first.job_id)
    assert (await store.get(first.job_id)).state is State.FAILED
    await store.cancel(second.job_id)
    if forgotten:
        await store.sweeps.expire_keys()
    await store.retry(first.job_id)
    assert (await submit(store, how)).job_id == first.job_id, "the retried job waits, and has its key"
    assert len(await take(store)) == 1


async def test_a_job_that_lost_its_key_while_it_ran_does_not_wait_beside_the_next(store: SqlStore) -> None:
    await submit(store)
    running = await take_one(store)
    await submit(store)
    await fail(store, running, Category.PERMANENT)
    with pytest.raises(IllegalTransition, match="unique key"):
        await store.retry(running.job.id)
    with pytest.raises(IllegalTransition, match="unique key"):
        await store.replay(running.job.id)


async def test_of_a_retry_and_submits_at_once_one_job_waits(subject: Opened) -> None:
    store = subject.store
    first = await submit(store)
    await fail(store, await take_one(store), Category.PERMANENT)
    async with subject.another() as other:
        await asyncio.gather(
            *(submit((store, other)[i % 2]) for i in range(6)), other.retry(first.job_id), return_exceptions=True
        )
    assert len(await take(store)) == 1


async def test_a_batch_holds_found_and_new_jobs_and_no_key_twice(store: SqlStore) -> None:
    first = await submit(store)
    found, new = await store.submit_many([unique(), unique(key="new")])
    assert (found.job_id, new.job_id != first.job_id) == (first.job_id, True)
    with pytest.raises(InvalidInput, match="twice"):
        await store.submit_many([unique(key="a"), unique(key="a")])


@pytest.mark.parametrize(
    "said",
    [
        {"key": ""},
        {"idempotency_key": "i"},
        {"how": Unique.DEBOUNCE},
        {"key": "k" * 10_000},
        {"depends_on": ("7f3bb0c6-5f5c-4f5e-9d0c-0b6f8f3c2a11",)},
    ],
)
async def test_what_cannot_be_unique_is_refused(store: SqlStore, said: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=r"unique|idempotency_key"):
        await submit(store, **said)


# --- a job that would wait again, beside a newer one -----------------------------------------------------


@pytest.mark.parametrize("ends", [fail, release], ids=["retry", "release"])
@pytest.mark.parametrize("how", [Unique.WAITING, Unique.REPLACE])
async def test_the_newer_job_of_a_key_waits_and_the_older_one_ends(store: SqlStore, how: Unique, ends: Any) -> None:
    older = await submit(store, how, b"1")
    running = await take_one(store)
    newer = await submit(store, how, b"2")
    assert (await ends(store, running)).state is State.CANCELLED
    ended = await store.get(older.job_id)
    assert (ended.state, msgspec.json.decode(ended.error or "")["code"]) == (State.CANCELLED, "superseded")
    assert (await submit(store, how, b"3")).job_id == newer.job_id, "a third one finds the one that waits"
    (claim,) = await take(store)
    assert (claim.job.id, claim.job.payload) == (newer.job_id, b"2" if how is Unique.WAITING else b"3")
    assert (await store.stats()).by_state == {"cancelled": 1, "running": 1}


@pytest.mark.parametrize("forgotten", [False, True])
async def test_old_arguments_never_run_after_newer_ones(store: SqlStore, clock: FrozenClock, forgotten: bool) -> None:
    """The newer job has run by the time at which the older one fails, and its key may be forgotten already."""
    await submit(store, Unique.REPLACE, b"1")
    older = await take_one(store)
    await submit(store, Unique.REPLACE, b"2")
    await complete(store, await take_one(store))
    if forgotten:
        await store.sweeps.expire_keys()
    await fail(store, older)
    clock.advance(hours=1)
    await store.sweeps.promote()
    assert await take(store) == []


async def test_a_lost_job_of_a_key_is_not_tried_again_beside_a_newer_one(store: SqlStore, clock: FrozenClock) -> None:
    older = await submit(store)
    await take_one(store)
    newer = await submit(store)
    clock.advance(hours=1)
    await store.sweeps.recover()
    assert (await store.get(older.job_id)).state is State.CANCELLED
    assert [claim.job.id for claim in await take(store)] == [newer.job_id]


async def test_the_only_job_of_a_key_is_retried_and_keeps_it(store: SqlStore, clock: FrozenClock) -> None:
    only = await submit(store)
    other = await submit(store, key="other")
    for claim in await take(store):
        assert (await fail(store, claim)).state is State.RETRYING
    assert (await submit(store)).job_id == only.job_id
    clock.advance(hours=1)
    await store.sweeps.promote()
    assert {claim.job.id for claim in await take(store)} == {only.job_id, other.job_id}


async def test_dependents_and_neighbours_of_a_superseded_job_get_their_ends(store: SqlStore) -> None:
    """The superseded job ends by the path that every end takes, in a batch with others."""
    older = await submit(store)
    dependent = await store.submit(job("after", depends_on=(older.job_id,)))
    neighbour = await store.submit(job("neighbour"))
    claims = await take(store)
    await submit(store)
    await store.settle([Report(claim, failure()) for claim in claims])
    assert [(await store.get(i)).state for i in (older.job_id, dependent.job_id, neighbour.job_id)] == [
        State.CANCELLED,
        State.CANCELLED,
        State.RETRYING,
    ]


async def test_of_failures_and_submits_at_once_one_job_of_a_key_waits(subject: Opened) -> None:
    store = subject.store
    async with subject.another() as other:
        for _ in range(10):
            await submit(store)
            running = await take_one(store)
            await asyncio.gather(*(submit((store, other)[i % 2]) for i in range(4)), fail(store, running))
            states = (await store.stats()).by_state
            assert states.get("scheduled", 0) + states.get("retrying", 0) == 1, states
            for waiting in await take(store):
                await complete(store, waiting)
            with suppress(IllegalTransition):
                await store.cancel(running.job.id)
