"""Leases on receipts (ADR 017), and a control plane of an older release that answers beside the one that gave them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from euterpe.model.claims.exchange import ClaimRequest, ProgressUpdate, Report, SettleResult
from euterpe.model.claims.outcome import Failed, Success
from euterpe.model.claims.worker_reports import RECEIPT_MARK
from euterpe.model.errors import StoreUnavailable
from euterpe.model.failures.failure import Category, Failure
from euterpe.model.job import Claim
from euterpe.model.state import State
from euterpe.stores.remote import exchange
from euterpe.stores.remote.session import ControlPlaneSession, HttpReply
from euterpe.stores.remote.store import HttpStore
from tests.remote.test_ahead import JOB

ACCEPTED = SettleResult(True, State.COMPLETED)
REFUSED: dict[str, Any] = {"ok": False, "code": "stale_lease"}
REQUEST = ClaimRequest(worker_id="w", limit=2)


class TwoPlanes:
    """In turns: what each of them answers is said beforehand. One that is older says nothing of receipts."""

    def __init__(self) -> None:
        self.older: list[bool] = []
        self.knows = True
        self.fails = False
        self.refused: list[int] = []
        self.uniform: list[dict[str, Any]] | None = None
        self.asked: list[dict[str, Any]] = []

    async def post(self, _path: str, body: dict[str, Any], **_: Any) -> HttpReply:
        self.asked.append(body)
        if self.fails and len(self.asked) > 1:
            raise StoreUnavailable("gone")
        is_older = self.older.pop(0) if self.older else False
        verdict = {"ok": True} if self.knows and not is_older else REFUSED
        tokens = [f"{RECEIPT_MARK}{'0' * 64}", "1" * 64]
        jobs = [
            {**JOB, "job_id": f"j{n}", "attempt_id": f"j{n}:1", "lease_token": token} for n, token in enumerate(tokens)
        ]
        answer: dict[str, Any] = {
            "complete": [verdict for _ in body.get("complete", ())],
            "heartbeat": [verdict for _ in body.get("heartbeat", ())],
            "jobs": jobs if body.get("claim") else [],
        }
        answer["fail"] = [{"ok": True, "state": "failed"} for _ in body.get("fail", ())]
        if self.uniform is not None:
            answer |= {"jobs": [], "uniform": self.uniform}
        if not is_older:
            answer["receipts"] = True
            if body.get("done"):
                answer["refused"] = self.refused if self.knows else list(range(len(body["done"])))
        return HttpReply(msgspec.json.encode(answer), {})


@pytest.fixture
def planes(monkeypatch: pytest.MonkeyPatch) -> TwoPlanes:
    planes = TwoPlanes()
    monkeypatch.setattr(ControlPlaneSession, "post", lambda _session, *said, **more: planes.post(*said, **more))
    monkeypatch.setattr(exchange, "ASK_AGAIN_S", (0.001, 0.001, 0.001))
    return planes


async def claimed(store: HttpStore, planes: TwoPlanes) -> list[Claim]:
    _, claims = await store.exchange([], REQUEST)
    assert planes.asked[-1]["receipts"] is True
    planes.asked.clear()
    return claims


async def test_what_an_older_control_plane_refuses_is_told_again(planes: TwoPlanes) -> None:
    store = HttpStore("http://127.0.0.1:1")
    on_receipt, on_row = await claimed(store, planes)
    planes.older = [True, True, False]
    ended = [Report(on_receipt, Success(b"1")), Report(on_row, Success())]
    verdicts, claims = await store.exchange(ended, REQUEST)
    assert verdicts == [ACCEPTED, SettleResult(False)], "what is on its row it knows: its word counts"
    assert len(claims) == 2, "what was claimed is not lost meanwhile"
    assert [len(body["complete"]) for body in planes.asked] == [0, 2, 1]
    assert len(planes.asked[0]["done"]) == 2, "an older one does not read that: it is told in full"
    assert planes.asked[2]["complete"][0].job_id == on_receipt.job.id
    assert all("claim" not in body for body in planes.asked[1:])


async def test_what_is_told_in_short_gets_the_verdicts_of_its_entries(planes: TwoPlanes) -> None:
    store = HttpStore("http://127.0.0.1:1")
    first, second = await claimed(store, planes)
    ended = [
        Report(first, Success(b"1")),
        Report(second, Failed(Failure(Category.PERMANENT, "no"))),
        Report(second, Success()),
        Report(first, Success(), log="[]"),
    ]
    planes.refused = [1]
    verdicts, _ = await store.exchange(ended, None)
    assert verdicts == [ACCEPTED, SettleResult(True, State.FAILED), SettleResult(False), ACCEPTED]
    (body,) = planes.asked
    assert [(attempt, token, bytes(result)) for attempt, token, result in body["done"]] == [
        (first.lease.attempt_id, first.lease.token, b"1"),
        (second.lease.attempt_id, second.lease.token, b"null"),
    ]
    assert [entry.job_id for entry in (*body["complete"], *body["fail"])] == ["j0", "j1"]


@pytest.mark.parametrize("older", [[False], [True, False], [True] * 5])
async def test_a_lease_that_is_over_is_called_stale_in_the_end(planes: TwoPlanes, older: list[bool]) -> None:
    store = HttpStore("http://127.0.0.1:1")
    on_receipt, _ = await claimed(store, planes)
    planes.knows, planes.older, asks = False, list(older), len(older)
    assert await store.exchange([Report(on_receipt, Success())], None) == ([SettleResult(False)], [])
    assert len(planes.asked) == asks


async def test_a_report_that_could_not_be_told_again_is_kept(planes: TwoPlanes) -> None:
    store = HttpStore("http://127.0.0.1:1")
    on_receipt, _ = await claimed(store, planes)
    planes.older, planes.fails = [True], True
    verdicts, claims = await store.exchange([Report(on_receipt, Success())], REQUEST)
    assert verdicts == [SettleResult(False, locked=True)]
    assert len(claims) == 2


async def test_a_heartbeat_to_an_older_control_plane_loses_no_lease_on_a_receipt(planes: TwoPlanes) -> None:
    store = HttpStore("http://127.0.0.1:1")
    claims = await claimed(store, planes)
    leases = [claim.lease for claim in claims]
    planes.older = [True]
    assert [beat.alive for beat in await store.heartbeat(leases)] == [True, False]
    planes.knows = False
    assert [beat.alive for beat in await store.heartbeat(leases)] == [False, False]
    planes.older = [True]
    with pytest.raises(StoreUnavailable):
        await store.update_progress([ProgressUpdate(claims[0], progress=50)])
    planes.older = [True]
    assert await store.update_progress([ProgressUpdate(claims[1], progress=50)]) == [False]


async def test_jobs_that_are_told_together_are_claims_like_all_others(planes: TwoPlanes) -> None:
    first = {**JOB, "job_id": "j0", "attempt_id": "j0:3", "lease_token": "t0", "priority": "high"}
    bytes_too = {**JOB, "job_id": "j2", "attempt_id": "j2:1", "payload": {"base64": "AP8="}, "payload_format": "bytes"}
    planes.uniform = [
        {"first": first, "others": [["j1", "t1", {"n": 1}]]},
        {"first": bytes_too, "others": [["j3", "t3", {"base64": "AQ=="}]]},
    ]
    store = HttpStore("http://127.0.0.1:1")
    _, claims = await store.exchange([], REQUEST)
    assert planes.asked[-1]["claim"]["uniform"] is True
    assert [c.lease.attempt_id for c in claims] == ["j0:3", "j1:3", "j2:1", "j3:1"]
    assert [c.lease.token for c in claims] == ["t0", "t1", "t", "t3"]
    assert [c.job.payload for c in claims] == [b"{}", b'{"n":1}', b"\x00\xff", b"\x01"]
    planes.uniform = [
        {"first": job, "others": []}
        for job in (first, {**first, "job_id": "j1", "attempt_id": "j1:3", "lease_token": "t1", "payload": {"n": 1}})
    ]
    assert (await store.exchange([], REQUEST))[1] == claims[:2], "as if each had been told in full"
