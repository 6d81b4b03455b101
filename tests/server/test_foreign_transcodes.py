"""Transcodes over the worker protocol: given only to workers that name the type, ended only with outputs."""

from __future__ import annotations

from typing import Any

import httpx

from euterpe.model.claims.exchange import ClaimRequest, ProgressUpdate, Report
from euterpe.model.claims.outcome import Success
from euterpe.model.state import TRANSCODE, TRANSCODE_STAGES
from euterpe.model.submitting.submission import Submission
from tests.server.plane import Plane, claim_one, lease_of

JOB = Submission(type=TRANSCODE, requester_id="vesta", stages=TRANSCODE_STAGES)
ASK = {"worker_id": "w-1", "streams": ["default"], "max_wait_ms": 0}


async def claimed_and_walked(client: httpx.AsyncClient) -> dict[str, Any]:
    job = await claim_one(client, types=[TRANSCODE])
    for stage in TRANSCODE_STAGES[1:]:
        answer = await client.post("/internal/worker/heartbeat", json=lease_of(job) | {"stage": stage})
        assert answer.status_code == 200, answer.text
    return job


async def test_a_worker_without_types_is_never_given_a_transcode(plane: Plane, client: httpx.AsyncClient) -> None:
    await plane.store.submit_many([JOB, JOB])
    await plane.store.submit(JOB)
    plain = await plane.store.submit(Submission(type="t", requester_id="vesta"))
    claimed = (await client.post("/internal/worker/claim", json=ASK | {"max_jobs": 10})).json()
    assert [job["job_id"] for job in claimed["jobs"]] == [plain.job_id]
    exchange = {"worker_id": "w-1", "claim": {"streams": ["default"], "max_wait_ms": 0, "max_jobs": 10, "max_ahead": 5}}
    turn = await client.post("/internal/worker/turn", json=exchange)
    assert (turn.status_code, turn.json()["claimed"]) == (200, False), turn.text
    named = (await client.post("/internal/worker/claim", json=ASK | {"types": [TRANSCODE], "max_jobs": 10})).json()
    assert len(named["jobs"]) == 3


async def test_a_transcode_cannot_be_completed_without_outputs(plane: Plane, client: httpx.AsyncClient) -> None:
    submitted = await plane.store.submit(JOB)
    job = await claimed_and_walked(client)
    unfit: tuple[Any, ...] = ({}, {"outputs": []}, {"outputs": "x"}, {"outputs": [1]}, None, 7)
    for result in unfit:
        answer = await client.post("/internal/worker/complete", json=lease_of(job) | {"result": result})
        assert (answer.status_code, answer.json()["code"]) == (409, "illegal_transition"), answer.text
        assert "completes with its `outputs` only" in answer.json()["detail"]
    assert (await client.get(f"/jobs/{submitted.job_id}")).json()["state"] == "running"
    fit = {"outputs": [{"key": "a.mp4"}]}
    assert (await client.post("/internal/worker/complete", json=lease_of(job) | {"result": fit})).status_code == 200
    assert (await client.get(f"/jobs/{submitted.job_id}")).json()["state"] == "completed"


async def test_a_handler_of_somebody_else_fails_a_transcode_that_it_returns_without_outputs(plane: Plane) -> None:
    await plane.store.submit(JOB)
    (claim,) = await plane.store.claim(ClaimRequest(worker_id="w", limit=1, types=(TRANSCODE,)))
    for stage in TRANSCODE_STAGES[1:]:
        await plane.store.update_progress([ProgressUpdate(claim, stage)])
    (verdict,) = await plane.store.settle([Report(claim, Success(b"{}"))])
    job = await plane.store.get(claim.job.id)
    assert (verdict.state, (job.error_document or {})["code"]) == ("failed", "result.no_outputs")


async def test_a_transcode_is_not_submitted_past_its_own_route(sqlite_client: httpx.AsyncClient) -> None:
    forged = {"type": TRANSCODE, "payload": {"source": {"type": "local", "path": "\x01"}, "outputs": [{}]}}
    for path, body, pointer in (("/jobs", forged, "/type"), ("/jobs/batch", {"jobs": [forged]}, "/jobs/0/type")):
        answer = await sqlite_client.post(path, json=body)
        assert (answer.status_code, answer.json()["pointer"]) == (422, pointer)
        assert "POST /transcode" in answer.json()["detail"]
