"""Acts on everything that matches a query: each job once, whoever works, and no job that comes or changes later."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from euterpe.model.bulk import Action, BulkOperation, BulkOrder, JobCount, OperationState
from euterpe.model.errors import IdempotencyConflict, IllegalTransition, InvalidInput, JobNotFound
from euterpe.model.failures.failure import Category
from euterpe.model.reading.job_query import parse_query
from euterpe.model.reading.views import Search
from euterpe.model.state import State
from euterpe.model.submitting.batch import SubmitResult
from euterpe.model.submitting.submission import check
from euterpe.ports import Capability
from euterpe.stores.sql.bulk import batches
from euterpe.stores.sql.bulk import operations as bulk_operations
from euterpe.stores.sql.maintenance import replay
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import CALLBACK, complete, fail, job, state_of, states_of, submit, submit_in, take, taken
from tests.conformance.clock import FrozenClock
from tests.conformance.engines import Tables
from tests.conformance.needs import TABLES, needs

pytestmark = needs(Capability.BULK)


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_operations.Operations, "batch", 3)


async def order(store: SqlStore, action: Action, query: str, **more: Any) -> BulkOperation:
    search = more.pop("search", None) or parse_query(query, await store.now_us())
    said: dict[str, Any] = {"ordered_by": "local"} | more
    return (await store.operations.order(BulkOrder(action=action, query=query, search=search, **said)))[0]


async def finished(store: SqlStore, operation: BulkOperation) -> BulkOperation:
    """As the sweeps leave it."""
    while (await store.sweeps.work_operations()).more:
        pass
    return await store.operations.get(operation.id)


async def failed_jobs(store: SqlStore, count: int, **said: Any) -> list[str]:
    await store.submit_many([job("flaky", **said) for _ in range(count)])
    claims = await take(store, count, types=("flaky",))
    for claim in claims:
        await fail(store, claim, Category.PERMANENT)
    return [claim.job.id for claim in claims]


async def test_everything_that_matches_is_cancelled_and_what_has_ended_is_passed_over(store: SqlStore) -> None:
    waiting = [await submit(store, "report.render") for _ in range(7)]
    ended = (await submit_in(store, State.COMPLETED, "report.mail")).id
    running = (await taken(store, "report.slow")).job.id
    other = await submit(store, "invoice")
    ordered = await order(store, Action.CANCEL, "type:report.*")
    assert (ordered.state, ordered.total, ordered.total_exact) == (OperationState.RUNNING, 9, True)
    told = await finished(store, ordered)
    assert (told.state, told.done, told.skipped, told.failed) == (OperationState.COMPLETED, 8, {"already_ended": 1}, 0)
    assert set(await states_of(store, *waiting)) == {State.CANCELLED}
    assert await states_of(store, ended, running, other) == [State.COMPLETED, State.RUNNING, State.SCHEDULED]


async def test_a_forced_cancel_takes_running_jobs_away(store: SqlStore) -> None:
    claim = await taken(store, "slow")
    await finished(store, await order(store, Action.CANCEL, "type:slow", force=True))
    assert await state_of(store, claim.job.id) is State.CANCELLED
    with pytest.raises(InvalidInput, match="force"):
        await order(store, Action.RETRY, "type:slow", force=True)


async def test_a_retry_lets_failed_jobs_go_on_and_replays_those_that_cannot(store: SqlStore) -> None:
    again = await failed_jobs(store, 4)
    dead = (await submit_in(store, State.DEAD_LETTER, "flaky.dead")).id
    told = await finished(store, await order(store, Action.RETRY, "type:flaky*"))
    assert (told.done, told.skipped) == (5, {})
    assert set(await states_of(store, *again)) == {State.SCHEDULED}
    assert await state_of(store, dead) is State.DEAD_LETTER
    page = await store.search(Search(state=State.SCHEDULED, type="flaky.dead"))
    assert [j.replay_of for j in page.jobs] == [dead]


async def test_a_replay_makes_one_new_job_of_each_and_not_of_its_own_replays(store: SqlStore) -> None:
    ids = await failed_jobs(store, 10)
    running = (await taken(store, "flaky.running")).job.id
    told = await finished(store, await order(store, Action.REPLAY, "type:flaky*"))
    assert (told.done, told.skipped) == (10, {"not_ended": 1})
    page = await store.search(Search(state=State.SCHEDULED, limit=100))
    assert sorted(j.replay_of or "" for j in page.jobs) == sorted(ids)
    assert set(await states_of(store, *ids)) == {State.FAILED}
    assert await state_of(store, running) is State.RUNNING


@pytest.mark.parametrize("then", [Action.REPLAY, Action.RETRY])
async def test_a_plain_job_that_was_replayed_is_not_run_again_by_another_operation(
    store: SqlStore, then: Action
) -> None:
    ids = await failed_jobs(store, 5)
    assert (await finished(store, await order(store, Action.REPLAY, "state:failed"))).done == 5
    told = await finished(store, await order(store, then, "state:failed"))
    assert (told.done, told.failed, told.skipped) == (0, 0, {"replayed_since": 5})
    replays = (await store.search(Search(state=State.SCHEDULED, limit=100))).jobs
    assert sorted(j.replay_of or "" for j in replays) == sorted(ids)
    submitted = (await store.replay(ids[0])).first
    assert isinstance(submitted, SubmitResult)
    assert submitted.job_id in {j.id for j in replays}


@needs(Capability.UNIQUE_KEYS, Capability.DEPENDENCIES)
@pytest.mark.parametrize("with_dependent", [False, True])
async def test_a_retry_passes_over_a_job_whose_unique_key_another_has(store: SqlStore, with_dependent: bool) -> None:
    (failed,) = await failed_jobs(store, 1, unique_key="k")
    if with_dependent:
        await store.retry(failed)
        await submit(store, "then", depends_on=(failed,))
        (claim,) = await take(store, 1, types=("flaky",))
        await fail(store, claim, Category.PERMANENT)
    await submit(store, "flaky", unique_key="k")
    told = await finished(store, await order(store, Action.RETRY, "type:flaky state:failed"))
    assert (told.done, told.failed, told.skipped) == (0, 0, {"unique_key_taken": 1})
    assert await state_of(store, failed) is State.FAILED


@needs(Capability.DEPENDENCIES)
@pytest.mark.parametrize("action", [Action.REPLAY, Action.RETRY])
async def test_no_dependent_runs_before_its_dependency(store: SqlStore, action: Action) -> None:
    charges = [await submit(store, "charge", max_attempts=1) for _ in range(4)]
    mails = [await submit(store, "mail", depends_on=(charge,)) for charge in charges]
    for claim in await take(store):
        await fail(store, claim)
    told = await finished(store, await order(store, action, "state:dead_letter"))
    assert (told.failed, told.done + told.skipped.get("dependency_ended", 0)) == (0, 8)
    waiting = (await store.search(Search(state=State.PENDING))).jobs
    assert sorted(job.replay_of or "" for job in waiting) == sorted(mails)
    assert {claim.job.type for claim in await take(store)} == {"charge"}
    alone = await finished(store, await order(store, action, "state:dead_letter type:mail"))
    assert len((await store.search(Search(state=State.PENDING))).jobs) == 4, alone


@needs(Capability.DEPENDENCIES)
@pytest.mark.parametrize("action", [Action.REPLAY, Action.RETRY])
async def test_what_ended_because_of_a_replayed_job_runs_again_behind_it_though_it_does_not_match(
    store: SqlStore, action: Action
) -> None:
    charges = [await submit(store, "charge", max_attempts=1) for _ in range(4)]
    mails = [await submit(store, "mail", depends_on=(charge,)) for charge in charges]
    books = [await submit(store, "book", depends_on=(mails[0],))]
    for claim in await take(store):
        await fail(store, claim)
    search = parse_query("state:dead_letter type:charge", await store.now_us())
    assert await store.operations.count(search, dependents=True) == JobCount(4, True, dependents=5)
    assert (await store.operations.count(search)).dependents is None
    told = await finished(store, await order(store, action, "state:dead_letter type:charge"))
    assert (told.total, told.done, told.dependents, told.failed, told.skipped) == (4, 4, 5, 0, {})
    waiting = (await store.search(Search(state=State.PENDING))).jobs
    assert sorted(job.replay_of or "" for job in waiting) == sorted([*mails, *books])
    for kind, count in (("charge", 4), ("mail", 4), ("book", 1)):
        claims = await take(store, types=(kind,), limit=count)
        assert len(claims) == count, kind
        for claim in claims:
            await complete(store, claim)
    assert (await store.search(Search(state=State.PENDING))).jobs == []


async def test_a_job_whose_dependents_cannot_be_replayed_is_left_as_it_was(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await submit(store, "flaky")
    dependent = await submit(store, "load", depends_on=(first,), payload=b'"much"')
    await fail(store, (await take(store, 1))[0], Category.PERMANENT)
    monkeypatch.setattr(replay, "check", lambda submission, _limit: check(submission, payload_limit=5))
    done = await finished(store, await order(store, Action.RETRY, "type:flaky"))
    assert (done.done, done.failed) == (0, 1)
    assert await states_of(store, first, dependent) == [State.FAILED, State.FAILED]


async def test_jobs_that_come_or_change_later_do_not_join(store: SqlStore, clock: FrozenClock) -> None:
    early = await failed_jobs(store, 1)
    claim = await taken(store, "flaky")
    ordered = await order(store, Action.RETRY, "state:failed")
    clock.advance(seconds=1)
    await fail(store, claim, Category.PERMANENT)
    late = await failed_jobs(store, 2)
    told = await finished(store, ordered)
    assert (told.total, told.done, told.skipped) == (1, 1, {"changed_since": 1})
    assert await states_of(store, *early, claim.job.id, *late) == [State.SCHEDULED, *[State.FAILED] * 3]


async def test_a_job_that_only_moved_is_still_cancelled_where_no_state_was_asked_for(
    store: SqlStore, clock: FrozenClock
) -> None:
    await submit(store, "report")
    ordered = await order(store, Action.CANCEL, "type:report")
    clock.advance(seconds=1)
    await take(store, 1)
    told = await finished(store, ordered)
    assert (told.done, told.skipped) == (1, {})


async def test_two_who_work_at_once_act_on_every_job_once(store: SqlStore, tables: Tables) -> None:
    ids = await failed_jobs(store, 20, callback_url=CALLBACK)
    ordered = await order(store, Action.REPLAY, "state:failed")
    await asyncio.gather(*(store.sweeps.work_operations() for _ in range(6)))
    told = await finished(store, ordered)
    assert (told.done, told.examined) == (20, 20)
    page = await store.search(Search(state=State.SCHEDULED, limit=100))
    assert Counter(j.replay_of for j in page.jobs) == Counter(ids)


async def test_an_operation_that_is_cancelled_acts_on_no_further_job(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await failed_jobs(store, 9)
    ordered = await order(store, Action.RETRY, "state:failed")
    monkeypatch.setattr(bulk_operations, "BUDGET_S", 0.0)
    await store.sweeps.work_operations()
    stopped = await store.operations.cancel(ordered.id)
    assert (stopped.done, stopped.state) == (3, OperationState.CANCELLED)
    monkeypatch.setattr(bulk_operations, "BUDGET_S", 1.0)
    told = await finished(store, ordered)
    assert (told.done, told.state) == (3, OperationState.CANCELLED)
    assert (await store.operations.cancel(ordered.id)).state is OperationState.CANCELLED


async def test_an_operation_that_is_done_cannot_be_cancelled(store: SqlStore) -> None:
    ordered = await order(store, Action.RETRY, "state:failed")
    assert ordered.state is OperationState.COMPLETED, "there was nothing to do"
    with pytest.raises(IllegalTransition, match="a completed operation cannot become cancelled"):
        await store.operations.cancel(ordered.id)


async def test_the_same_key_is_one_operation(store: SqlStore) -> None:
    await failed_jobs(store, 2)
    first = await order(store, Action.RETRY, "state:failed", key="k")
    await finished(store, first)
    assert (await order(store, Action.RETRY, "state:failed", key="k")).id == first.id
    with pytest.raises(IdempotencyConflict, match="operation"):
        await order(store, Action.CANCEL, "state:failed", key="k")
    assert [o.id for o in await store.operations.list()] == [first.id]


async def test_a_query_that_says_nothing_is_refused(store: SqlStore) -> None:
    await submit(store)
    with pytest.raises(InvalidInput):
        await order(store, Action.CANCEL, " ")


async def test_an_operation_that_is_not_there_is_not_found(store: SqlStore) -> None:
    for nobody in ("b7c1f7f2-1f0a-4f7e-8a3c-0d0b8f1e2a55", "../jobs", "\x00"):
        with pytest.raises(JobNotFound):
            await store.operations.get(nobody)
        with pytest.raises(JobNotFound):
            await store.operations.cancel(nobody)


@needs(Capability.ANY_REQUESTER)
async def test_a_requester_sees_and_touches_only_its_own(store: SqlStore) -> None:
    await submit(store, requester_id="a")
    theirs = await submit(store, requester_id="b")
    search = Search(type="work", requester_id="a", scan_limit=100)
    said = BulkOrder(action=Action.CANCEL, query="type:work", search=search, ordered_by="a")
    ordered, _ = await store.operations.order(said)
    assert ordered.total == 1
    await finished(store, ordered)
    assert await state_of(store, theirs) is State.SCHEDULED
    with pytest.raises(JobNotFound):
        await store.operations.get(ordered.id, "b")
    assert await store.operations.list("b") == []
    assert [o.id for o in await store.operations.list("a")] == [ordered.id]


async def test_a_count_is_bounded_and_says_so(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    await store.submit_many([job() for _ in range(12)])
    query = parse_query("state:scheduled", await store.now_us())
    assert await store.operations.count(query) == JobCount(12, exact=True)
    monkeypatch.setattr("euterpe.stores.sql.reads.matching.COUNTED", 5)
    assert await store.operations.count(query) == JobCount(5, exact=False)


@needs(Capability.ANY_REQUESTER)
async def test_a_sparse_query_is_worked_off_over_many_stretches(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("euterpe.model.reading.job_query.SCAN_LIMIT", 10)
    monkeypatch.setattr("euterpe.stores.sql.reads.matching.SCAN_LIMIT", 10)
    monkeypatch.setattr("euterpe.stores.sql.reads.matching.LOOKED_AT", 100)
    rare = [await submit(store, "rare")]
    for _ in range(3):
        await store.submit_many([job() for _ in range(14)])
        rare.append(await submit(store, "rare"))
    ordered = await order(store, Action.CANCEL, "state:scheduled type:rare")
    assert (ordered.total, ordered.total_exact) == (4, True)
    told = await finished(store, ordered)
    assert (told.done, told.state) == (4, OperationState.COMPLETED)
    assert set(await states_of(store, *rare)) == {State.CANCELLED}


@needs(Capability.ANY_REQUESTER)
async def test_a_batch_that_is_cut_off_has_done_nothing(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The jobs and the place are written together: after an end in between, the next one begins at the same place."""
    ids = await failed_jobs(store, 3)
    ordered = await order(store, Action.REPLAY, "state:failed")
    real = batches._advance

    def cut_off(*_: object) -> Any:
        raise RuntimeError("killed")

    monkeypatch.setattr(batches, "_advance", cut_off)
    with pytest.raises(RuntimeError, match="killed"):
        await store.sweeps.work_operations()
    assert (await store.search(Search(state=State.SCHEDULED))).jobs == []
    monkeypatch.setattr(batches, "_advance", real)
    told = await finished(store, ordered)
    assert told.done == 3
    assert len((await store.search(Search(state=State.SCHEDULED))).jobs) == len(ids)


@needs(Capability.ANY_REQUESTER)
async def test_operations_that_ended_long_ago_are_forgotten(store: SqlStore, clock: FrozenClock) -> None:
    ordered = await order(store, Action.RETRY, "state:failed")
    clock.advance(hours=91 * 24)
    await store.sweeps.prune()
    with pytest.raises(JobNotFound):
        await store.operations.get(ordered.id)


@needs(Capability.ANY_REQUESTER)
async def test_a_requester_has_so_many_under_way_and_no_more(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("euterpe.stores.sql.bulk.operation_rows.RUNNING_LIMIT", 2)
    await submit(store)
    for _ in range(2):
        await order(store, Action.CANCEL, "state:scheduled")
    with pytest.raises(InvalidInput, match="under way"):
        await order(store, Action.CANCEL, "state:scheduled")
    await order(store, Action.CANCEL, "state:scheduled", ordered_by="somebody else")


@needs(Capability.ANY_REQUESTER)
async def test_an_operation_whose_query_cannot_be_read_ends_and_stops_no_other(
    store: SqlStore, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    (job_id,) = await failed_jobs(store, 1)
    spoilt = await order(store, Action.RETRY, "state:failed type:flaky")
    await tables.run("UPDATE euterpe_operations SET resolved = 'state:unheard'")
    good = await order(store, Action.RETRY, "state:failed")
    assert (await finished(store, good)).done == 1
    told = await store.operations.get(spoilt.id)
    assert (told.state, told.done) == (OperationState.CANCELLED, 0)
    assert "the states are" in (told.error or "")
    assert await state_of(store, job_id) is State.SCHEDULED
    monkeypatch.setattr("euterpe.model.reading.job_query.QUERY_LIMIT", 20)
    with pytest.raises(InvalidInput):
        await order(store, Action.RETRY, "created:<1h", search=Search(created_after=1, created_before=2))


@needs(TABLES)
async def test_an_operation_that_cannot_be_read_ends_alone(store: SqlStore, tables: Tables) -> None:
    jobs = [await submit(store, "report") for _ in range(4)]
    bad = await order(store, Action.CANCEL, "type:report")
    good = await order(store, Action.CANCEL, "type:report")
    await tables.run(f"UPDATE euterpe_operations SET skipped = 'nonsense' WHERE id = '{bad.id}'")
    assert (await finished(store, good)).state is OperationState.COMPLETED
    assert set(await states_of(store, *jobs)) == {State.CANCELLED}
    ended = await store.operations.get(bad.id)
    assert ended.state is OperationState.CANCELLED
    assert "order it again" in (ended.error or "")
    assert {operation.id for operation in await store.operations.list()} == {bad.id, good.id}
