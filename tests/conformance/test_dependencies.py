"""What a dependent waits for: release at the right moment, never early, never stranded; submission-time rules."""

from __future__ import annotations

import asyncio

import pytest

from euterpe.model.claims.exchange import Report
from euterpe.model.claims.outcome import Success
from euterpe.model.dependency import Dependency
from euterpe.model.errors import UnknownDependency
from euterpe.model.failures.failure import Category
from euterpe.model.state import State
from euterpe.ports import Capability
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import (
    HOUR,
    MINUTE,
    complete,
    fail,
    job,
    release,
    state_of,
    states_of,
    stop,
    submit,
    submit_in,
    take,
    take_one,
    taken,
)
from tests.conformance.clock import FrozenClock
from tests.conformance.engines import Opened, Tables, row_counts
from tests.conformance.needs import needs

pytestmark = needs(Capability.DEPENDENCIES)

UNKNOWN = "00000000-0000-4000-8000-000000000000"


async def test_a_job_waits_until_all_it_depends_on_is_completed(store: SqlStore, clock: FrozenClock) -> None:
    first, second = await taken(store, "a"), await taken(store, "b")
    job_id = await submit(store, depends_on=(first.job.id, second.job.id))
    waiting = await store.get(job_id)
    assert (waiting.state, waiting.pending_dependencies, waiting.scheduled_at) == (State.PENDING, 2, None)
    await complete(store, second)
    half = await store.get(job_id)
    assert (half.state, half.pending_dependencies) == (State.PENDING, 1)
    assert await take(store) == []
    at = clock.advance(seconds=1)
    await complete(store, first)
    ready = await store.get(job_id)
    assert (ready.state, ready.pending_dependencies, ready.scheduled_at) == (State.SCHEDULED, 0, at)
    assert (await take_one(store)).job.id == job_id


async def test_a_retry_or_release_of_a_dependency_lets_nothing_go(store: SqlStore, clock: FrozenClock) -> None:
    first = await taken(store, "a")
    job_id = await submit(store, depends_on=(first.job.id,))
    await release(store, first)
    assert await state_of(store, job_id) is State.PENDING
    await fail(store, await take_one(store))
    assert await state_of(store, job_id) is State.PENDING
    clock.advance(minutes=1)
    await store.sweeps.promote()
    await complete(store, await take_one(store))
    assert await state_of(store, job_id) is State.SCHEDULED


async def test_both_dependencies_ending_in_one_batch_let_the_job_go(store: SqlStore) -> None:
    first, second = await taken(store, "a"), await taken(store, "b")
    job_id = await submit(store, depends_on=(first.job.id, second.job.id))
    await store.settle([Report(first, Success()), Report(second, Success())])
    assert await state_of(store, job_id) is State.SCHEDULED


async def test_dependencies_that_end_at_once_in_two_places_strand_nobody(subject: Opened) -> None:
    store = subject.store
    async with subject.another() as other:
        for _ in range(4):
            claims = [await taken(store, f"t{i}") for i in range(4)]
            job_id = await submit(store, "last", depends_on=tuple(c.job.id for c in claims))
            await asyncio.gather(*(complete(s, c) for s, c in zip((store, other) * 2, claims, strict=True)))
            assert await state_of(store, job_id) is State.SCHEDULED
            await complete(store, await take_one(store))


async def test_a_job_submitted_while_its_dependency_ends_is_never_stranded(subject: Opened) -> None:
    store = subject.store
    async with subject.another() as other:
        for _ in range(4):
            claim = await taken(store)
            job_id, _ = await asyncio.gather(submit(store, "after", depends_on=(claim.job.id,)), complete(other, claim))
            assert await state_of(store, job_id) is State.SCHEDULED
            await complete(store, await take_one(store))


async def test_a_dependency_that_is_completed_already_is_not_waited_for(store: SqlStore) -> None:
    done = await submit_in(store, State.COMPLETED, "a")
    submitted = await store.submit(job(depends_on=(done.id,)))
    assert submitted.state == "scheduled"
    running = await taken(store, "b")
    half = await store.get(await submit(store, "c", depends_on=(done.id, running.job.id)))
    assert (half.state, half.pending_dependencies) == (State.PENDING, 1)


async def test_a_dependency_named_twice_counts_once(store: SqlStore) -> None:
    first = await taken(store, "a")
    job_id = await submit(store, depends_on=(first.job.id, first.job.id))
    assert (await store.get(job_id)).pending_dependencies == 1
    await complete(store, first)
    assert await state_of(store, job_id) is State.SCHEDULED


async def test_after_any_goes_with_the_first_dependency_that_ends(store: SqlStore) -> None:
    claims = [await taken(store, f"t{i}") for i in range(3)]
    job_id = await submit(store, depends_on=tuple(c.job.id for c in claims), dependency=Dependency.AFTER_ANY)
    assert await state_of(store, job_id) is State.PENDING
    await complete(store, claims[1])
    assert await state_of(store, job_id) is State.SCHEDULED
    claim = await take_one(store)
    await complete(store, claims[0])
    await fail(store, claims[2], Category.PERMANENT)
    assert (await complete(store, claim)).accepted


@pytest.mark.parametrize("end", [State.FAILED, State.DEAD_LETTER, State.CANCELLED, State.COMPLETED])
async def test_after_any_goes_with_a_dependency_that_has_ended_already(store: SqlStore, end: State) -> None:
    ended = await submit_in(store, end, "a")
    live = await submit(store, "b", delay_us=HOUR)
    submitted = await store.submit(job(depends_on=(live, ended.id), dependency=Dependency.AFTER_ANY))
    assert submitted.state == "scheduled"


async def test_what_is_left_of_a_delay_is_still_waited_for(store: SqlStore, clock: FrozenClock) -> None:
    first = await taken(store, "a")
    job_id = await submit(store, depends_on=(first.job.id,), delay_us=HOUR)
    clock.advance(minutes=20)
    await complete(store, first)
    waiting = await store.get(job_id)
    assert (waiting.state, waiting.scheduled_at) == (State.DELAYED, None)
    clock.advance(us=40 * MINUTE - 1)
    assert await store.sweeps.promote() == []
    clock.advance(us=1)
    assert await store.sweeps.promote() == ["default"]


async def test_a_delay_that_is_over_when_the_dependency_ends_is_forgotten(store: SqlStore, clock: FrozenClock) -> None:
    first = await taken(store, "a")
    job_id = await submit(store, depends_on=(first.job.id,), delay_us=MINUTE)
    clock.advance(us=MINUTE)
    await complete(store, first)
    assert await state_of(store, job_id) is State.SCHEDULED


async def test_a_diamond_runs_its_last_job_once_both_sides_are_done(store: SqlStore) -> None:
    top = await taken(store, "top")
    left = await submit(store, "left", depends_on=(top.job.id,))
    right = await submit(store, "right", depends_on=(top.job.id,))
    bottom = await submit(store, "bottom", depends_on=(left, right))
    await complete(store, top)
    assert await states_of(store, left, right, bottom) == [State.SCHEDULED, State.SCHEDULED, State.PENDING]
    for claim in await take(store):
        assert await state_of(store, bottom) is State.PENDING
        await complete(store, claim)
    assert await state_of(store, bottom) is State.SCHEDULED


async def test_a_diamond_that_fails_at_the_top_ends_its_last_job_once(store: SqlStore, tables: Tables) -> None:
    top = await taken(store, "top")
    left = await submit(store, "left", depends_on=(top.job.id,))
    right = await submit(store, "right", depends_on=(top.job.id,))
    bottom = await submit(store, "bottom", depends_on=(left, right), callback_url="https://r.example/")
    await fail(store, top, Category.PERMANENT)
    assert await states_of(store, left, right, bottom) == [State.FAILED] * 3
    assert await tables.run("SELECT type FROM job_outbox_events") == [("job.failed",)]


async def test_a_dependent_is_as_urgent_as_the_most_urgent_job_it_waits_for(store: SqlStore) -> None:
    high, bulk = await submit(store, "a", priority=1), await submit(store, "b", priority=4)
    inherited = await store.get(await submit(store, "c", priority=3, depends_on=(bulk, high)))
    assert inherited.priority == 1
    own = await store.get(await submit(store, "d", priority=0, depends_on=(bulk, high)))
    assert own.priority == 0
    grandchild = await store.get(await submit(store, "e", priority=4, depends_on=(inherited.id,)))
    assert grandchild.priority == 1
    submitted = await store.submit(job("f", priority=4, depends_on=(high,)))
    assert submitted.priority == "high"


@pytest.mark.parametrize(
    "bad", [UNKNOWN, "nonsense", "", pytest.param("\x00", marks=needs(Capability.RAW_BYTES)), "\ud800"]
)
async def test_an_unknown_dependency_is_refused_and_nothing_is_stored(
    store: SqlStore, tables: Tables, bad: str
) -> None:
    known = await submit(store, "a")
    before = await row_counts(tables)
    with pytest.raises(UnknownDependency) as refused:
        await submit(store, depends_on=(known, bad), idempotency_key="k")
    assert refused.value.field == "depends_on"
    with pytest.raises(UnknownDependency):
        await store.submit_many([job(), job(depends_on=(bad,))])
    assert await row_counts(tables) == before
    assert not (await store.get(known)).has_dependents


@needs(Capability.ANY_REQUESTER)
async def test_another_requesters_job_is_an_unknown_dependency(store: SqlStore, tables: Tables) -> None:
    theirs = await submit(store, requester_id="alice")
    before = await row_counts(tables)
    with pytest.raises(UnknownDependency):
        await submit(store, requester_id="mallory", depends_on=(theirs,))
    assert await row_counts(tables) == before
    assert await submit(store, requester_id="alice", depends_on=(theirs,))


async def test_a_pruned_job_is_an_unknown_dependency(store: SqlStore, clock: FrozenClock) -> None:
    done = await submit_in(store, State.COMPLETED)
    clock.advance(days=8)
    assert await store.sweeps.prune() == 1
    with pytest.raises(UnknownDependency):
        await submit(store, depends_on=(done.id,))


async def test_one_rejected_submit_does_not_touch_its_neighbours_in_the_same_commit(store: SqlStore) -> None:
    async def attempt(i: int) -> str | None:
        try:
            return await submit(store, f"t{i}", depends_on=(UNKNOWN,) if i % 3 == 0 else ())
        except UnknownDependency:
            return None

    ids = await asyncio.gather(*(attempt(i) for i in range(30)))
    assert [job_id is None for job_id in ids] == [i % 3 == 0 for i in range(30)]
    assert {c.job.id for c in await take(store)} == {job_id for job_id in ids if job_id}


async def test_a_dependent_of_a_cancelled_running_job_learns_of_it_when_it_ends(store: SqlStore) -> None:
    first = await taken(store, "a")
    job_id = await submit(store, depends_on=(first.job.id,))
    await store.cancel(first.job.id)
    assert await state_of(store, job_id) is State.PENDING
    await stop(store, first)
    assert await state_of(store, job_id) is State.CANCELLED
