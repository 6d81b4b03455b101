"""A replay keeps the graph: a dependent runs behind what it depends on, and never before."""

from __future__ import annotations

import pytest

from euterpe.model.dependency import Dependency
from euterpe.model.errors import IllegalTransition
from euterpe.model.failures.failure import Category
from euterpe.model.job import JobRow
from euterpe.model.state import State
from euterpe.model.submitting.batch import Draft, SubmitResult, new_ids
from euterpe.model.submitting.replayed import Replayed
from euterpe.ports import Capability
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import complete, fail, job, state_of, submit, take, take_one
from tests.conformance.needs import needs

pytestmark = needs(Capability.DEPENDENCIES, Capability.CHOSEN_IDS, Capability.REPLAY_FLAGS)


def ids_of(replayed: Replayed) -> list[str]:
    assert isinstance(replayed.first, SubmitResult)
    return [replayed.first.job_id, *(submitted.job_id for submitted in replayed.dependents)]


async def dead_shop(store: SqlStore) -> list[str]:
    """charge -> mail -> archive (a chain), and stock beside charge; the charge is dead and has taken the rest along."""
    charge, mail, archive, stock = ids = new_ids(4)
    await store.submit_graph(
        [
            Draft(charge, job("charge", max_attempts=1)),
            Draft(mail, job("mail", payload=b'{"paid":{"$euterpe.result":0}}', depends_on=(charge, stock))),
            Draft(archive, job("archive", depends_on=(mail,), dependency=Dependency.CHAIN)),
            Draft(stock, job("stock")),
        ]
    )
    for claim in await take(store):
        await (complete(store, claim) if claim.job.type == "stock" else fail(store, claim))
    assert [await state_of(store, i) for i in (charge, mail, archive)] == [
        State.DEAD_LETTER, State.DEAD_LETTER, State.CANCELLED,
    ]  # fmt: skip
    return ids


async def test_a_dead_job_takes_along_what_ended_because_of_it(store: SqlStore) -> None:
    charge, mail, archive, stock = await dead_shop(store)
    replayed = await store.replay(charge)
    first, second, third = ids_of(replayed)
    jobs = [await store.get(i) for i in (first, second, third)]
    assert [job.replay_of for job in jobs] == [charge, mail, archive]
    assert [job.state for job in jobs] == [State.SCHEDULED, State.PENDING, State.PENDING]
    assert jobs[1].depends_on == (first, stock)
    await complete(store, await take_one(store), b'"answer 7"')
    mailed = await take_one(store)
    assert (mailed.job.id, mailed.job.payload) == (second, b'{"paid":"answer 7"}')
    await complete(store, mailed)
    assert (await take_one(store)).job.id == third


async def test_a_dependent_never_runs_before_its_dependency_in_whatever_order_they_are_replayed(
    store: SqlStore,
) -> None:
    charge, mail, archive, _ = await dead_shop(store)
    for early in (mail, archive):
        with pytest.raises(IllegalTransition, match="ended badly; replay that one, and this one runs behind it"):
            await store.replay(early)
    first = ids_of(await store.replay(charge))
    again = [await store.replay(job_id) for job_id in (charge, mail, archive)]
    assert [ids_of(one) for one in again] == [[new_id] for new_id in first]
    assert all(isinstance(one.first, SubmitResult) and one.first.replayed for one in again)
    assert [claim.job.type for claim in await take(store)] == ["charge"]


async def test_what_depends_on_two_dead_jobs_waits_for_both_replays(store: SqlStore) -> None:
    a, b, both, behind = new_ids(4)
    parts = [Draft(i, job(name, max_attempts=1)) for i, name in ((a, "a"), (b, "b"))]
    await store.submit_graph(
        [*parts, Draft(both, job("both", depends_on=(a, b))), Draft(behind, job("behind", depends_on=(both,)))]
    )
    for claim in await take(store):
        await fail(store, claim)
    assert len(ids_of(await store.replay(a))) == 1
    new_b, new_both, new_behind = ids_of(await store.replay(b))
    replay_of_a = (await store.get(new_both)).depends_on
    assert replay_of_a is not None
    assert (await store.get(replay_of_a[0])).replay_of == a
    assert replay_of_a[1] == new_b
    assert (await store.get(new_behind)).depends_on == (new_both,)


async def test_what_depends_on_a_job_whose_replay_died_too_waits_for_the_next_one(store: SqlStore) -> None:
    a, b, both = new_ids(3)
    parts = [Draft(i, job(name, max_attempts=1)) for i, name in ((a, "a"), (b, "b"))]
    await store.submit_graph([*parts, Draft(both, job("both", depends_on=(a, b)))])
    for claim in await take(store):
        await fail(store, claim)
    (second,) = ids_of(await store.replay(a))
    await fail(store, await take_one(store))
    assert len(ids_of(await store.replay(b))) == 1  # The replay of a is dead: both would end at once.
    with pytest.raises(IllegalTransition, match="ended badly"):
        await store.replay(both)
    (third,) = ids_of(await store.replay(second))
    (new_both,) = ids_of(await store.replay(both))
    waits_for = (await store.get(new_both)).depends_on
    assert waits_for is not None
    assert waits_for[0] == third


async def test_a_failed_job_goes_on_as_itself_and_its_dependents_are_replayed_behind_it(store: SqlStore) -> None:
    root, then = new_ids(2)
    await store.submit_graph([Draft(root, job("root")), Draft(then, job("then", depends_on=(root,)))])
    await fail(store, await take_one(store), Category.PERMANENT)
    assert await state_of(store, then) is State.FAILED
    replayed = await store.replay(root)
    assert isinstance(replayed.first, JobRow)
    assert (replayed.first.id, replayed.first.state) == (root, State.SCHEDULED)
    (new,) = replayed.dependents
    assert (await store.get(new.job_id)).depends_on == (root,)
    await complete(store, await take_one(store))
    assert (await take_one(store)).job.id == new.job_id
    with pytest.raises(IllegalTransition, match="only an ended job"):
        await store.replay(new.job_id)


async def test_a_fan_in_whose_spawned_child_died_waits_for_the_childs_replay(store: SqlStore) -> None:
    parent = await submit(store, "parent")
    summary = await submit(store, "summary", depends_on=(parent,), dependency=Dependency.FAN_IN)
    claim = await take_one(store)
    (child,) = await store.spawn(claim.lease, [job("child", max_attempts=1)])
    await complete(store, claim)
    await fail(store, await take_one(store))
    assert await state_of(store, summary) is State.DEAD_LETTER
    new_child, new_summary = ids_of(await store.replay(child.job_id))
    assert (await store.get(new_summary)).depends_on == (parent, new_child)
    await complete(store, await take_one(store))
    assert (await take_one(store)).job.id == new_summary


async def test_a_retry_of_one_job_keeps_the_results_that_it_needs(store: SqlStore) -> None:
    first = await submit(store, "first")
    then = await submit(store, "then", payload=b'{"x":{"$euterpe.result":0}}', depends_on=(first,), max_attempts=1)
    await complete(store, await take_one(store), b"7")
    await fail(store, await take_one(store))
    again = await store.retry(then)
    assert again.depends_on == (first,)
    assert (await take_one(store)).job.payload == b'{"x":7}'
