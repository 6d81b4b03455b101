"""Jobs of a bulk submit whose end is told to a callback: each end has its event, in its transaction."""

from __future__ import annotations

import asyncpg
import msgspec
import pytest

from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.outcome import Success
from euterpe.model.errors import EuterpeError
from euterpe.model.events.event import event_of
from euterpe.model.events.outbox import OutboxEvent
from euterpe.model.job import Claim
from euterpe.model.state import State
from euterpe.model.submitting.changes import Changes
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import CALLBACK, state_of, submit, take
from tests.conformance.clock import FrozenClock
from tests.conformance.engines import PostgresTables
from tests.line.acts import bulk

LOT = 16


async def claimed(store: SqlStore, limit: int = LOT, count: int = LOT) -> list[Claim]:
    await bulk(store, count, callback_url=CALLBACK, callback_events="terminal", correlation_id="c")
    return await take(store, limit)


async def events_of(store: SqlStore) -> dict[str, OutboxEvent]:
    """By job; each has one."""
    found = [await store.outbox.get(event.id) for _, event in await store.outbox.search(limit=100)]
    by_job = {event.job_id: event for event in found}
    assert len(by_job) == len(found), "a job has two events"
    return by_job


def done(claims: list[Claim]) -> list[Report]:
    return [Report(claim, Success(b'{"at":%d}' % place)) for place, claim in enumerate(claims)]


@pytest.mark.parametrize("claims_more", [True, False], ids=["and claims", "alone"])
async def test_a_completion_writes_the_event_that_its_row_tells(
    store: SqlStore, clock: FrozenClock, claims_more: bool
) -> None:
    claims = await claimed(store, count=2 * LOT)
    assert len(claims) == LOT
    clock.advance(seconds=3)
    request = ClaimRequest(worker_id="w1", limit=LOT) if claims_more else None
    results, more = await store.exchange(done(claims), request)
    assert all(result.accepted for result in results)
    assert len(more) == (LOT if claims_more else 0)
    events = await events_of(store)
    assert set(events) == {claim.job.id for claim in claims}
    for job_id, event in events.items():
        told = event_of(await store.get(job_id), event.id)
        assert msgspec.json.decode(event.body) == msgspec.json.decode(told.body)
        assert (event.sequence, event.type, event.url) == (told.sequence, "job.completed", CALLBACK)
        assert (event.origin, event.created_at, event.run_at) == (told.origin, clock(), clock())
    assert all(result.accepted for result in await store.settle(done(claims))), "a lost answer"
    assert set(await events_of(store)) == set(events), "is told no second time"


async def test_an_event_tells_what_a_requester_changed_while_the_job_ran(store: SqlStore) -> None:
    claims = await claimed(store)
    changed = claims[3].job.id
    await store.update(changed, Changes(correlation_id="another", tags={"a": "b"}))
    assert all(result.accepted for result in await store.settle(done(claims)))
    events = await events_of(store)
    assert len(events) == LOT
    told = msgspec.json.decode(events[changed].body)["job"]
    assert (told["correlation_id"], told["tags"]) == ("another", {"a": "b"})


async def test_dependents_that_came_meanwhile_are_released_and_the_end_is_told_once(store: SqlStore) -> None:
    claims = await claimed(store)
    after = await submit(store, "after", depends_on=(claims[-1].job.id,))
    assert all(result.accepted for result in await store.settle(done(claims)))
    assert await state_of(store, after) is State.SCHEDULED
    assert len(await events_of(store)) == LOT


async def test_an_end_whose_event_cannot_be_written_is_none(store: SqlStore, tables: PostgresTables) -> None:
    claims = await claimed(store)
    await tables.run("ALTER TABLE job_outbox_events ADD CONSTRAINT no_more CHECK (sequence < 0)")
    with pytest.raises((EuterpeError, asyncpg.PostgresError)):
        await store.exchange(done(claims), ClaimRequest(worker_id="w1", limit=LOT))
    assert await tables.run("SELECT DISTINCT state FROM inbox_jobs") == [("running",)]
    await tables.run("ALTER TABLE job_outbox_events DROP CONSTRAINT no_more")
    assert all(result.accepted for result in await store.settle(done(claims)))
    assert len(await events_of(store)) == LOT


async def test_a_claim_that_is_reported_twice_at_once_has_one_event(store: SqlStore) -> None:
    claims = await claimed(store)
    await store.exchange([*done(claims), *done(claims[:1])], None)
    assert set(await events_of(store)) == {claim.job.id for claim in claims}
