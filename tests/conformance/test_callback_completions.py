"""Many jobs that complete at once and are told of alike: each has its one event, which says what its row says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from euterpe.backends.dashboard import dashboard_reads
from euterpe.model.claims.exchange import ClaimRequest, ProgressUpdate, Report
from euterpe.model.claims.outcome import Success
from euterpe.model.events.event import event_of
from euterpe.model.events.outbox import OutboxEvent
from euterpe.model.job import Claim
from euterpe.model.state import State
from euterpe.model.submitting.changes import Changes
from euterpe.ports import Capability
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import CALLBACK, MINUTE, job, state_of, submit, take
from tests.conformance.clock import FrozenClock
from tests.conformance.needs import needs

pytestmark = [needs(Capability.OUTBOX), needs(Capability.WHOLE_JOBS)]

LOT = 8
MORE = ClaimRequest(worker_id="w1", limit=LOT)
Change = Callable[[SqlStore, Claim], Awaitable[object]]


async def claimed(store: SqlStore, **said: Any) -> list[Claim]:
    told: dict[str, Any] = {"callback_url": CALLBACK, "callback_events": "terminal"} | said
    await store.submit_many([job(**told)] * LOT)
    claims = await take(store, LOT)
    assert len(claims) == LOT
    return claims


async def events_of(store: SqlStore) -> dict[str, OutboxEvent]:
    """By job; each has one."""
    found = [await store.outbox.get(event.id) for _, event in await store.outbox.search(limit=1000)]
    by_job = {event.job_id: event for event in found}
    assert len(by_job) == len(found), "a job has two events"
    return by_job


async def assert_told(store: SqlStore, claims: list[Claim]) -> None:
    """Each is told of as its row is, once."""
    events = await events_of(store)
    assert set(events) == {claim.job.id for claim in claims}
    for job_id, event in events.items():
        told = event_of(await store.get(job_id), event.id)
        assert msgspec.json.decode(event.body) == msgspec.json.decode(told.body)
        assert (event.sequence, event.type, event.url) == (told.sequence, told.type, told.url)
        assert (event.origin, event.created_at, event.run_at) == (told.origin, told.created_at, told.created_at)


def done(claims: list[Claim], result: bytes | None = b'{"n":1}') -> list[Report]:
    return [Report(claim, Success(result)) for claim in claims]


@pytest.mark.parametrize("request_", [MORE, None], ids=["and claims", "alone"])
@pytest.mark.parametrize("said", [{}, {"tags": {"a": "b"}, "correlation_id": "c"}], ids=["plain", "with tags"])
async def test_jobs_that_end_alike_are_told_of_as_their_rows_are(
    store: SqlStore, clock: FrozenClock, request_: ClaimRequest | None, said: dict[str, Any]
) -> None:
    claims = await claimed(store, **said)
    clock.advance(seconds=3)
    results, _ = await store.exchange(done(claims), request_)
    assert all(result.accepted for result in results)
    await assert_told(store, claims)
    clock.advance(seconds=3)
    assert all(result.accepted for result in (await store.exchange(done(claims), request_))[0]), "a lost answer"
    await assert_told(store, claims)


async def test_every_event_has_the_result_of_its_own_job(store: SqlStore) -> None:
    claims = await claimed(store)
    await store.exchange([Report(claim, Success(b"%d" % (at // 4))) for at, claim in enumerate(claims)], MORE)
    await assert_told(store, claims)
    outputs = [msgspec.json.decode(event.body)["outputs"] for event in (await events_of(store)).values()]
    assert sorted(outputs) == [0] * 4 + [1] * 4


async def test_jobs_with_and_without_callback_end_in_one_turn(store: SqlStore) -> None:
    await store.submit_many([job()] * LOT)
    plain = await take(store, LOT)
    told = await claimed(store)
    finished = [report for pair in zip(done(plain), done(told), strict=True) for report in pair]
    results, _ = await store.exchange(finished, MORE)
    assert [result.state for result in results] == [State.COMPLETED] * 2 * LOT
    await assert_told(store, told)


async def _reports_progress(store: SqlStore, claim: Claim) -> None:
    await store.update_progress([ProgressUpdate(claim, progress=50.0)])


async def _reports_words(store: SqlStore, claim: Claim) -> None:
    await store.update_progress([ProgressUpdate(claim, message="half of it")])


async def _beats(store: SqlStore, claim: Claim) -> None:
    await store.heartbeat([claim.lease])


async def _is_tagged(store: SqlStore, claim: Claim) -> None:
    await store.update(claim.job.id, Changes(tags={"a": "b"}))


async def _is_correlated(store: SqlStore, claim: Claim) -> None:
    await store.update(claim.job.id, Changes(correlation_id="another"))


async def _has_another_callback(store: SqlStore, claim: Claim) -> None:
    await store.update(claim.job.id, Changes(callback_url="https://another.example/hook"))


@pytest.mark.parametrize(
    "change", [_reports_progress, _reports_words, _beats, _is_tagged, _is_correlated, _has_another_callback]
)
async def test_what_changed_while_a_job_ran_is_told_at_its_end(
    store: SqlStore, clock: FrozenClock, change: Change
) -> None:
    claims = await claimed(store)
    clock.advance(seconds=3)
    await change(store, claims[3])
    clock.advance(seconds=3)
    results, _ = await store.exchange(done(claims), MORE)
    assert all(result.accepted for result in results)
    await assert_told(store, claims)


async def test_a_callback_that_was_taken_away_is_told_nothing(store: SqlStore) -> None:
    claims = await claimed(store)
    await store.update(claims[3].job.id, Changes(callback_url=None))
    assert all(result.accepted for result in (await store.exchange(done(claims), MORE))[0])
    await assert_told(store, claims[:3] + claims[4:])


@needs(Capability.DEPENDENCIES)
async def test_dependents_that_came_meanwhile_are_released_and_each_end_is_told(store: SqlStore) -> None:
    claims = await claimed(store)
    after = await submit(store, "after", depends_on=(claims[3].job.id,))
    assert all(result.accepted for result in (await store.exchange(done(claims), None))[0])
    assert await state_of(store, after) is State.SCHEDULED
    await assert_told(store, claims)


async def test_a_stale_end_among_others_is_not_told(store: SqlStore, clock: FrozenClock) -> None:
    claims = await claimed(store)
    clock.advance(us=MINUTE // 2)
    await store.heartbeat([claim.lease for claim in claims[1:]])
    clock.advance(us=MINUTE)
    await store.sweeps.reclaim()
    results, _ = await store.exchange(done(claims), None)
    assert [result.accepted for result in results] == [False] + [True] * (LOT - 1)
    await assert_told(store, claims[1:])


async def test_a_claim_that_is_reported_twice_at_once_has_one_event(store: SqlStore) -> None:
    claims = await claimed(store)
    await store.exchange([*done(claims), *done(claims[:1])], MORE)
    await assert_told(store, claims)


async def test_the_page_of_a_job_has_all_its_events_and_none_of_others_that_ended_with_it(
    store: SqlStore, clock: FrozenClock
) -> None:
    claims = await claimed(store, callback_events="all")
    clock.advance(seconds=3)
    await store.exchange(done(claims), None)
    for claim in claims:
        events = (await dashboard_reads(store).neighbours(claim.job.id, None)).events
        assert [event.type for event in events] == ["job.completed", "job.running"]
        assert {event.job_id for event in events} == {claim.job.id}
