"""Unique keys: one job of a type and key at a time, kept, changed or pushed back by whoever submits again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from euterpe.model.errors import IllegalTransition, InvalidInput
from euterpe.model.failures.failure import Category
from euterpe.model.state import State
from euterpe.model.submitting.batch import SubmitResult
from euterpe.model.submitting.submission import Submission
from euterpe.model.submitting.unique import Unique
from euterpe.ports import Capability
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import MINUTE, complete, fail, job, take, take_one
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
