"""Requesters take turns: whose receivers hang, or who has most events, does not keep the others waiting."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest

from euterpe.backends.engines import Backend
from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.outcome import Success
from euterpe.model.events.outbox import OutboxEvent
from euterpe.model.failures.circuit_breaker import BreakerPolicy
from euterpe.model.submitting.submission import Submission
from euterpe.webhook import endpoints as endpoints_module
from euterpe.webhook.endpoints import Admission, Endpoints, Receiver
from euterpe.webhook.fairness import FairClaims
from euterpe.webhook.settings import config_of, egress_policy
from tests.outbox.dispatching import dispatching, make_ended_job, until_settled
from tests.outbox.receiver import NO_CONTENT, Got, answer, receiving
from tests.worker.floor import until

HANGING = 24


async def test_receivers_of_one_requester_that_hang_do_not_delay_the_first_webhook_of_another(backend: Backend) -> None:
    async with AsyncExitStack() as stack:
        hung = [await stack.enter_async_context(receiving(lambda _got: None)) for _ in range(HANGING)]
        for receiver in hung:
            await make_ended_job(backend, receiver.url, callback_events="terminal", requester_id="greedy")
        well = await stack.enter_async_context(receiving())
        # A deadline that no busy machine reaches by itself.
        await stack.enter_async_context(dispatching(backend, deadline_s=100.0, grace_s=0.1))
        await hung[0].wait_for(1)
        for count in (1, 2):
            await make_ended_job(backend, well.url, callback_events="terminal", requester_id="modest")
            await well.wait_for(count, 30)


async def test_when_all_slots_for_unproven_receivers_hang_the_next_one_is_somebody_elses(backend: Backend) -> None:
    async with AsyncExitStack() as stack:
        for requester in ("greedy", "greedier"):
            for _ in range(6):
                hung = await stack.enter_async_context(receiving(lambda _got: None))
                await make_ended_job(backend, hung.url, callback_events="terminal", requester_id=requester)
        await stack.enter_async_context(dispatching(backend, grace_s=0.1, deadline_s=1.0))
        await hung.wait_for(0)
        well = await stack.enter_async_context(receiving())
        await make_ended_job(backend, well.url, callback_events="terminal", requester_id="modest")
        await well.wait_for(1, 30)


async def make_events(backend: Backend, requester: str, count: int, url: str) -> None:
    said = Submission(type="work", callback_url=url, callback_events="terminal", requester_id=requester)
    await backend.store.submit_many([said] * count)
    claims = await backend.store.claim(ClaimRequest(worker_id="w", limit=count))
    await backend.store.settle([Report(claim, Success(b"null")) for claim in claims])


def sending(endpoints: Endpoints, events: list[OutboxEvent]) -> list[Admission]:
    admitted = [endpoints.admit(event.receiver) for event in events]
    assert None not in admitted
    return [admission for admission in admitted if admission is not None]


async def test_who_has_many_events_does_not_go_before_all_others(backend: Backend) -> None:
    await make_events(backend, "many", 50, "http://many.invalid/")
    await make_events(backend, "few", 1, "http://few.invalid/")
    endpoints = Endpoints(5, BreakerPolicy(), lambda: 0)
    claims = FairClaims(backend.store.outbox, endpoints, "d", 60_000_000, lambda: 0.0)
    (first,) = sending(endpoints, await claims.claim(1))
    endpoints.done(first, succeeded=True, took_s=0.1)  # a good receiver
    in_flight = await claims.claim(3)
    assert {event.requester_id for event in in_flight} == {"many"}
    sending(endpoints, in_flight)
    assert [event.requester_id for event in await claims.claim(1)] == ["few"]


def proven(endpoints: Endpoints, *receivers: Receiver) -> None:
    for receiver in receivers:
        admission = endpoints.admit(receiver)
        assert admission is not None
        endpoints.done(admission, succeeded=True, took_s=0.1)


def test_a_requester_alone_gets_all_slots_and_all_but_one_while_another_has_events() -> None:
    now_us = 0
    endpoints = Endpoints(5, BreakerPolicy(), lambda: now_us)
    proven(endpoints, ("alone", "a"), ("alone", "b"))
    taken = [endpoints.admit(("alone", origin)) for origin in ("a", "b", "a", "b", "a", "a")]
    assert [admission is not None for admission in taken] == [True] * 5 + [False]
    endpoints = Endpoints(5, BreakerPolicy(), lambda: now_us)
    proven(endpoints, ("first", "a"))
    endpoints.saw(["second"])
    taken = [endpoints.admit(("first", "a")) for _ in range(5)]
    assert [admission is not None for admission in taken] == [True] * 4 + [False]
    assert endpoints.admit(("second", "a")) is not None
    now_us += 2 * endpoints_module.ALONE_US
    assert endpoints.admit(("first", "a")) is not None, "the other one has had none for a while"


async def test_five_deliveries_of_one_requester_are_under_way_at_once(backend: Backend) -> None:
    """The number of the contract; the receiver answers none of them before all have come."""
    is_held = False
    async with receiving(lambda _got: None if is_held else NO_CONTENT) as receiver:
        async with dispatching(backend, deadline_s=100.0, grace_s=0.1):
            await make_ended_job(backend, receiver.url, callback_events="terminal")
            await until_settled(backend)
            is_held = True
            for _ in range(8):
                await make_ended_job(backend, receiver.url, callback_events="terminal")
            await receiver.wait_for(1 + 5)
        assert len(receiver.got) == 1 + 5


async def test_a_breaker_that_one_requester_opens_at_a_receiver_does_not_stop_another_there(backend: Backend) -> None:
    policy = BreakerPolicy(cooldown_us=3_600_000_000, min_samples=3)

    def reply(got: Got) -> bytes:
        return answer(500) if got.document["job"]["correlation_id"] == "mallory" else NO_CONTENT

    async with receiving(reply) as receiver, dispatching(backend, breaker=policy):
        for requester in ["mallory"] * 10 + ["bob"] * 3:
            await make_ended_job(
                backend, receiver.url, callback_events="terminal", requester_id=requester, correlation_id=requester
            )

        async def came_to_bob() -> bool:
            return [got.document["job"]["correlation_id"] for got in receiver.got].count("bob") == 3

        await until(came_to_bob, "bob's events arrive")
        await make_ended_job(
            backend, receiver.url, callback_events="terminal", requester_id="carl", correlation_id="carl"
        )
        await until(lambda: receiver.got[-1].document["job"]["correlation_id"] == "carl", "and those of a third")


def test_origins_that_fail_are_forgotten_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints_module, "KNOWN_LIMIT", 100)
    endpoints = Endpoints(5, BreakerPolicy(min_samples=1), lambda: 0)
    held = endpoints.admit(("r", "held"))
    assert held is not None
    for number in range(1_000):
        admission = endpoints.admit((f"r{number}", f"http://{number}.invalid"))
        assert admission is not None
        endpoints.done(admission, succeeded=False, took_s=15)
    assert len(endpoints._known) <= 100
    assert len(endpoints.crowded()) <= 100
    assert len(endpoints._in_flight) == len(endpoints._suspects) == 1
    assert ("r", "held") in endpoints.crowded(), "what is in flight is not forgotten"


async def test_what_a_private_receiver_answers_is_not_kept_for_the_submitter_to_read(backend: Backend) -> None:
    async with receiving(lambda _got: answer(200, body=b"secret of the inside")) as receiver, dispatching(backend):
        await make_ended_job(backend, receiver.url, callback_events="terminal")
        (event_id,) = await until_settled(backend)
        (record,) = await backend.store.outbox.deliveries(event_id)
        assert (record.http_status, record.answer) == (200, None)


@pytest.mark.parametrize(
    ("variable", "loopback", "private"), [(None, True, False), ("false", False, False), ("true", True, True)]
)
def test_loopback_is_closed_where_private_addresses_are_said_to_be(
    variable: str | None, loopback: bool, private: bool
) -> None:
    config = config_of({} if variable is None else {"EGRESS_ALLOW_PRIVATE": variable})
    policy = egress_policy(config, "sqlite:///jobs.db")
    assert (policy.allow_loopback, policy.allow_private) == (loopback, private)
    assert not egress_policy(config, "postgresql://db/x").allow_loopback


async def test_a_closed_loopback_is_not_called(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints_module, "FORBIDDEN_US", 0)
    policy = egress_policy(config_of({"EGRESS_ALLOW_PRIVATE": "false"}), "sqlite:///jobs.db")
    async with receiving() as receiver, dispatching(backend, policy=policy):
        await make_ended_job(backend, receiver.url, callback_events="terminal")
        assert list((await until_settled(backend)).values()) == ["dead_letter"]
        assert receiver.got == []
