"""Whole graphs: stored with all their edges, or not at all."""

from __future__ import annotations

import pytest

from euterpe.model.dependency import MAX_BREADTH, MAX_DEPTH, Dependency
from euterpe.model.errors import DependencyCycle, DependencyLimit, InvalidInput, UnknownDependency
from euterpe.model.failures.failure import Category
from euterpe.model.state import State
from euterpe.model.submitting.batch import Draft, new_ids
from euterpe.ports import Capability
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import complete, fail, job, state_of, states_of, submit, submit_in, take, take_one
from tests.conformance.engines import Opened, Tables, row_counts
from tests.conformance.needs import needs

pytestmark = needs(Capability.DEPENDENCIES)

UNKNOWN = "00000000-0000-4000-8000-000000000000"


def line(ids: list[str]) -> list[Draft]:
    needs = [(), *((before,) for before in ids[:-1])]
    return [Draft(i, job(depends_on=needed)) for i, needed in zip(ids, needs, strict=True)]


@needs(Capability.CHOSEN_IDS)
async def test_a_graph_is_stored_whole_whatever_the_order_of_its_parts(store: SqlStore) -> None:
    a, b, c, d = new_ids(4)
    drafts = [
        Draft(d, job("d", depends_on=(b, c))),
        Draft(b, job("b", depends_on=(a,))),
        Draft(a, job("a")),
        Draft(c, job("c", depends_on=(a,))),
    ]
    submit_results = await store.submit_graph(drafts)
    assert [r.job_id for r in submit_results] == [d, b, a, c]
    assert [r.state for r in submit_results] == ["pending", "pending", "scheduled", "pending"]
    for expected in (["a"], ["b", "c"], ["d"]):
        claims = await take(store)
        assert sorted(claim.job.type for claim in claims) == expected
        for claim in claims:
            await complete(store, claim)


@needs(Capability.CHOSEN_IDS)
async def test_a_graph_may_hang_on_jobs_that_are_stored_already(store: SqlStore) -> None:
    outside = await submit(store, "outside", priority=0)
    a, b = new_ids(2)
    await store.submit_graph([Draft(a, job("a", depends_on=(outside,))), Draft(b, job("b", depends_on=(a,)))])
    assert [(await store.get(i)).priority for i in (a, b)] == [0, 0]
    assert [(await store.get(i)).depth for i in (outside, a, b)] == [1, 2, 3]
    await complete(store, await take_one(store))
    assert await states_of(store, a, b) == [State.SCHEDULED, State.PENDING]


async def test_a_failed_job_outside_ends_the_graph_that_hangs_on_it(store: SqlStore) -> None:
    broken = await submit_in(store, State.FAILED, "broken")
    a, b, c = new_ids(3)
    submit_results = await store.submit_graph(
        [
            Draft(a, job(depends_on=(broken.id,))),
            Draft(b, job(depends_on=(a,), dependency=Dependency.CHAIN)),
            Draft(c, job(depends_on=(b,), dependency=Dependency.AFTER_ANY)),
        ]
    )
    assert [r.state for r in submit_results] == ["failed", "cancelled", "scheduled"]


@needs(Capability.CHOSEN_IDS)
async def test_a_failure_inside_a_graph_runs_down_its_edges(store: SqlStore) -> None:
    ids = new_ids(4)
    await store.submit_graph(line(ids))
    await fail(store, await take_one(store), Category.PERMANENT)
    assert set(await states_of(store, *ids)) == {State.FAILED}


@pytest.mark.parametrize("edges", [[(0, 0)], [(0, 1), (1, 0)], [(0, 1), (1, 2), (2, 3), (3, 1)]])
async def test_a_cycle_is_refused_and_nothing_is_stored(
    store: SqlStore, tables: Tables, edges: list[tuple[int, int]]
) -> None:
    ids = new_ids(5)
    needs: dict[int, list[str]] = {i: [] for i in range(5)}
    for job_index, on in edges:
        needs[job_index].append(ids[on])
    before = await row_counts(tables)
    with pytest.raises(DependencyCycle) as refused:
        await store.submit_graph([Draft(ids[i], job(depends_on=tuple(needs[i]))) for i in range(5)])
    assert refused.value.field == "depends_on"
    assert await row_counts(tables) == before


@needs(Capability.CHOSEN_IDS)
async def test_a_line_of_a_hundred_is_accepted_and_one_more_is_not(store: SqlStore, tables: Tables) -> None:
    ids = new_ids(MAX_DEPTH)
    await store.submit_graph(line(ids))
    before = await row_counts(tables)
    with pytest.raises(DependencyLimit, match="101 levels deep"):
        await submit(store, depends_on=(ids[-1],))
    with pytest.raises(DependencyLimit):
        await store.submit_graph(line(new_ids(MAX_DEPTH + 1)))
    assert await row_counts(tables) == before


async def test_a_job_may_have_a_thousand_dependencies_and_no_more(store: SqlStore, tables: Tables) -> None:
    submit_results = await store.submit_many([job("a") for _ in range(MAX_BREADTH + 1)])
    ids = tuple(submitted.job_id for submitted in submit_results)
    accepted = await submit(store, depends_on=ids[:MAX_BREADTH])
    assert (await store.get(accepted)).pending_dependencies == MAX_BREADTH
    before = await row_counts(tables)
    with pytest.raises(DependencyLimit, match="1001 dependencies"):
        await submit(store, depends_on=ids)
    assert await row_counts(tables) == before


async def test_one_bad_job_keeps_the_whole_graph_out(store: SqlStore, tables: Tables) -> None:
    outside = await submit(store, "outside")
    a, b, c = new_ids(3)
    before = await row_counts(tables)
    for bad in (job(depends_on=(UNKNOWN,)), job(type=""), job(payload=b"x" * 2_000_000)):
        with pytest.raises(InvalidInput):
            await store.submit_graph(
                [
                    Draft(a, job(depends_on=(outside,), idempotency_key="a")),
                    Draft(b, job(depends_on=(a,))),
                    Draft(c, bad),
                ],
                key="g",
            )
        assert await row_counts(tables) == before
    assert not (await store.get(outside)).has_dependents


async def test_a_batch_is_stored_whole_or_not_at_all(store: SqlStore, tables: Tables) -> None:
    before = await row_counts(tables)
    with pytest.raises(UnknownDependency):
        await store.submit_many([*(job() for _ in range(50)), job(depends_on=(UNKNOWN,))])
    assert await row_counts(tables) == before
    submit_results = await store.submit_many([job() for _ in range(50)])
    assert len({r.job_id for r in submit_results}) == 50


async def test_an_empty_batch_or_graph_is_answered_with_nothing(store: SqlStore, tables: Tables) -> None:
    before = await row_counts(tables)
    assert await store.submit_many([]) == []
    assert await store.submit_graph([]) == []
    assert await row_counts(tables) == before


@needs(Capability.CHOSEN_IDS)
async def test_a_fan_in_inside_a_graph_waits_for_what_its_parent_will_spawn(store: SqlStore) -> None:
    parent, summary = new_ids(2)
    await store.submit_graph(
        [Draft(parent, job("p")), Draft(summary, job("s", depends_on=(parent,), dependency=Dependency.FAN_IN))]
    )
    claim = await take_one(store)
    await store.spawn(claim.lease, [job("child")])
    await complete(store, claim)
    assert await state_of(store, summary) is State.PENDING
    await complete(store, await take_one(store))
    assert await state_of(store, summary) is State.SCHEDULED


async def test_a_submission_may_have_twenty_thousand_dependencies_and_no_more(subject: Opened) -> None:
    """More would hold SQLite's only writer, and with it everybody else."""
    store = subject.store
    parents = tuple(submitted.job_id for submitted in await store.submit_many([job() for _ in range(1000)]))
    before = await row_counts(subject.tables)
    with pytest.raises(DependencyLimit, match="20001 dependencies in one submission; 20000 are allowed"):
        await store.submit_many([*(job(depends_on=parents) for _ in range(20)), job(depends_on=parents[:1])])
    assert await row_counts(subject.tables) == before
    await store.submit_many([job(depends_on=parents) for _ in range(20)])
    ((edges,),) = await subject.tables.run("SELECT COUNT(*) FROM job_dependencies")
    assert edges == 20_000
