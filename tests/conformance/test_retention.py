"""Retention: what is removed, when, what stays of it, and who may know."""

from __future__ import annotations

import pytest

from euterpe.model.errors import JobNotFound, JobPruned
from euterpe.model.events.outbox import Delivery
from euterpe.model.retention import Chore, Retention
from euterpe.model.state import TERMINAL, State
from euterpe.ports import Capability
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import (
    CALLBACK,
    DAY,
    HOUR,
    complete,
    job,
    state_of,
    submit,
    submit_in,
    take,
    take_one,
    taken,
)
from tests.conformance.clock import FrozenClock
from tests.conformance.engines import Tables, row_counts
from tests.conformance.needs import TABLES, needs

KEPT_DAYS = {State.COMPLETED: 7, State.CANCELLED: 7, State.FAILED: 30, State.DEAD_LETTER: 90}


@pytest.mark.parametrize("state", sorted(TERMINAL))
async def test_an_ended_job_is_kept_for_its_time_and_not_longer(
    store: SqlStore, clock: FrozenClock, state: State
) -> None:
    ended = await submit_in(store, state)
    clock.advance(us=KEPT_DAYS[state] * DAY - 1)
    assert await store.sweeps.prune() == 0
    clock.advance(us=1)
    assert await store.sweeps.prune() == 1
    with pytest.raises(JobPruned):
        await store.get(ended.id)


@needs(TABLES)
async def test_housekeeping_says_how_long_the_oldest_ended_job_is_overdue(store: SqlStore, clock: FrozenClock) -> None:
    await submit_in(store, State.COMPLETED)
    clock.advance(days=7)
    clock.advance(us=HOUR)
    await submit_in(store, State.FAILED)
    assert await store.sweeps.overdue_us() == HOUR
    assert await store.sweeps.tidy(Chore.JOBS, 10) == 1
    assert await store.sweeps.overdue_us() == 0


async def test_a_step_of_housekeeping_removes_no_more_than_it_is_told(store: SqlStore, clock: FrozenClock) -> None:
    for state in (State.COMPLETED, State.COMPLETED, State.CANCELLED, State.CANCELLED):
        await submit_in(store, state)
    clock.advance(days=8)
    assert [await store.sweeps.tidy(Chore.JOBS, 3) for _ in range(3)] == [3, 1, 0]


@needs(Capability.DEPENDENCIES)
async def test_live_jobs_are_never_pruned(store: SqlStore, clock: FrozenClock) -> None:
    live = [
        await submit_in(store, s, str(s), lifetime_us=1000 * DAY) for s in (State.PENDING, State.DELAYED, State.RUNNING)
    ]
    clock.advance(days=365)
    assert await store.sweeps.prune() == 0
    for waiting in live:
        await store.get(waiting.id)


@needs(Capability.ANY_REQUESTER)
async def test_a_pruned_job_leaves_a_tombstone_that_only_its_requester_sees(
    store: SqlStore, clock: FrozenClock
) -> None:
    done = await submit_in(store, State.COMPLETED, requester_id="alice")
    clock.advance(days=8)
    await store.sweeps.prune()
    for ask in (store.get, store.attempts, store.cancel, store.retry):
        with pytest.raises(JobPruned):
            await ask(done.id, "alice")
        with pytest.raises(JobPruned):
            await ask(done.id)
        with pytest.raises(JobNotFound) as unknown:
            await ask(done.id, "mallory")
        assert not isinstance(unknown.value, JobPruned)


async def test_a_job_that_never_was_has_no_tombstone(store: SqlStore) -> None:
    with pytest.raises(JobNotFound) as unknown:
        await store.get("00000000-0000-4000-8000-000000000000")
    assert not isinstance(unknown.value, JobPruned)


async def test_a_tombstone_is_forgotten_in_its_time(store: SqlStore, clock: FrozenClock) -> None:
    done = await submit_in(store, State.COMPLETED)
    clock.advance(days=7)
    await store.sweeps.prune()
    clock.advance(us=30 * DAY - 1)
    await store.sweeps.prune()
    with pytest.raises(JobPruned):
        await store.get(done.id)
    clock.advance(us=1)
    await store.sweeps.prune()
    with pytest.raises(JobNotFound) as gone:
        await store.get(done.id)
    assert not isinstance(gone.value, JobPruned)


async def test_pruning_takes_attempts_and_edges_along_and_leaves_the_rest(
    store: SqlStore, clock: FrozenClock, tables: Tables
) -> None:
    first = await taken(store, "a")
    second = await submit(store, "b", depends_on=(first.job.id,))
    await complete(store, first)
    clock.advance(days=5)
    await complete(store, await take_one(store))
    clock.advance(days=3)
    assert await store.sweeps.prune() == 1
    counts = await row_counts(tables)
    assert (counts["inbox_jobs"], counts["job_attempts"], counts["job_dependencies"]) == (1, 1, 0)
    assert await state_of(store, second) is State.COMPLETED


@needs(Capability.DEPENDENCIES)
async def test_a_waiting_dependent_is_not_disturbed_when_what_it_waited_for_is_pruned(
    store: SqlStore, clock: FrozenClock
) -> None:
    first, second = (
        await taken(store, "a"),
        await taken(store, "b", lifetime_us=30 * DAY, execution_timeout_us=30 * DAY),
    )
    job_id = await submit(store, "c", depends_on=(first.job.id, second.job.id), lifetime_us=30 * DAY)
    await complete(store, first)
    clock.advance(days=8)
    assert await store.sweeps.prune() == 1
    assert await state_of(store, job_id) is State.PENDING
    await complete(store, second)
    assert await state_of(store, job_id) is State.SCHEDULED


async def test_retention_times_can_be_chosen(store: SqlStore, clock: FrozenClock) -> None:
    await submit_in(store, State.COMPLETED, "a")
    failed = await submit_in(store, State.FAILED, "b")
    clock.advance(hours=1)
    assert await store.sweeps.prune(Retention(completed_us=HOUR)) == 1
    assert await state_of(store, failed.id) is State.FAILED


async def test_pruning_handles_more_than_one_batch(store: SqlStore, clock: FrozenClock, tables: Tables) -> None:
    from euterpe.model.claims.exchange import Report
    from euterpe.model.claims.outcome import Success

    await store.submit_many([job() for _ in range(600)])
    await store.settle([Report(claim, Success()) for claim in await take(store, 600)])
    clock.advance(days=8)
    assert await store.sweeps.prune() == 600
    counts = await row_counts(tables)
    assert (counts["inbox_jobs"], counts["job_attempts"], counts["euterpe_tombstones"]) == (0, 0, 600)


async def test_delivered_and_dead_events_are_pruned_with_their_log_and_waiting_ones_are_not(
    store: SqlStore, clock: FrozenClock, tables: Tables
) -> None:
    await store.submit_many([job(callback_url=CALLBACK) for _ in range(3)])
    await take(store)
    delivered, dead, waiting = await store.outbox.claim("d1", 10)
    ends = ((delivered, "completed"), (dead, "dead_letter"), (waiting, "retrying"))
    await store.outbox.settle(
        [Delivery(event_id=e.id, claim_version=e.claim_version, state=s, outcome="x") for e, s in ends]
    )
    clock.advance(us=7 * DAY - 1)
    await store.sweeps.prune()
    assert (await row_counts(tables))["job_outbox_events"] == 3
    clock.advance(us=1)
    await store.sweeps.prune()
    counts = await row_counts(tables)
    assert (counts["job_outbox_events"], counts["euterpe_outbox_deliveries"]) == (1, 1)
    assert (await store.outbox.get(waiting.id)).state == "retrying"


async def test_a_failed_job_that_was_retried_is_not_pruned(store: SqlStore, clock: FrozenClock) -> None:
    failed = await submit_in(store, State.FAILED, lifetime_us=100 * DAY)
    clock.advance(days=29)
    await store.retry(failed.id)
    clock.advance(days=2)
    assert await store.sweeps.prune() == 0
