"""Fan-out and fan-in: children of a running job, and jobs that wait for a parent and all it spawned."""

from __future__ import annotations

import pytest

from euterpe.model.dependency import Dependency
from euterpe.model.errors import InvalidInput
from euterpe.model.failures.failure import Category
from euterpe.model.state import State
from euterpe.ports import Capability
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import (
    complete,
    fail,
    job,
    release,
    state_of,
    states_of,
    submit,
    take,
    take_one,
    taken,
)
from tests.conformance.clock import FrozenClock
from tests.conformance.engines import Tables, row_counts
from tests.conformance.needs import needs

pytestmark = needs(Capability.DEPENDENCIES)

FAN_IN = Dependency.FAN_IN


async def test_a_running_job_spawns_children_that_wait_for_nothing(store: SqlStore) -> None:
    parent = await taken(store, "parent")
    submit_results = await store.spawn(parent.lease, [job("child") for _ in range(3)])
    children = [await store.get(submitted.job_id) for submitted in submit_results]
    assert {(c.state, c.parent_id) for c in children} == {(State.SCHEDULED, parent.job.id)}
    assert len(await take(store)) == 3


async def test_spawning_nothing_is_allowed(store: SqlStore) -> None:
    parent = await taken(store, "parent")
    assert await store.spawn(parent.lease, []) == []


async def test_a_child_has_no_unique_key_since_a_fan_in_would_not_wait_for_the_job_that_is_kept(
    store: SqlStore, tables: Tables
) -> None:
    kept = await submit(store, "sync", unique_key="customer-7")
    parent = await taken(store, "parent")
    before = await row_counts(tables)
    for children in ([job("sync", unique_key="customer-7")], [job("child"), job("sync", unique_key="customer-8")]):
        with pytest.raises(InvalidInput, match="is not for a child"):
            await store.spawn(parent.lease, children)
    assert await row_counts(tables) == before
    assert (await store.submit(job("sync", unique_key="customer-7"))).job_id == kept


async def test_a_fan_in_waits_for_the_parent_and_all_it_spawns_later(store: SqlStore) -> None:
    parent = await taken(store, "parent")
    summary = await submit(store, "summary", depends_on=(parent.job.id,), dependency=FAN_IN)
    await store.spawn(parent.lease, [job("child") for _ in range(3)])
    assert (await store.get(summary)).pending_dependencies == 4
    await complete(store, parent)
    children = await take(store)
    assert len(children) == 3
    for child in children:
        assert await state_of(store, summary) is State.PENDING
        await complete(store, child)
    assert await state_of(store, summary) is State.SCHEDULED


async def test_a_fan_in_submitted_after_the_children_waits_for_them_too(store: SqlStore) -> None:
    parent = await taken(store, "parent")
    await store.spawn(parent.lease, [job("child") for _ in range(2)])
    await complete(store, parent)
    summary = await submit(store, "summary", depends_on=(parent.job.id,), dependency=FAN_IN)
    assert (await store.get(summary)).pending_dependencies == 2
    for child in await take(store):
        await complete(store, child)
    assert await state_of(store, summary) is State.SCHEDULED


async def test_a_fan_in_waits_for_grandchildren_spawned_before_it(store: SqlStore) -> None:
    parent = await taken(store, "parent")
    await store.spawn(parent.lease, [job("child")])
    child = await take_one(store)
    await store.spawn(child.lease, [job("grandchild")])
    await complete(store, parent)
    await complete(store, child)
    summary = await submit(store, "summary", depends_on=(parent.job.id,), dependency=FAN_IN)
    assert await state_of(store, summary) is State.PENDING
    await complete(store, await take_one(store))
    assert await state_of(store, summary) is State.SCHEDULED


async def test_a_fan_in_waits_for_grandchildren_spawned_after_it(store: SqlStore) -> None:
    parent = await taken(store, "parent")
    summary = await submit(store, "summary", depends_on=(parent.job.id,), dependency=FAN_IN)
    await store.spawn(parent.lease, [job("child")])
    child = await take_one(store)
    await complete(store, parent)
    await store.spawn(child.lease, [job("grandchild"), job("grandchild")])
    await complete(store, child)
    assert (await store.get(summary)).pending_dependencies == 2
    for grandchild in await take(store):
        assert await state_of(store, summary) is State.PENDING
        await complete(store, grandchild)
    assert await state_of(store, summary) is State.SCHEDULED


async def test_a_plain_dependent_does_not_wait_for_what_its_dependency_spawned(store: SqlStore) -> None:
    parent = await taken(store, "parent")
    plain = await submit(store, "plain", depends_on=(parent.job.id,))
    await store.spawn(parent.lease, [job("child")])
    await complete(store, parent)
    assert await state_of(store, plain) is State.SCHEDULED


async def test_a_failed_child_ends_the_fan_in(store: SqlStore) -> None:
    parent = await taken(store, "parent")
    summary = await submit(store, "summary", depends_on=(parent.job.id,), dependency=FAN_IN)
    await store.spawn(parent.lease, [job("child"), job("child")])
    await complete(store, parent)
    await fail(store, await take_one(store), Category.PERMANENT)
    assert await state_of(store, summary) is State.FAILED


async def test_a_failed_parent_ends_the_fan_in_and_leaves_the_children_running(store: SqlStore) -> None:
    parent = await taken(store, "parent")
    summary = await submit(store, "summary", depends_on=(parent.job.id,), dependency=FAN_IN)
    await store.spawn(parent.lease, [job("child")])
    await fail(store, parent, Category.PERMANENT)
    assert await state_of(store, summary) is State.FAILED
    assert (await complete(store, await take_one(store))).accepted


async def test_children_of_every_attempt_are_waited_for(store: SqlStore, clock: FrozenClock) -> None:
    parent = await taken(store, "parent")
    summary = await submit(store, "summary", depends_on=(parent.job.id,), dependency=FAN_IN)
    await store.spawn(parent.lease, [job("child")])
    await release(store, parent)
    [parent] = await take(store, types=("parent",))
    await store.spawn(parent.lease, [job("child")])
    await complete(store, parent)
    assert (await store.get(summary)).pending_dependencies == 2


async def test_a_fan_in_over_several_parents_waits_for_all_their_children(store: SqlStore) -> None:
    one, two = await taken(store, "one"), await taken(store, "two")
    await store.spawn(one.lease, [job("child")])
    summary = await submit(store, "summary", depends_on=(one.job.id, two.job.id), dependency=FAN_IN)
    await store.spawn(two.lease, [job("child")])
    assert (await store.get(summary)).pending_dependencies == 4
    await complete(store, one)
    await complete(store, two)
    for child in await take(store):
        await complete(store, child)
    assert await state_of(store, summary) is State.SCHEDULED


async def test_a_child_may_depend_on_its_sibling(store: SqlStore) -> None:
    parent = await taken(store, "parent")
    summary = await submit(store, "summary", depends_on=(parent.job.id,), dependency=FAN_IN)
    [first] = await store.spawn(parent.lease, [job("first")])
    [second] = await store.spawn(parent.lease, [job("second", depends_on=(first.job_id,))])
    await complete(store, parent)
    assert await states_of(store, first.job_id, second.job_id) == [State.SCHEDULED, State.PENDING]
    await complete(store, await take_one(store))
    assert await state_of(store, summary) is State.PENDING
    await complete(store, await take_one(store))
    assert await state_of(store, summary) is State.SCHEDULED


async def test_a_child_that_ends_at_its_own_submission_ends_the_fan_in(store: SqlStore) -> None:
    """The child is refused by a dependency that failed long ago, so the fan-in must not wait for it for ever."""
    broken = await taken(store, "broken")
    await fail(store, broken, Category.PERMANENT)
    parent = await taken(store, "parent")
    summary = await submit(store, "summary", depends_on=(parent.job.id,), dependency=FAN_IN)
    [child] = await store.spawn(parent.lease, [job("child", depends_on=(broken.job.id,))])
    await complete(store, parent)
    assert await states_of(store, child.job_id, summary) == [State.FAILED, State.FAILED]


async def test_a_fan_in_of_a_job_that_spawned_nothing_is_a_plain_after(store: SqlStore) -> None:
    parent = await taken(store, "parent")
    summary = await submit(store, "summary", depends_on=(parent.job.id,), dependency=FAN_IN)
    await complete(store, parent)
    assert await state_of(store, summary) is State.SCHEDULED


async def test_spawning_again_with_the_same_keys_makes_no_second_child(store: SqlStore) -> None:
    parent = await taken(store, "parent")
    children = [job("child", idempotency_key=f"{parent.job.id}/{i}") for i in range(2)]
    first = await store.spawn(parent.lease, children)
    again = await store.spawn(parent.lease, children)
    assert [r.job_id for r in again] == [r.job_id for r in first]
    assert all(r.replayed for r in again)
    assert len(await take(store)) == 2


async def test_fan_out_is_not_a_way_to_wait(store: SqlStore, tables: Tables) -> None:
    first = await submit(store)
    before = await row_counts(tables)
    with pytest.raises(InvalidInput) as refused:
        await submit(store, depends_on=(first,), dependency=Dependency.FAN_OUT)
    assert refused.value.field == "dependency"
    assert await row_counts(tables) == before
