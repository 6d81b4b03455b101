"""Jobs of a claim that differ in little come as one job in full, and of the others what differs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from euterpe.model.claims.exchange import ClaimRequest
from euterpe.stores.remote.session import ControlPlaneSession, HttpReply
from euterpe.stores.remote.store import HttpStore
from tests.remote.test_ahead import JOB

REQUEST = ClaimRequest(worker_id="w", limit=2)


class Told:
    """A control plane whose answer is said beforehand."""

    def __init__(self) -> None:
        self.uniform: list[dict[str, Any]] = []
        self.asked: list[dict[str, Any]] = []

    async def post(self, _path: str, body: dict[str, Any], **_: Any) -> HttpReply:
        self.asked.append(body)
        answer = {"complete": [], "fail": [], "heartbeat": [], "jobs": [], "uniform": self.uniform}
        return HttpReply(msgspec.json.encode(answer), {})


async def test_jobs_that_are_told_together_are_claims_like_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    plane = Told()
    monkeypatch.setattr(ControlPlaneSession, "post", lambda _session, *said, **more: plane.post(*said, **more))
    first = {**JOB, "job_id": "j0", "attempt_id": "j0:3", "lease_token": "t0", "priority": "high"}
    bytes_too = {**JOB, "job_id": "j2", "attempt_id": "j2:1", "payload": {"base64": "AP8="}, "payload_format": "bytes"}
    plane.uniform = [
        {"first": first, "others": [["j1", "t1", {"n": 1}]]},
        {"first": bytes_too, "others": [["j3", "t3", {"base64": "AQ=="}]]},
    ]
    store = HttpStore("http://127.0.0.1:1")
    _, claims = await store.exchange([], REQUEST)
    assert plane.asked[-1]["claim"]["uniform"] is True
    assert [c.lease.attempt_id for c in claims] == ["j0:3", "j1:3", "j2:1", "j3:1"]
    assert [(c.lease.token, c.lease.worker_id) for c in claims] == [("t0", "w"), ("t1", "w"), ("t", "w"), ("t3", "w")]
    assert [c.job.payload for c in claims] == [b"{}", b'{"n":1}', b"\x00\xff", b"\x01"]
    plane.uniform = [
        {"first": job, "others": []}
        for job in (first, {**first, "job_id": "j1", "attempt_id": "j1:3", "lease_token": "t1", "payload": {"n": 1}})
    ]
    assert (await store.exchange([], REQUEST))[1] == claims[:2], "as if each had been told in full"
