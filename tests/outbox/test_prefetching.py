"""A dispatcher claims a batch beyond its free slots. What waits for a slot is leased, given back in time, and in
nobody's way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from euterpe.backends.engines import Backend
from euterpe.model.events.outbox import OutboxEvent
from euterpe.webhook import endpoints, prefetched
from tests.outbox.dispatching import dispatching, make_ended_job, make_ended_jobs, until_settled
from tests.outbox.receiver import Receiver, receiving
from tests.outbox.test_fair_turns import make_events
from tests.patience import PATIENCE_S

SLOTS_OF_ONE = 5
"""A requester that is alone has them all."""
SLOTS_BESIDE_OTHERS = 4
PATIENT: dict[str, Any] = {"deadline_s": 60.0}
"""A closed gate is what these tests are about, and not a receiver that is given up."""


async def prove(backend: Backend, receiver: Receiver, requester_id: str = "local") -> None:
    """One good delivery; from then on the receiver is trusted, and answers when the test lets it."""
    await make_ended_job(backend, receiver.url, callback_events="terminal", requester_id=requester_id)
    await receiver.wait_for(1)
    await until_settled(backend)
    receiver.gate = asyncio.Semaphore(0)


async def until(true: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await true():  # noqa: ASYNC110  # what is waited for lies in the database
            await asyncio.sleep(0.01)


async def events_in(backend: Backend, state: str) -> list[OutboxEvent]:
    return [event for _, event in await backend.store.outbox.search(state=state, limit=100)]


def open_gate(receiver: Receiver) -> None:
    assert receiver.gate is not None
    for _ in range(100):
        receiver.gate.release()


async def test_one_claim_brings_a_batch_of_ten_for_five_slots(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefetched, "HELD_AT_MOST_S", 600.0)
    async with receiving() as receiver, dispatching(backend, **PATIENT):
        await prove(backend, receiver)
        await make_ended_jobs(backend, receiver.url, 10)
        await receiver.wait_for(1 + SLOTS_OF_ONE)
        assert len(await events_in(backend, "running")) == 10
        open_gate(receiver)
        await until_settled(backend)
        assert len(receiver.got) == len({got.event_id for got in receiver.got}) == 11


async def test_what_finds_no_slot_in_time_is_given_back_uncharged_and_sent_once(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefetched, "HELD_AT_MOST_S", 0.1)
    async with receiving() as receiver, dispatching(backend, **PATIENT):
        await prove(backend, receiver)
        await make_ended_jobs(backend, receiver.url, 10)
        await receiver.wait_for(1 + SLOTS_OF_ONE)

        async def given_back() -> bool:
            return len(await events_in(backend, "retrying")) == 10 - SLOTS_OF_ONE

        await until(given_back)
        assert {event.attempt_count for event in await events_in(backend, "retrying")} == {0}
        assert len(receiver.got) == 1 + SLOTS_OF_ONE
        open_gate(receiver)
        await until_settled(backend)
        assert len(receiver.got) == len({got.event_id for got in receiver.got}) == 11


async def test_a_stopping_dispatcher_gives_back_at_once_what_waits_for_a_slot(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefetched, "HELD_AT_MOST_S", 600.0)
    async with receiving() as receiver, dispatching(backend, **PATIENT) as dispatcher:
        await prove(backend, receiver)
        await make_ended_jobs(backend, receiver.url, 10)
        await receiver.wait_for(1 + SLOTS_OF_ONE)
        assert len(dispatcher._prefetched) == 10 - SLOTS_OF_ONE
        dispatcher.stop()
        assert not dispatcher._prefetched

        async def given_back() -> bool:
            return len(await events_in(backend, "retrying")) == 10 - SLOTS_OF_ONE

        await until(given_back)
        assert {event.attempt_count for event in await events_in(backend, "retrying")} == {0}
        assert len(await events_in(backend, "running")) == SLOTS_OF_ONE, "what is under way may finish"
        open_gate(receiver)

        async def finished() -> bool:
            return len(await events_in(backend, "completed")) == 1 + SLOTS_OF_ONE

        await until(finished)
        assert len(receiver.got) == 1 + SLOTS_OF_ONE


async def test_heartbeats_keep_what_waits_for_a_slot(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefetched, "HELD_AT_MOST_S", 600.0)
    async with receiving() as receiver, dispatching(backend, lease_ttl_us=3_000_000, **PATIENT):
        await prove(backend, receiver)
        await make_ended_jobs(backend, receiver.url, 10)
        await receiver.wait_for(1 + SLOTS_OF_ONE)
        first = {event.id: event.lease_expires_at or 0 for event in await events_in(backend, "running")}

        async def renewed() -> bool:
            leases = {event.id: event.lease_expires_at or 0 for event in await events_in(backend, "running")}
            return len(leases) == 10 and all(leases[event_id] > first[event_id] for event_id in first)

        await until(renewed)
        open_gate(receiver)
        await until_settled(backend)


async def test_a_newcomer_gets_the_next_free_slot_before_a_batch_that_was_claimed_earlier(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefetched, "HELD_AT_MOST_S", 600.0)
    monkeypatch.setattr(endpoints, "ALONE_US", 600_000_000)
    async with (
        receiving() as many,
        receiving() as other,
        receiving() as newcomer,
        dispatching(backend, **PATIENT) as dispatcher,
    ):
        await prove(backend, many, requester_id="many")
        await prove(backend, other, requester_id="other")
        newcomer.gate = asyncio.Semaphore(0)
        await make_events(backend, "many", 10, many.url)
        await many.wait_for(1 + SLOTS_BESIDE_OTHERS)
        assert len(dispatcher._prefetched) == 10 - SLOTS_BESIDE_OTHERS
        await make_ended_job(backend, other.url, callback_events="terminal", requester_id="other")
        await other.wait_for(2)
        await make_ended_job(backend, newcomer.url, callback_events="terminal", requester_id="new")
        async with asyncio.timeout(PATIENCE_S):
            while not dispatcher._should_claim:  # noqa: ASYNC110  # its next look, for which it has no slot
                await asyncio.sleep(0.005)
        assert many.gate is not None
        many.gate.release()

        async def taken() -> bool:
            return len(newcomer.got) > 0 or len(many.got) > 1 + SLOTS_BESIDE_OTHERS

        await until(taken)
        assert (len(newcomer.got), len(many.got)) == (1, 1 + SLOTS_BESIDE_OTHERS)
        for receiver in (many, other, newcomer):
            open_gate(receiver)
        await until_settled(backend)
