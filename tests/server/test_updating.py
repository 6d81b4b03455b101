"""PATCH and the dead letter over HTTP."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.server.plane import Plane, claim_one, lease_of

FAIL = "/internal/worker/fail"


async def submitted(client: httpx.AsyncClient, **said: Any) -> str:
    answer = await client.post("/jobs", json={"type": "t"} | said)
    job_id: str = answer.json()["job_id"]
    return job_id


async def test_a_waiting_job_takes_all_four_changes(client: httpx.AsyncClient) -> None:
    job_id = await submitted(client, tags={"a": "1"})
    said = {"priority": "high", "tags": {"b": "2"}, "correlation_id": "c", "callback_url": "https://x.example/"}
    answer = await client.patch(f"/jobs/{job_id}", json=said)
    assert (answer.status_code, {name: answer.json()[name] for name in said}) == (200, said)
    cleared = (await client.patch(f"/jobs/{job_id}", json={"tags": None, "callback_url": None})).json()
    assert (cleared["tags"], cleared["callback_url"], cleared["correlation_id"]) == ({}, None, "c")


@pytest.mark.parametrize(
    ("said", "pointer"),
    [
        ({"callback_url": "http://["}, "/callback_url"),
        ({"priority": 9}, "/priority"),
        ({"payload": 1}, ""),
        ({}, "/changes"),
    ],
)
async def test_a_bad_change_is_pointed_at(client: httpx.AsyncClient, said: dict[str, Any], pointer: str) -> None:
    job_id = await submitted(client)
    answer = await client.patch(f"/jobs/{job_id}", json=said)
    assert answer.status_code == 422
    assert str(answer.json().get("pointer")).startswith(pointer)


async def test_the_priority_of_a_running_job_stays(client: httpx.AsyncClient) -> None:
    await submitted(client)
    job = await claim_one(client)
    answer = await client.patch(f"/jobs/{job['job_id']}", json={"priority": "bulk"})
    assert (answer.status_code, answer.json()["code"]) == (409, "illegal_transition")


async def test_another_requesters_job_is_not_found(plane: Plane, client: httpx.AsyncClient) -> None:
    job_id = await submitted(client)
    key = await plane.key("submit", "read", requester="other")
    headers = {"authorization": f"Bearer {key}"}
    assert (await client.patch(f"/jobs/{job_id}", json={"priority": "low"}, headers=headers)).status_code == 404
    assert (await client.post(f"/jobs/{job_id}/dead-letter", headers=headers)).status_code == 404


async def test_a_failed_job_is_sent_to_the_dead_letter_and_no_other(client: httpx.AsyncClient) -> None:
    await submitted(client)
    job = await claim_one(client)
    early = await client.post(f"/jobs/{job['job_id']}/dead-letter")
    assert (early.status_code, early.json()["code"]) == (409, "illegal_transition")
    await client.post(FAIL, json=lease_of(job) | {"error": {"message": "no", "retryable": False}})
    answer = await client.post(f"/jobs/{job['job_id']}/dead-letter")
    assert (answer.status_code, answer.json()["state"]) == (200, "dead_letter")
