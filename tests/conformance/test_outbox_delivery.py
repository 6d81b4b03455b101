"""Events under the same protocol as jobs: exclusive claims, leases, reclaim, fencing, order per job, delivery log."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from euterpe.model.errors import JobNotFound
from euterpe.model.events.outbox import Delivery, OutboxBacklog, OutboxEvent
from euterpe.ports import Capability
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import CALLBACK, MINUTE, SECOND, complete, job, take, taken
from tests.conformance.clock import FrozenClock
from tests.conformance.engines import Opened, Tables
from tests.conformance.needs import needs

pytestmark = needs(Capability.OUTBOX)


async def make_events(store: SqlStore, count: int = 1, **said: Any) -> list[str]:
    """`count` jobs with one event each; returns the jobs' ids."""
    await store.submit_many([job(**({"callback_url": CALLBACK} | said)) for _ in range(count)])
    return [claim.job.id for claim in await take(store, count)]


def delivered(event: OutboxEvent, **more: Any) -> Delivery:
    said: dict[str, Any] = {"state": "completed", "outcome": "delivered", "http_status": 200} | more
    return Delivery(event_id=event.id, claim_version=event.claim_version, **said)


def refused(event: OutboxEvent, delay_us: int = MINUTE) -> Delivery:
    return delivered(event, state="retrying", outcome="refused", http_status=503, delay_us=delay_us, error="503")


async def test_a_claimed_event_is_leased_and_charged(store: SqlStore, clock: FrozenClock) -> None:
    await make_events(store)
    [event] = await store.outbox.claim("d1", 10, 30 * SECOND)
    assert (event.state, event.worker_id, event.claim_version, event.attempt_count) == ("running", "d1", 1, 1)
    assert event.lease_expires_at == clock.now_us + 30 * SECOND
    assert await store.outbox.claim("d2", 10) == []


async def test_claims_made_at_once_never_share_an_event(subject: Opened) -> None:
    await make_events(subject.store, 30)
    async with subject.another() as other:
        batches = await asyncio.gather(*(s.outbox.claim(f"d{i}", 4) for i in range(5) for s in (subject.store, other)))
    seen = Counter(event.id for batch in batches for event in batch)
    assert len(seen) == 30
    assert set(seen.values()) == {1}


async def test_of_one_job_only_the_first_undelivered_event_is_given_out(store: SqlStore) -> None:
    claim = await taken(store, callback_url=CALLBACK)
    await complete(store, claim)
    [first] = await store.outbox.claim("d1", 10)
    assert first.type == "job.running"
    assert await store.outbox.claim("d2", 10) == []
    await store.outbox.settle([refused(first)])
    assert await store.outbox.claim("d2", 10) == []


async def test_the_next_event_of_a_job_follows_once_the_first_is_delivered(store: SqlStore) -> None:
    claim = await taken(store, callback_url=CALLBACK)
    await complete(store, claim)
    [first] = await store.outbox.claim("d1", 10)
    assert await store.outbox.settle([delivered(first)]) == {first.id}
    [second] = await store.outbox.claim("d1", 10)
    assert second.type == "job.completed"


async def test_a_dead_event_does_not_hold_up_the_ones_after_it(store: SqlStore) -> None:
    claim = await taken(store, callback_url=CALLBACK)
    await complete(store, claim)
    [first] = await store.outbox.claim("d1", 10)
    await store.outbox.settle([delivered(first, state="dead_letter", outcome="gone", http_status=410)])
    [second] = await store.outbox.claim("d1", 10)
    assert second.type == "job.completed"


async def test_events_of_different_jobs_do_not_wait_for_each_other(store: SqlStore) -> None:
    await make_events(store, 2)
    first, second = await store.outbox.claim("d1", 10)
    await store.outbox.settle([refused(first)])
    assert await store.outbox.settle([delivered(second)]) == {second.id}


async def test_events_are_given_out_oldest_first_up_to_the_limit(store: SqlStore, clock: FrozenClock) -> None:
    jobs: list[str] = []
    for _ in range(3):
        jobs += await make_events(store, 2)
        clock.advance(seconds=1)
    given = [event.job_id for event in await store.outbox.claim("d1", 4)]
    # Two of one moment come in any order.
    assert [set(given[:2]), set(given[2:])] == [set(jobs[:2]), set(jobs[2:4])]


async def test_receivers_that_are_to_be_left_alone_are_passed_over(store: SqlStore) -> None:
    await make_events(store, 1, callback_url="https://down.example/")
    await make_events(store, 1, callback_url="https://up.example/")
    others = ("bob", "https://up.example")
    (event,) = await store.outbox.claim("d1", 10, skip=[("local", "https://down.example"), others])
    assert event.receiver == ("local", "https://up.example"), "the same address is another receiver to each requester"


async def test_the_depth_of_the_outbox_tells_events_that_wait_for_another_try(store: SqlStore) -> None:
    await make_events(store, 3)
    assert await store.outbox.depth() == OutboxBacklog(pending=3, retrying=0)
    (event,) = await store.outbox.claim("d1", 1)
    assert await store.outbox.depth() == OutboxBacklog(pending=3, retrying=0)
    await store.outbox.settle([refused(event, MINUTE)])
    assert await store.outbox.depth() == OutboxBacklog(pending=3, retrying=1)


async def test_a_refused_delivery_waits_for_its_delay(store: SqlStore, clock: FrozenClock) -> None:
    await make_events(store)
    [event] = await store.outbox.claim("d1", 10)
    await store.outbox.settle([refused(event, MINUTE)])
    waiting = await store.outbox.get(event.id)
    assert (waiting.state, waiting.run_at, waiting.lease_expires_at) == ("retrying", clock.now_us + MINUTE, None)
    clock.advance(us=MINUTE - 1)
    assert await store.outbox.claim("d1", 10) == []
    clock.advance(us=1)
    [again] = await store.outbox.claim("d1", 10)
    assert (again.claim_version, again.attempt_count) == (2, 2)


async def test_a_delivered_event_is_never_given_out_again(store: SqlStore, clock: FrozenClock) -> None:
    await make_events(store)
    [event] = await store.outbox.claim("d1", 10)
    await store.outbox.settle([delivered(event)])
    stored = await store.outbox.get(event.id)
    assert (stored.state, stored.completed_at) == ("completed", clock.now_us)
    clock.advance(days=1)
    await store.sweeps.reclaim_events()
    assert await store.outbox.claim("d1", 10) == []


async def test_a_heartbeat_keeps_an_event_and_a_late_one_still_does(store: SqlStore, clock: FrozenClock) -> None:
    await make_events(store)
    [event] = await store.outbox.claim("d1", 10, 30 * SECOND)
    now = clock.advance(minutes=5)
    assert await store.outbox.heartbeat([(event.id, event.claim_version)], 30 * SECOND) == {event.id}
    assert (await store.outbox.get(event.id)).lease_expires_at == now + 30 * SECOND
    assert await store.sweeps.reclaim_events() == 0


async def test_an_event_whose_dispatcher_died_is_given_out_again(store: SqlStore, clock: FrozenClock) -> None:
    await make_events(store)
    [event] = await store.outbox.claim("d1", 10, 30 * SECOND)
    clock.advance(us=30 * SECOND)
    assert await store.sweeps.reclaim_events() == 0
    clock.advance(us=1)
    assert await store.sweeps.reclaim_events() == 1
    [again] = await store.outbox.claim("d2", 10)
    assert (again.id, again.body, again.claim_version, again.attempt_count) == (event.id, event.body, 2, 2)


async def test_a_stale_dispatcher_can_neither_renew_nor_settle(store: SqlStore, clock: FrozenClock) -> None:
    await make_events(store)
    [old] = await store.outbox.claim("d1", 10, 30 * SECOND)
    clock.advance(minutes=1)
    await store.sweeps.reclaim_events()
    [new] = await store.outbox.claim("d2", 10)
    before = await store.outbox.get(new.id)
    log = await store.outbox.deliveries(new.id)
    assert await store.outbox.heartbeat([(old.id, old.claim_version)]) == set()
    assert await store.outbox.settle([delivered(old)]) == set()
    assert await store.outbox.get(new.id) == before
    assert await store.outbox.deliveries(new.id) == log
    assert await store.outbox.settle([delivered(new)]) == {new.id}


async def test_a_batch_tells_stale_and_good_deliveries_apart(store: SqlStore, clock: FrozenClock) -> None:
    await make_events(store, 3)
    a, b, c = await store.outbox.claim("d1", 10)
    await store.outbox.settle([refused(b, 0)])
    [b_again] = await store.outbox.claim("d1", 10)
    assert await store.outbox.settle([delivered(a), delivered(b), delivered(c)]) == {a.id, c.id}
    assert (await store.outbox.get(b.id)).state == "running"
    assert await store.outbox.settle([delivered(b), delivered(b_again)]) == {b.id}
    assert [d.outcome for d in await store.outbox.deliveries(b.id)] == ["refused", "delivered"]


async def test_settling_an_event_twice_logs_it_once(store: SqlStore) -> None:
    await make_events(store)
    [event] = await store.outbox.claim("d1", 10)
    assert await store.outbox.settle([delivered(event), delivered(event)]) == {event.id}
    assert await store.outbox.settle([delivered(event)]) == set()
    assert len(await store.outbox.deliveries(event.id)) == 1


async def test_every_delivery_is_logged(store: SqlStore, clock: FrozenClock) -> None:
    await make_events(store)
    [event] = await store.outbox.claim("d1", 10)
    clock.advance(seconds=2)
    await store.outbox.settle([refused(event, 0)])
    [event] = await store.outbox.claim("d2", 10)
    clock.advance(seconds=1)
    await store.outbox.settle([delivered(event, answer="thanks")])
    first, second = await store.outbox.deliveries(event.id)
    assert (first.attempt, first.worker_id, first.outcome, first.http_status, first.error) == (
        1,
        "d1",
        "refused",
        503,
        "503",
    )
    assert first.ended_at - first.started_at == 2 * SECOND
    assert (second.attempt, second.worker_id, second.outcome, second.answer) == (2, "d2", "delivered", "thanks")


async def test_a_given_back_delivery_costs_no_attempt(store: SqlStore) -> None:
    await make_events(store)
    [event] = await store.outbox.claim("d1", 10)
    await store.outbox.settle([delivered(event, state="retrying", outcome="released", refund=True)])
    [again] = await store.outbox.claim("d1", 10)
    assert (again.attempt_count, again.claim_version) == (1, 2)


@pytest.mark.parametrize("state", ["completed", "dead_letter", "retrying"])
async def test_a_redelivery_keeps_id_and_body_and_has_a_fresh_budget(
    store: SqlStore, clock: FrozenClock, state: str
) -> None:
    await make_events(store)
    [event] = await store.outbox.claim("d1", 10)
    await store.outbox.settle([delivered(event, state=state, delay_us=MINUTE)])
    clock.advance(seconds=1)
    again = await store.outbox.redeliver(event.id)
    assert (again.state, again.attempt_count, again.completed_at) == ("scheduled", 0, None)
    [event_again] = await store.outbox.claim("d1", 10)
    assert (event_again.id, event_again.body) == (event.id, event.body)
    assert event_again.claim_version == 2
    await store.outbox.settle([delivered(event_again)])
    assert len(await store.outbox.deliveries(event.id)) == 2


async def test_an_event_that_is_under_way_cannot_be_redelivered(store: SqlStore) -> None:
    await make_events(store)
    [event] = await store.outbox.claim("d1", 10)
    with pytest.raises(JobNotFound):
        await store.outbox.redeliver(event.id)


@needs(Capability.ANY_REQUESTER)
async def test_another_requesters_event_cannot_be_redelivered(store: SqlStore) -> None:
    await make_events(store, requester_id="alice")
    [event] = await store.outbox.claim("d1", 10)
    await store.outbox.settle([delivered(event)])
    with pytest.raises(JobNotFound):
        await store.outbox.redeliver(event.id, "mallory")
    assert (await store.outbox.redeliver(event.id, "alice")).id == event.id


@pytest.mark.parametrize("event_id", ["00000000-0000-4000-8000-000000000000", "nonsense", "", "\x00"])
async def test_an_event_that_never_was_is_not_found(store: SqlStore, event_id: str) -> None:
    with pytest.raises(JobNotFound):
        await store.outbox.get(event_id)
    with pytest.raises(JobNotFound):
        await store.outbox.redeliver(event_id)
    assert await store.outbox.deliveries(event_id) == []


@needs(Capability.ANY_REQUESTER)
async def test_events_are_found_by_requester_state_and_job_with_a_stable_cursor(store: SqlStore) -> None:
    alice = await make_events(store, 5, requester_id="alice")
    await make_events(store, 3, requester_id="bob")
    page = await store.outbox.search("alice", limit=3)
    rest = await store.outbox.search("alice", before=page[-1][0], limit=3)
    assert [e.job_id for _, e in page + rest] == alice[::-1]
    claimed = await store.outbox.claim("d1", 2)
    assert {e.id for _, e in await store.outbox.search(state="running")} == {e.id for e in claimed}
    assert [e.job_id for _, e in await store.outbox.search(job_id=alice[0])] == [alice[0]]
    assert await store.outbox.search("bob", job_id=alice[0]) == []


async def test_settling_and_renewing_nothing_is_nothing(store: SqlStore) -> None:
    assert await store.outbox.settle([]) == set()
    assert await store.outbox.heartbeat([]) == set()


async def test_an_undelivered_event_outlives_its_pruned_job(
    store: SqlStore, clock: FrozenClock, tables: Tables
) -> None:
    claim = await taken(store, callback_url=CALLBACK)
    await complete(store, claim)
    clock.advance(days=30)
    assert await store.sweeps.prune() == 1
    assert await tables.run("SELECT COUNT(*) FROM job_outbox_events") == [(2,)]
    [first] = await store.outbox.claim("d1", 10)
    assert first.job_id == claim.job.id
