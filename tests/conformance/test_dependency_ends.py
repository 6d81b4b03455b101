"""How a dependency's end reaches its dependents: every kind x every end, on every path that can end a job."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import pairwise

import pytest

from euterpe.model.claims.exchange import Report
from euterpe.model.claims.outcome import Outcome, Success
from euterpe.model.dependency import Dependency
from euterpe.model.failures.failure import Category
from euterpe.model.job import Claim
from euterpe.model.reading.views import Search
from euterpe.model.state import State
from euterpe.model.submitting.batch import Draft, new_ids
from euterpe.ports import Capability
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import (
    MINUTE,
    complete,
    fail,
    failure,
    job,
    state_of,
    states_of,
    stop,
    submit,
    submit_in,
    take_one,
    taken,
)
from tests.conformance.clock import FrozenClock
from tests.conformance.needs import needs

pytestmark = needs(Capability.DEPENDENCIES)

AFTER, ANY, CHAIN, FAN_IN = Dependency.AFTER, Dependency.AFTER_ANY, Dependency.CHAIN, Dependency.FAN_IN
COMPLETED, FAILED, DEAD, CANCELLED = State.COMPLETED, State.FAILED, State.DEAD_LETTER, State.CANCELLED

MATRIX: dict[tuple[Dependency, State], State] = {
    (AFTER, COMPLETED): State.SCHEDULED,
    (AFTER, FAILED): FAILED,
    (AFTER, DEAD): DEAD,
    (AFTER, CANCELLED): CANCELLED,
    (FAN_IN, COMPLETED): State.SCHEDULED,
    (FAN_IN, FAILED): FAILED,
    (FAN_IN, DEAD): DEAD,
    (FAN_IN, CANCELLED): CANCELLED,
    (CHAIN, COMPLETED): State.SCHEDULED,
    (CHAIN, FAILED): CANCELLED,
    (CHAIN, DEAD): CANCELLED,
    (CHAIN, CANCELLED): CANCELLED,
    (ANY, COMPLETED): State.SCHEDULED,
    (ANY, FAILED): State.SCHEDULED,
    (ANY, DEAD): State.SCHEDULED,
    (ANY, CANCELLED): State.SCHEDULED,
}
CASES = [pytest.param(kind, end, then, id=f"{kind}-{end}") for (kind, end), then in MATRIX.items()]


async def bring_to(store: SqlStore, claim: Claim, end: State) -> None:
    match end:
        case State.COMPLETED:
            await complete(store, claim)
        case State.FAILED:
            await fail(store, claim, Category.PERMANENT)
        case State.DEAD_LETTER:
            await fail(store, claim)
        case State.CANCELLED:
            await stop(store, claim)


@pytest.mark.parametrize(("kind", "end", "then"), CASES)
async def test_an_end_reaches_the_dependent_as_the_table_says(
    store: SqlStore, clock: FrozenClock, kind: Dependency, end: State, then: State
) -> None:
    claim = await taken(store, "a", max_attempts=1)
    job_id = await submit(store, depends_on=(claim.job.id,), dependency=kind)
    at = clock.advance(seconds=1)
    await bring_to(store, claim, end)
    dependent = await store.get(job_id)
    assert (dependent.state, dependent.pending_dependencies) == (then, 0)
    if then is State.SCHEDULED:
        assert (dependent.scheduled_at, dependent.completed_at, dependent.error) == (at, None, None)
    else:
        assert dependent.completed_at == at
        assert dependent.error_document is not None
        assert dependent.error_document["code"] == "dependency_ended"
        assert claim.job.id in dependent.error_document["message"]


@pytest.mark.parametrize(("kind", "end", "then"), CASES)
async def test_an_end_before_the_submission_counts_the_same(
    store: SqlStore, clock: FrozenClock, kind: Dependency, end: State, then: State
) -> None:
    ended = await submit_in(store, end, "a")
    dependent = await store.get(await submit(store, depends_on=(ended.id,), dependency=kind))
    assert dependent.state is then
    assert dependent.completed_at == (None if then is State.SCHEDULED else clock.now_us)
    assert (dependent.error is None) == (then is State.SCHEDULED)


Ender = Callable[[SqlStore, FrozenClock], Awaitable[str]]


async def _cancelled_while_waiting(store: SqlStore, clock: FrozenClock) -> str:
    job_id = await submit(store, "a", delay_us=MINUTE)
    await submit(store, "dependent", depends_on=(job_id,))
    await store.cancel(job_id)
    return job_id


async def _cancelled_by_force(store: SqlStore, clock: FrozenClock) -> str:
    claim = await taken(store, "a")
    await submit(store, "dependent", depends_on=(claim.job.id,))
    await store.cancel(claim.job.id, force=True)
    return claim.job.id


async def _cancelled_instead_of_retried(store: SqlStore, clock: FrozenClock) -> str:
    claim = await taken(store, "a")
    await submit(store, "dependent", depends_on=(claim.job.id,))
    await store.cancel(claim.job.id)
    await fail(store, claim)
    return claim.job.id


async def _reclaimed_to_death(store: SqlStore, clock: FrozenClock) -> str:
    claim = await taken(store, "a", max_attempts=1)
    await submit(store, "dependent", depends_on=(claim.job.id,))
    clock.advance(minutes=10)
    await store.sweeps.reclaim()
    return claim.job.id


async def _outlived_while_waiting(store: SqlStore, clock: FrozenClock) -> str:
    job_id = await submit(store, "a", lifetime_us=MINUTE)
    await submit(store, "dependent", depends_on=(job_id,))
    clock.advance(us=MINUTE)
    await store.sweeps.end_lifetimes()
    return job_id


async def _outlived_while_running(store: SqlStore, clock: FrozenClock) -> str:
    claim = await taken(store, "a", lifetime_us=MINUTE)
    await submit(store, "dependent", depends_on=(claim.job.id,))
    clock.advance(us=MINUTE)
    await store.sweeps.end_lifetimes()
    return claim.job.id


PATHS: list[Ender] = [
    _cancelled_while_waiting,
    _cancelled_by_force,
    _cancelled_instead_of_retried,
    _reclaimed_to_death,
    _outlived_while_waiting,
    _outlived_while_running,
]


@pytest.mark.parametrize("ender", PATHS, ids=lambda ender: ender.__name__.strip("_"))
async def test_no_path_to_an_end_strands_a_dependent(store: SqlStore, clock: FrozenClock, ender: Ender) -> None:
    ended = await store.get(await ender(store, clock))
    assert ended.state in (CANCELLED, DEAD)
    page = await store.search(Search(type="dependent"))
    assert [dependent.state for dependent in page.jobs] == [ended.state]


@pytest.mark.parametrize(
    ("ends", "then"),
    [
        ((CANCELLED, FAILED), FAILED),
        ((FAILED, CANCELLED, DEAD), DEAD),
        ((COMPLETED, CANCELLED), CANCELLED),
        ((DEAD, FAILED), DEAD),
    ],
)
async def test_of_ends_in_one_batch_the_gravest_wins(store: SqlStore, ends: tuple[State, ...], then: State) -> None:
    claims = [await taken(store, f"t{i}", max_attempts=1) for i in range(len(ends))]
    job_id = await submit(store, depends_on=tuple(c.job.id for c in claims))
    outcomes: dict[State, Outcome] = {
        COMPLETED: Success(),
        FAILED: failure(Category.PERMANENT),
        DEAD: failure(),
        CANCELLED: failure(Category.CANCELLED),
    }
    await store.settle([Report(c, outcomes[end]) for c, end in zip(claims, ends, strict=True)])
    dependent = await store.get(job_id)
    assert dependent.state is then
    assert dependent.error_document is not None
    assert claims[ends.index(then)].job.id in dependent.error_document["message"]


async def test_of_ends_before_the_submission_the_gravest_wins(store: SqlStore) -> None:
    ended = [await submit_in(store, end, str(end)) for end in (CANCELLED, DEAD, FAILED, COMPLETED)]
    live = await submit(store, "live", delay_us=MINUTE)
    dependent = await store.get(await submit(store, depends_on=(live, *(e.id for e in ended))))
    assert dependent.state is DEAD
    assert dependent.error_document is not None
    assert ended[1].id in dependent.error_document["message"]


async def test_a_bad_end_does_not_wait_for_the_other_dependencies(store: SqlStore) -> None:
    first, second = await taken(store, "a"), await taken(store, "b")
    job_id = await submit(store, depends_on=(first.job.id, second.job.id))
    await fail(store, first, Category.PERMANENT)
    ended = await store.get(job_id)
    assert ended.state is FAILED
    await complete(store, second)
    assert await store.get(job_id) == ended


async def test_the_rest_of_a_chain_is_cancelled_when_a_link_fails(store: SqlStore) -> None:
    ids = [await submit(store, "link")]
    for _ in range(4):
        ids.append(await submit(store, "link", depends_on=(ids[-1],), dependency=CHAIN))
    await complete(store, await take_one(store))
    await fail(store, await take_one(store), Category.PERMANENT)
    assert await states_of(store, *ids) == [COMPLETED, FAILED, CANCELLED, CANCELLED, CANCELLED]


@needs(Capability.CHOSEN_IDS)
async def test_an_end_runs_down_a_line_of_a_hundred_in_one_transaction(store: SqlStore) -> None:
    ids = new_ids(100)
    drafts = [Draft(ids[0], job())]
    drafts += [Draft(later, job(depends_on=(earlier,))) for earlier, later in pairwise(ids)]
    await store.submit_graph(drafts)
    assert (await store.get(ids[-1])).depth == 100
    await fail(store, await take_one(store), Category.PERMANENT)
    assert set(await states_of(store, *ids)) == {FAILED}


async def test_an_end_reaches_a_thousand_dependents_in_one_transaction(store: SqlStore) -> None:
    first = await taken(store, "a")
    await store.submit_many([job(depends_on=(first.job.id,)) for _ in range(1000)])
    await complete(store, first)
    assert (await store.stats()).by_state == {"completed": 1, "scheduled": 1000}


async def test_a_retried_failure_does_not_bring_its_ended_dependents_back(store: SqlStore) -> None:
    claim = await taken(store, "a")
    job_id = await submit(store, depends_on=(claim.job.id,))
    await fail(store, claim, Category.PERMANENT)
    await store.retry(claim.job.id)
    await complete(store, await take_one(store))
    assert await state_of(store, job_id) is FAILED


async def test_a_cascade_through_mixed_kinds_ends_where_after_any_lets_go(store: SqlStore) -> None:
    first = await taken(store, "a")
    after = await submit(store, "b", depends_on=(first.job.id,))
    chained = await submit(store, "c", depends_on=(after,), dependency=CHAIN)
    survivor = await submit(store, "d", depends_on=(chained,), dependency=ANY)
    waiting = await submit(store, "e", depends_on=(survivor,))
    await fail(store, first, Category.PERMANENT)
    assert await states_of(store, after, chained, survivor, waiting) == [
        FAILED,
        CANCELLED,
        State.SCHEDULED,
        State.PENDING,
    ]
