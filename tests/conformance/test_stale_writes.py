"""The fence: a claim that no longer owns its job changes nothing at all, on any path."""

from __future__ import annotations

from typing import Any

import pytest

from euterpe.model.claims.exchange import Report
from euterpe.model.claims.outcome import Cancelled, Failed, Outcome, Released, Success
from euterpe.model.errors import StaleLease
from euterpe.model.failures.failure import LOST_LEASE, Category, Failure
from euterpe.model.job import Claim
from euterpe.model.state import State
from euterpe.ports import Capability
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import (
    CALLBACK,
    complete,
    end,
    fail,
    failure,
    job,
    release,
    state_of,
    submit,
    take,
    take_one,
    taken,
)
from tests.conformance.clock import FrozenClock
from tests.conformance.engines import Tables
from tests.conformance.needs import TABLES, needs

OUTCOMES: dict[str, Outcome] = {
    "success": Success(b'"late"'),
    "permanent": failure(Category.PERMANENT),
    "temporary": failure(),
    "timeout": failure(Category.TIMEOUT),
    "system": failure(Category.SYSTEM),
    "released": Released(),
    "cancelled": Cancelled("late"),
}


async def everything(tables: Tables) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table."""
    return {
        name: sorted(await tables.run(f"SELECT * FROM {name}"), key=repr)
        for name in await tables.names()
        if name != "euterpe_migrations"
    }


async def lose(store: SqlStore, clock: FrozenClock, claim: Claim) -> None:
    """The lease runs out and a sweep takes the job away."""
    clock.advance(minutes=10)
    assert await store.sweeps.reclaim() == 1


@pytest.mark.parametrize("outcome", OUTCOMES.values(), ids=OUTCOMES)
async def test_an_attempt_whose_lease_was_swept_away_writes_nothing(
    store: SqlStore, clock: FrozenClock, tables: Tables, outcome: Outcome
) -> None:
    claim = await taken(store, callback_url=CALLBACK)
    await submit(store, "dependent", depends_on=(claim.job.id,), callback_url=CALLBACK)
    await lose(store, clock, claim)
    before = await everything(tables)
    clock.advance(seconds=1)
    verdict = await end(store, claim, outcome)
    assert (verdict.accepted, verdict.state) == (False, None)
    assert await everything(tables) == before


@pytest.mark.parametrize("outcome", OUTCOMES.values(), ids=OUTCOMES)
async def test_an_older_claim_cannot_end_the_job_of_a_newer_one(
    store: SqlStore, clock: FrozenClock, tables: Tables, outcome: Outcome
) -> None:
    old = await taken(store, callback_url=CALLBACK, max_attempts=5)
    await submit(store, "dependent", depends_on=(old.job.id,))
    await lose(store, clock, old)
    clock.advance(minutes=1)
    await store.sweeps.promote()
    new = await take_one(store, worker_id="w2")
    before = await everything(tables)
    assert not (await end(store, old, outcome)).accepted
    assert await everything(tables) == before
    assert (await complete(store, new)).accepted


async def test_the_same_worker_is_fenced_from_its_own_earlier_claim(store: SqlStore, clock: FrozenClock) -> None:
    old = await taken(store)
    await lose(store, clock, old)
    clock.advance(minutes=1)
    await store.sweeps.promote()
    new = await take_one(store)
    assert old.job.worker_id == new.job.worker_id
    assert not (await complete(store, old)).accepted
    assert await state_of(store, new.job.id) is State.RUNNING


async def test_a_late_write_is_accepted_while_nobody_took_the_job_away(store: SqlStore, clock: FrozenClock) -> None:
    claim = await taken(store)
    clock.advance(minutes=10)
    assert (await complete(store, claim)).accepted


@pytest.mark.parametrize("outcome", OUTCOMES.values(), ids=OUTCOMES)
async def test_a_worker_fenced_off_by_force_writes_nothing(store: SqlStore, tables: Tables, outcome: Outcome) -> None:
    claim = await taken(store, callback_url=CALLBACK)
    await store.cancel(claim.job.id, force=True)
    before = await everything(tables)
    assert not (await end(store, claim, outcome)).accepted
    assert await everything(tables) == before


async def test_a_worker_that_outlived_the_jobs_lifetime_writes_nothing(
    store: SqlStore, clock: FrozenClock, tables: Tables
) -> None:
    claim = await taken(store, lifetime_us=1_000)
    clock.advance(us=1_000)
    await store.sweeps.end_lifetimes()
    before = await everything(tables)
    for outcome in OUTCOMES.values():
        assert not (await end(store, claim, outcome)).accepted
    assert await everything(tables) == before


@pytest.mark.parametrize("outcome", OUTCOMES.values(), ids=OUTCOMES)
async def test_settling_the_same_outcome_twice_is_accepted_and_written_once(
    store: SqlStore, clock: FrozenClock, tables: Tables, outcome: Outcome
) -> None:
    claim = await taken(store, callback_url=CALLBACK)
    first = await end(store, claim, outcome)
    before = await everything(tables)
    clock.advance(seconds=30)
    again = await end(store, claim, outcome)
    assert (again.accepted, again.state) == (True, first.state)
    assert await everything(tables) == before


async def test_a_repeated_settle_is_confirmed_even_after_a_newer_claim(store: SqlStore, clock: FrozenClock) -> None:
    claim = await taken(store)
    await fail(store, claim)
    clock.advance(minutes=1)
    await store.sweeps.promote()
    newer = await take_one(store)
    again = await fail(store, claim)
    assert (again.accepted, again.state) == (True, State.RETRYING)
    assert await state_of(store, newer.job.id) is State.RUNNING


async def test_another_outcome_for_a_closed_attempt_is_refused(store: SqlStore) -> None:
    claim = await taken(store)
    await complete(store, claim, b"1")
    for name, outcome in OUTCOMES.items():
        if name != "success":
            assert not (await end(store, claim, outcome)).accepted, name
    stored = await store.get(claim.job.id)
    assert (stored.state, stored.result) == (State.COMPLETED, b"1")


async def test_a_worker_that_names_the_sweeps_own_reason_is_still_stale(store: SqlStore, clock: FrozenClock) -> None:
    claim = await taken(store)
    await lose(store, clock, claim)
    assert not (await end(store, claim, Failed(Failure(Category.SYSTEM, "out of memory", code="oom")))).accepted
    assert LOST_LEASE.category is Category.SYSTEM


async def test_a_batch_tells_stale_and_good_settles_apart(store: SqlStore, clock: FrozenClock, tables: Tables) -> None:
    await store.submit_many([job(callback_url=CALLBACK) for _ in range(6)])
    claims = await take(store)
    for gone in (claims[1], claims[4]):
        await store.cancel(gone.job.id, force=True)
    dependents = [await submit(store, f"d{i}", depends_on=(c.job.id,)) for i, c in enumerate(claims) if i not in (1, 4)]
    verdicts = await store.settle([Report(c, Success(b"1")) for c in claims])
    assert [v.accepted for v in verdicts] == [True, False, True, True, False, True]
    assert [await state_of(store, c.job.id) for c in claims] == [
        State.CANCELLED if i in (1, 4) else State.COMPLETED for i in range(6)
    ]
    assert {await state_of(store, d) for d in dependents} == {State.SCHEDULED}
    [(count,)] = await tables.run("SELECT COUNT(*) FROM job_outbox_events WHERE type = 'job.completed'")
    assert count == 4


@needs(Capability.RAW_BYTES)
async def test_a_batch_with_an_old_and_a_new_claim_of_one_job_accepts_only_the_new_one(
    store: SqlStore, clock: FrozenClock
) -> None:
    old = await taken(store)
    await lose(store, clock, old)
    clock.advance(minutes=1)
    await store.sweeps.promote()
    new = await take_one(store)
    for first, second in (((old, Success(b"old")), (new, Success(b"new"))),):
        verdicts = await store.settle([Report(*first), Report(*second)])
        assert [v.accepted for v in verdicts] == [False, True]
    assert (await store.get(new.job.id)).result == b"new"
    assert [(a.claim_version, a.outcome) for a in await store.attempts(new.job.id)] == [(1, "system"), (2, "completed")]


@needs(Capability.RAW_BYTES)
async def test_a_batch_with_a_new_claim_before_the_old_one_accepts_only_the_new_one(store: SqlStore) -> None:
    old = await taken(store)
    await release(store, old)
    new = await take_one(store)
    verdicts = await store.settle([Report(new, Success(b"new")), Report(old, Success(b"old"))])
    assert [v.accepted for v in verdicts] == [True, False]
    assert (await store.get(new.job.id)).result == b"new"


async def test_the_same_settle_twice_in_one_batch_is_written_once(store: SqlStore) -> None:
    claim = await taken(store)
    verdicts = await store.settle([Report(claim, Success(b"1")), Report(claim, Success(b"1"))])
    assert [v.accepted for v in verdicts] == [True, True]
    assert len(await store.attempts(claim.job.id)) == 1


async def test_a_stale_claim_cannot_spawn(store: SqlStore, tables: Tables) -> None:
    old = await taken(store)
    await release(store, old)
    before = await everything(tables)
    with pytest.raises(StaleLease) as stale:
        await store.spawn(old.lease, [job("child")])
    assert (stale.value.job_id, stale.value.claim_version) == (old.job.id, 1)
    await take_one(store)
    with pytest.raises(StaleLease):
        await store.spawn(old.lease, [job("child")])
    assert len((await everything(tables))["inbox_jobs"]) == len(before["inbox_jobs"])


async def test_a_claim_of_an_unknown_job_settles_nothing(store: SqlStore, tables: Tables) -> None:
    import msgspec

    claim = await taken(store)
    stranger = "00000000-0000-4000-8000-000000000000"
    forged = Claim(
        msgspec.structs.replace(claim.job, id=stranger), msgspec.structs.replace(claim.lease, job_id=stranger)
    )
    before = await everything(tables)
    assert not (await complete(store, forged)).accepted
    assert await everything(tables) == before


@needs(TABLES)
async def test_a_claim_of_a_pruned_job_ends_none_that_was_given_its_number(store: SqlStore, clock: FrozenClock) -> None:
    """SQLite numbers rows, and gives the number of the newest again when that was deleted."""
    lost = await taken(store)
    await store.cancel(lost.job.id, force=True)
    clock.advance(days=365)
    assert await store.sweeps.prune() == 1
    late = await taken(store)
    for result in (b"null", b'"other"'):
        assert not (await complete(store, lost, result)).accepted
        ended = await store.settle([Report(lost, Success(result)), Report(lost, Success(b"1"))])
        assert not any(verdict.accepted for verdict in ended)
    assert await state_of(store, late.job.id) is State.RUNNING
    for _ in range(20):
        await submit(store, "between")
    far = await taken(store, "far")
    ended = await store.settle([Report(claim, Success(b"null")) for claim in (lost, far)])
    assert [verdict.accepted for verdict in ended] == [False, True]
    assert await state_of(store, late.job.id) is State.RUNNING
