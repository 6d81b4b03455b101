"""Webhook events over HTTP: what waits, what was sent, and sending again."""

from __future__ import annotations

import httpx

from euterpe.model.events.outbox import Delivery
from euterpe.model.submitting.batch import new_ids
from euterpe.wire import jobs
from tests.server.plane import Plane
from tests.server.test_jobs_api import exact


async def ended_job(client: httpx.AsyncClient) -> str:
    """A job with one event: it was cancelled."""
    body = {"type": "t", "callback_url": "https://example.com/hook", "callback_events": "terminal"}
    job_id: str = (await client.post("/jobs", json=body)).json()["job_id"]
    await client.post(f"/jobs/{job_id}/cancel")
    return job_id


async def test_events_are_listed_newest_first_a_page_at_a_time(client: httpx.AsyncClient) -> None:
    ids = [await ended_job(client) for _ in range(3)]
    first = await client.get("/outbox?limit=2")
    exact(first.content, jobs.OutboxPage)
    assert [event["job_id"] for event in first.json()["events"]] == [ids[2], ids[1]]
    rest = (await client.get(f"/outbox?limit=2&cursor={first.json()['cursor']}")).json()
    assert [event["job_id"] for event in rest["events"]] == [ids[0]]
    assert rest["cursor"] is None


async def test_events_are_found_by_job_and_state(client: httpx.AsyncClient) -> None:
    one, _ = await ended_job(client), await ended_job(client)
    (event,) = (await client.get(f"/outbox?job_id={one.upper()}&state=scheduled")).json()["events"]
    assert (event["job_id"], event["type"], event["state"]) == (one, "job.cancelled", "scheduled")
    assert event["next_attempt_at"] is not None
    assert (await client.get("/outbox?state=dead_letter")).json()["events"] == []
    assert (await client.get("/outbox?job_id=nope")).json()["events"] == []
    assert (await client.get("/outbox?state=done")).status_code == 422


async def test_an_event_shows_its_body_and_the_log_of_its_deliveries(plane: Plane, client: httpx.AsyncClient) -> None:
    job_id = await ended_job(client)
    (claimed,) = await plane.store.outbox.claim("dispatcher", 10)
    sent = Delivery(
        event_id=claimed.id, claim_version=claimed.claim_version, state="dead_letter", outcome="rejected",
        http_status=500, answer="boom", error="500 from the receiver",
    )  # fmt: skip
    await plane.store.outbox.settle([sent])
    answer = await client.get(f"/outbox/{claimed.id}")
    exact(answer.content, jobs.OutboxEventDetail)
    detail = answer.json()
    assert detail["event"]["state"] == "dead_letter"
    assert detail["body"]["job"]["job_id"] == job_id
    (delivery,) = detail["deliveries"]
    assert (delivery["http_status"], delivery["answer"], delivery["attempt"]) == (500, "boom", 1)


async def test_a_dead_event_is_sent_again_with_the_same_body(plane: Plane, client: httpx.AsyncClient) -> None:
    await ended_job(client)
    (claimed,) = await plane.store.outbox.claim("dispatcher", 10)
    dead = Delivery(event_id=claimed.id, claim_version=claimed.claim_version, state="dead_letter", outcome="rejected")
    await plane.store.outbox.settle([dead])
    answer = await client.post(f"/outbox/{claimed.id}/redeliver")
    assert (answer.status_code, answer.json()["state"], answer.json()["attempts"]) == (202, "scheduled", 0)
    exact(answer.content, jobs.OutboxEventDocument)
    (again,) = await plane.store.outbox.claim("dispatcher", 10)
    assert (again.id, again.body) == (claimed.id, claimed.body)


async def test_anothers_event_is_not_there(plane: Plane) -> None:
    async with plane.client(requester="one") as one, plane.client(requester="two") as two:
        await ended_job(one)
        event_id = (await one.get("/outbox")).json()["events"][0]["event_id"]
        assert (await two.get("/outbox")).json()["events"] == []
        for unknown in (event_id, new_ids(1)[0], "nope"):
            assert (await two.get(f"/outbox/{unknown}")).status_code == 404
            assert (await two.post(f"/outbox/{unknown}/redeliver")).status_code == 404
        assert (await one.get(f"/outbox/{event_id}")).status_code == 200
