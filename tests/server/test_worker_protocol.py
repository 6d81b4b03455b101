"""Claim, heartbeat, complete, fail: exclusivity, replays, staleness, long polls, and how few statements they cost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest

from euterpe.model.state import State
from euterpe.model.submitting.submission import Submission
from euterpe.ports import OUTBOX_CHANNEL
from euterpe.server.batcher import Batcher
from euterpe.server.http.limits import Limits
from tests.patience import PATIENCE_S, in_time
from tests.plain_http import NO_CERTIFICATES
from tests.server.plane import Plane, claim_one, lease_of, running_plane

CLAIM = "/internal/worker/claim"
HEARTBEAT = "/internal/worker/heartbeat"
COMPLETE = "/internal/worker/complete"
FAIL = "/internal/worker/fail"
Json = dict[str, Any]


@pytest.fixture
async def patient(url: str) -> AsyncIterator[Plane]:
    """A control plane that polls only every minute: whatever is quick there was woken."""
    async with running_plane(url, Limits(poll_min_s=60, poll_max_s=60)) as running:
        yield running


async def submit(plane: Plane, count: int = 1, **said: Any) -> list[str]:
    submit_results = await plane.store.submit_many([Submission(type="t", requester_id="vesta", **said)] * count)
    return [submitted.job_id for submitted in submit_results]


async def eventually(true: Callable[[], Any], timeout_s: float = PATIENCE_S) -> None:
    async with asyncio.timeout(timeout_s):
        while not await true():  # noqa: ASYNC110  # what is waited for often lies in the database, which has no events
            await asyncio.sleep(0.01)


async def test_a_claim_has_the_fields_of_the_contract(plane: Plane, client: httpx.AsyncClient) -> None:
    (job_id,) = await submit(plane, payload=b'{"n":1}')
    job = await claim_one(client)
    assert job["claimed"] is True
    assert (job["job_id"], job["attempt_id"], job["payload"]) == (job_id, f"{job_id}:1", {"n": 1})
    assert job["stream"] == {"name": "default", "message_id": f"{job_id}:1"}
    assert (job["lease_ttl_seconds"], job["heartbeat_interval_seconds"]) == (60, 20)
    assert len(job["lease_token"]) >= 43
    stored = await plane.store.get(job_id)
    assert (stored.state, stored.worker_id, stored.attempt_count) == (State.RUNNING, "w-1", 1)


async def test_nothing_to_claim_says_so(client: httpx.AsyncClient) -> None:
    ask = {"worker_id": "w", "streams": ["default"], "max_wait_ms": 0}
    assert (await client.post(CLAIM, json=ask)).json() == {"claimed": False}
    assert (await client.post(CLAIM, json=ask | {"max_jobs": 3})).json() == {"claimed": False, "jobs": []}


async def test_max_jobs_answers_a_list(plane: Plane, client: httpx.AsyncClient) -> None:
    ids = await submit(plane, 5)
    ask = {"worker_id": "w", "streams": ["default"], "max_jobs": 3}
    first = (await client.post(CLAIM, json=ask)).json()
    assert [job["job_id"] for job in first["jobs"]] == ids[:3]
    assert "job_id" not in first
    assert len({job["lease_token"] for job in first["jobs"]}) == 3
    second = (await client.post(CLAIM, json=ask)).json()
    assert [job["job_id"] for job in second["jobs"]] == ids[3:]


async def test_streams_are_asked_in_the_workers_order_and_types_are_kept(
    plane: Plane, client: httpx.AsyncClient
) -> None:
    await submit(plane, queue="low")
    await submit(plane, queue="high")
    ask = {"worker_id": "w", "streams": ["high", "low"], "max_jobs": 2}
    jobs = (await client.post(CLAIM, json=ask)).json()["jobs"]
    assert [job["stream"]["name"] for job in jobs] == ["high", "low"]
    await submit(plane)
    only = {"worker_id": "w", "streams": ["default"], "types": ["other"]}
    assert (await client.post(CLAIM, json=only)).json() == {"claimed": False}
    assert (await client.post(CLAIM, json=only | {"types": ["other", "t"]})).json()["claimed"] is True


async def test_every_job_goes_to_exactly_one_of_many_workers(plane: Plane, client: httpx.AsyncClient) -> None:
    ids = await submit(plane, 60)

    async def drain(name: str) -> list[Json]:
        mine = []
        while (job := (await client.post(CLAIM, json={"worker_id": name, "streams": ["default"]})).json())["claimed"]:
            mine.append(job)
        return mine

    taken = [job for jobs in await asyncio.gather(*(drain(f"w-{i}") for i in range(12))) for job in jobs]
    assert sorted(job["job_id"] for job in taken) == sorted(ids)


async def test_each_waiting_worker_owns_the_job_it_got(plane: Plane, client: httpx.AsyncClient) -> None:
    asks = [
        client.post(CLAIM, json={"worker_id": f"w-{i}", "streams": ["default"], "max_wait_ms": 20000}) for i in range(8)
    ]
    polls = [asyncio.ensure_future(ask) for ask in asks]
    await submit(plane, 8)
    answers = [(await poll).json() for poll in polls]
    for i, answer in enumerate(answers):
        assert (await plane.store.get(answer["job_id"])).worker_id == f"w-{i}"
        own = lease_of(answer, worker_id=f"w-{i}")
        other = own | {"lease_token": answers[(i + 1) % 8]["lease_token"]}
        assert (await client.post(COMPLETE, json=other)).status_code == 409
        assert (await client.post(COMPLETE, json=own)).status_code == 200


async def test_an_event_names_the_worker_that_runs_the_job(plane: Plane, client: httpx.AsyncClient) -> None:
    await submit(plane, 2, callback_url="https://example.com/hook")
    polls = [client.post(CLAIM, json={"worker_id": f"w-{i}", "streams": ["default"]}) for i in range(2)]
    for answer in await asyncio.gather(*polls):
        (_, listed), *_ = await plane.store.outbox.search(job_id=answer.json()["job_id"])
        event = await plane.store.outbox.get(listed.id)
        worker_id = (await plane.store.get(answer.json()["job_id"])).worker_id
        assert f'"worker_id":"{worker_id}"'.encode() in event.body


async def test_events_wake_the_local_dispatcher_at_once(plane: Plane, client: httpx.AsyncClient) -> None:
    woken = 0

    def wake() -> None:
        nonlocal woken
        woken += 1

    assert plane.store.wakeups is not None
    plane.store.wakeups.subscribe(wake, [OUTBOX_CHANNEL])
    await submit(plane, callback_url="https://example.com/hook")
    job = await claim_one(client)
    claimed = woken
    assert claimed >= 1
    await client.post(COMPLETE, json=lease_of(job))
    assert woken > claimed


async def test_a_submit_wakes_a_waiting_worker_at_once(patient: Plane) -> None:
    async with patient.client() as client:
        poll = asyncio.ensure_future(claim_one(client, max_wait_ms=50_000))
        await eventually(lambda: is_waiting(patient))
        accepted = await client.post("/jobs", json={"type": "t"})
        assert (await asyncio.wait_for(poll, 30))["job_id"] == accepted.json()["job_id"]


async def test_completing_a_dependency_wakes_the_worker_that_waits_for_its_dependent(patient: Plane) -> None:
    async with patient.client() as client:
        graph = [{"type": "a", "ref": "a"}, {"type": "b", "depends_on": ["#a"]}]
        await client.post("/jobs/batch", json={"jobs": graph})
        first = await claim_one(client)
        poll = asyncio.ensure_future(claim_one(client, max_wait_ms=50_000))
        await eventually(lambda: is_waiting(patient))
        await client.post(COMPLETE, json=lease_of(first))
        assert (await asyncio.wait_for(poll, 30))["type"] == "b"


async def is_waiting(plane: Plane) -> bool:
    """Whether somebody waits for whom a first claim found nothing."""
    groups = plane.app._coordinator._groups.values()
    return any(g._waiters and not g._claiming and not g._woken.is_set() for g in groups)


async def test_a_long_poll_ends_after_its_time(client: httpx.AsyncClient) -> None:
    started = time.monotonic()
    answer = await client.post(CLAIM, json={"worker_id": "w", "streams": ["default"], "max_wait_ms": 300})
    assert answer.json() == {"claimed": False}
    took_s = time.monotonic() - started
    assert took_s >= 0.25
    in_time(took_s, 10)


async def test_the_servers_cap_ends_a_poll_that_asks_for_too_long(sqlite_url: str) -> None:
    async with running_plane(sqlite_url, Limits(max_wait_ms=100)) as plane, plane.client() as client:
        ask = {"worker_id": "w", "streams": ["default"], "max_wait_ms": 10**9}
        async with asyncio.timeout(30):
            assert (await client.post(CLAIM, json=ask)).json() == {"claimed": False}


class Gate:
    """Counts the store's transactions and holds the first of them back until the test lets it go."""

    def __init__(self, plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
        self.writes = 0
        self._open = asyncio.Event()
        for name in ("write", "write_one"):
            monkeypatch.setattr(plane.store.engine, name, self._gated(getattr(plane.store.engine, name)))

    def _gated(self, real: Callable[..., Any]) -> Callable[..., Any]:
        async def write(*arguments: Any, **more: Any) -> Any:
            self.writes += 1
            await self._open.wait()
            return await real(*arguments, **more)

        return write

    async def pass_when(self, everybody_is_here: Callable[[], bool]) -> None:
        async def here() -> bool:
            return everybody_is_here()

        await eventually(here)
        self._open.set()

    def shut(self) -> None:
        self.writes = 0
        self._open.clear()


async def test_a_hundred_workers_cost_a_handful_of_transactions(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    headers = {"authorization": f"Bearer {await plane.key()}"}
    await submit(plane, 100)
    gate = Gate(plane, monkeypatch)
    asked = 0
    real_ask = Batcher.ask

    async def counted(self: Batcher[Any, Any], ask: Any) -> Any:
        nonlocal asked
        asked += 1
        return await real_ask(self, ask)

    monkeypatch.setattr(Batcher, "ask", counted)

    def all_wait_for_work() -> bool:
        return sum(len(group._waiters) for group in plane.app._coordinator._groups.values()) == 100

    def asks(wait_ms: int) -> list[asyncio.Task[httpx.Response]]:
        said = {"streams": ["default"], "max_wait_ms": wait_ms}
        return [asyncio.create_task(client.post(CLAIM, json=said | {"worker_id": f"w-{i}"})) for i in range(100)]

    limits = httpx.Limits(max_connections=200)
    async with httpx.AsyncClient(
        base_url=plane.base_url, headers=headers, limits=limits, timeout=60, verify=NO_CERTIFICATES
    ) as client:
        polls = asks(0)
        await gate.pass_when(all_wait_for_work)
        jobs = [(await poll).json() for poll in polls]
        assert len({job["job_id"] for job in jobs}) == 100
        assert gate.writes <= 3

        gate.shut()
        ends = [
            asyncio.create_task(client.post(COMPLETE, json=lease_of(job, worker_id=f"w-{i}")))
            for i, job in enumerate(jobs)
        ]
        await gate.pass_when(lambda: asked == 100)
        assert {(await end).status_code for end in ends} == {200}
        assert gate.writes <= 2

        gate.shut()
        polls = asks(2000)
        await gate.pass_when(all_wait_for_work)
        assert {(await poll).json()["claimed"] for poll in polls} == {False}
        # One poller alone would look about as often; a hundred on their own would look a hundred times as often.
        assert gate.writes <= 20


async def leave(plane: Plane, key: str, *, after: Callable[[], Any]) -> None:
    """Send a long poll and hang up once `after` holds."""
    reader, writer = await asyncio.open_connection("127.0.0.1", plane.port)
    body = b'{"worker_id": "leaver", "streams": ["default"], "max_wait_ms": 50000}'
    head = f"POST {CLAIM} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n"
    head += f"Content-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await eventually(after)
    writer.close()
    assert await reader.read() == b""


async def nobody_waits(plane: Plane) -> bool:
    return not any(group._waiters for group in plane.app._coordinator._groups.values())


async def test_a_worker_that_left_while_waiting_gets_no_job(patient: Plane) -> None:
    await leave(patient, await patient.key("worker"), after=lambda: is_waiting(patient))
    await eventually(lambda: nobody_waits(patient))
    (job_id,) = await submit(patient)
    assert (await patient.store.get(job_id)).attempt_count == 0
    async with patient.client() as client:
        assert (await claim_one(client))["attempt"] == 1


async def test_what_was_claimed_for_a_worker_that_left_is_released_unharmed(
    patient: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator = patient.app._coordinator
    real, claimed, gone = coordinator.claim_for, asyncio.Event(), asyncio.Event()

    async def slow(*arguments: Any) -> Any:
        claims = await real(*arguments)
        if claims and not claimed.is_set():
            claimed.set()
            await gone.wait()
        return claims

    monkeypatch.setattr(coordinator, "claim_for", slow)
    (job_id,) = await submit(patient)

    async def is_claimed() -> bool:
        return claimed.is_set()

    await leave(patient, await patient.key("worker"), after=is_claimed)

    async def has_left() -> bool:
        return all(waiter.gone for group in coordinator._groups.values() for waiter in group._waiters)

    await eventually(has_left)
    gone.set()

    async def is_back() -> bool:
        return (await patient.store.get(job_id)).state is State.SCHEDULED

    await eventually(is_back)
    job = await patient.store.get(job_id)
    assert (job.attempt_count, job.release_count) == (0, 1)
    async with patient.client() as client:
        assert (await claim_one(client))["attempt"] == 1


async def test_a_heartbeat_extends_the_lease(plane: Plane, client: httpx.AsyncClient) -> None:
    (job_id,) = await submit(plane)
    job = await claim_one(client)
    before = (await plane.store.get(job_id)).lease_expires_at or 0
    beat = {"worker_id": "w-1", "job_id": job_id, "lease_token": job["lease_token"]}
    answer = (await client.post(HEARTBEAT, json=beat)).json()
    assert (answer["ok"], answer["cancel_requested"]) == (True, False)
    assert ((await plane.store.get(job_id)).lease_expires_at or 0) > before
    assert answer["lease_expires_at"] > job["lease_expires_at"]
    assert (await client.post(HEARTBEAT, json=beat | {"attempt_id": job["attempt_id"]})).status_code == 200


@pytest.mark.parametrize("change", [{"lease_token": "x"}, {"attempt_id": "x"}, {"job_id": "0" * 32}])
async def test_a_heartbeat_with_a_wrong_lease_is_refused(plane: Plane, client: httpx.AsyncClient, change: Json) -> None:
    (job_id,) = await submit(plane)
    job = await claim_one(client)
    before = await plane.store.get(job_id)
    beat = {"worker_id": "w-1", "job_id": job_id, "lease_token": job["lease_token"]} | change
    answer = await client.post(HEARTBEAT, json=beat)
    assert (answer.status_code, answer.json()["ok"]) == (409, False)
    assert await plane.store.get(job_id) == before


async def test_a_heartbeat_tells_stage_progress_and_checkpoint(plane: Plane, client: httpx.AsyncClient) -> None:
    await client.post("/jobs", json={"type": "t", "stages": ["claimed", "fetching", "processing"],
                                     "backoff": {"initial": "0s"}})  # fmt: skip
    job = await claim_one(client)
    assert job["stages"] == ["claimed", "fetching", "processing"]
    beat = {"worker_id": "w-1", "job_id": job["job_id"], "lease_token": job["lease_token"]}
    news = {"stage": "fetching", "progress": {"percent": 40, "message": "almost"}, "checkpoint": {"row": 7}}
    assert (await client.post(HEARTBEAT, json=beat | news)).status_code == 200
    seen = (await client.get(f"/jobs/{job['job_id']}")).json()
    assert (seen["stage"], seen["status"]) == ("fetching", "fetching")
    assert seen["progress"] == {"percent": 40.0, "message": "almost"}
    for stage in ("claimed", "uploading"):
        refused = await client.post(HEARTBEAT, json=beat | {"stage": stage})
        assert (refused.status_code, refused.json()["pointer"]) == (422, "/stage")
    assert (await client.post(HEARTBEAT, json=beat | {"progress": 101})).status_code == 422
    await client.post(FAIL, json=lease_of(job) | {"error": {"message": "again"}})
    await plane.store.sweeps.promote()
    again = await claim_one(client)
    assert (again["attempt"], again["checkpoint"]) == (2, {"row": 7})
    assert again["previous_attempt_id"] == job["attempt_id"]
    raw = beat | {"lease_token": again["lease_token"], "checkpoint": {"base64": "AP8="}, "checkpoint_format": "bytes"}
    assert (await client.post(HEARTBEAT, json=raw)).status_code == 200
    await client.post(FAIL, json=lease_of(again) | {"error": {"message": "again"}})
    await plane.store.sweeps.promote()
    third = await claim_one(client)
    assert (third["checkpoint"], third["checkpoint_format"]) == ({"base64": "AP8="}, "bytes")


async def test_a_completion_is_stored_and_its_replay_gets_the_first_answer(
    plane: Plane, client: httpx.AsyncClient
) -> None:
    (job_id,) = await submit(plane)
    job = await claim_one(client)
    report = lease_of(job) | {"result": {"pages": 3, "of": [1, 2]}}
    first = await client.post(COMPLETE, json=report)
    assert (first.status_code, first.json()) == (200, {"ok": True, "ack": True})
    settled = await plane.store.get(job_id)
    assert (settled.state, settled.result) == (State.COMPLETED, b'{"pages":3,"of":[1,2]}')
    respelled = lease_of(job) | {"result": {"of": [1, 2], "pages": 3}}
    for again in (report, respelled):
        answer = await client.post(COMPLETE, json=again)
        assert (answer.status_code, answer.content) == (200, first.content)
    assert await plane.store.get(job_id) == settled
    assert len(await plane.store.attempts(job_id)) == 1


async def test_a_closed_attempt_refuses_any_other_report_and_writes_nothing(
    plane: Plane, client: httpx.AsyncClient
) -> None:
    (job_id,) = await submit(plane)
    job = await claim_one(client)
    await client.post(COMPLETE, json=lease_of(job) | {"result": 1})
    settled = await plane.store.get(job_id)
    others: list[tuple[str, Json]] = [
        (COMPLETE, {"result": 2}),
        (COMPLETE, {}),
        (COMPLETE, {"result": 1, "lease_token": "x" * 43}),
        (COMPLETE, {"result": 1, "attempt_id": f"{job_id}:2"}),
        (COMPLETE, {"result": 1, "attempt_id": "nonsense"}),
        (FAIL, {"error": {"message": "no"}}),
        (FAIL, {"released": True}),
    ]
    for path, change in others:
        answer = await client.post(path, json=lease_of(job) | change)
        assert (answer.status_code, answer.json()["ok"], answer.json()["code"]) == (409, False, "stale_lease"), change
    assert await plane.store.get(job_id) == settled
    assert len(await plane.store.attempts(job_id)) == 1


async def test_different_results_at_the_same_moment_leave_one_winner(plane: Plane, client: httpx.AsyncClient) -> None:
    ids = await submit(plane, 10)
    for _ in ids:
        job = await claim_one(client)
        reports = [client.post(COMPLETE, json=lease_of(job) | {"result": i % 2}) for i in range(8)]
        answers = [answer.status_code for answer in await asyncio.gather(*reports)]
        stored = (await plane.store.get(job["job_id"])).result
        assert [code == 200 for code in answers] == [str(i % 2).encode() == stored for i in range(8)]


async def test_a_wrong_token_beside_the_right_one_harms_nobody(plane: Plane, client: httpx.AsyncClient) -> None:
    await submit(plane, 10)
    for _ in range(10):
        job = await claim_one(client)
        wrong = client.post(COMPLETE, json=lease_of(job) | {"lease_token": "wrong"})
        right = client.post(COMPLETE, json=lease_of(job))
        answers = await asyncio.gather(wrong, wrong_again(client, job), right)
        assert [answer.status_code for answer in answers] == [409, 409, 200]


async def wrong_again(client: httpx.AsyncClient, job: Json) -> httpx.Response:
    return await client.post(FAIL, json=lease_of(job) | {"lease_token": "wrong", "error": {"message": "x"}})


@pytest.mark.parametrize(
    ("said", "attempts", "answer", "state"),
    [
        ({"error": {"code": "c", "message": "m", "stack": "s", "retryable": True}}, 3, (True, False), "retrying"),
        ({"error": {"message": "m", "retryable": True}}, 1, (False, True), "dead_letter"),
        ({"error": {"message": "m", "retryable": False}}, 3, (False, False), "failed"),
        ({"error": {"message": "m", "category": "timeout"}}, 3, (True, False), "retrying"),
        ({"error": {"message": "m", "retryable": True, "category": "permanent"}}, 3, (False, False), "failed"),
        ({"error": {"message": "stopped", "category": "cancelled"}}, 3, (False, False), "cancelled"),
        ({"released": True}, 3, (True, False), "scheduled"),
    ],
)
async def test_a_failure_is_answered_with_what_follows_and_its_replay_likewise(
    plane: Plane, client: httpx.AsyncClient, said: Json, attempts: int, answer: tuple[bool, bool], state: str
) -> None:
    (job_id,) = await submit(plane, max_attempts=attempts)
    job = await claim_one(client)
    first = await client.post(FAIL, json=lease_of(job) | said)
    requeued, dlq = answer
    assert first.json() == {"ok": True, "ack": True, "requeued": requeued, "dlq": dlq}
    settled = await plane.store.get(job_id)
    assert settled.state == state
    again = await client.post(FAIL, json=lease_of(job) | said)
    assert (again.status_code, again.content) == (200, first.content)
    assert await plane.store.get(job_id) == settled


async def test_a_failure_must_say_what_went_wrong(plane: Plane, client: httpx.AsyncClient) -> None:
    await submit(plane)
    job = await claim_one(client)
    answer = await client.post(FAIL, json=lease_of(job))
    assert (answer.status_code, answer.json()["pointer"]) == (422, "/error")
    bad = await client.post(FAIL, json=lease_of(job) | {"error": {"message": "m", "retry_after": "soon"}})
    assert (bad.status_code, bad.json()["pointer"]) == (422, "/error/retry_after")


async def test_a_retry_after_is_waited_for(plane: Plane, client: httpx.AsyncClient) -> None:
    (job_id,) = await submit(plane)
    job = await claim_one(client)
    await client.post(FAIL, json=lease_of(job) | {"error": {"message": "m", "retry_after": "2h"}})
    settled = await plane.store.get(job_id)
    assert settled.run_at - settled.updated_at == 2 * 3600 * 1_000_000


async def test_a_worker_that_lost_its_lease_writes_nothing(url: str) -> None:
    async with running_plane(url, Limits(lease_ttl_us=1)) as plane, plane.client() as client:
        (job_id,) = await submit(plane)
        stale = await claim_one(client)
        assert await plane.store.sweeps.reclaim() == 1
        reclaimed = await plane.store.get(job_id)
        reports: list[tuple[str, Json]] = [(COMPLETE, {}), (FAIL, {"error": {"message": "m"}}), (HEARTBEAT, {})]
        for path, said in reports:
            answer = await client.post(path, json=lease_of(stale) | said)
            assert (answer.status_code, answer.json()["ok"]) == (409, False)
        assert await plane.store.get(job_id) == reclaimed


async def test_a_late_report_is_taken_while_nobody_else_owns_the_job(url: str) -> None:
    async with running_plane(url, Limits(lease_ttl_us=1)) as plane, plane.client() as client:
        await submit(plane)
        job = await claim_one(client)
        assert (await client.post(HEARTBEAT, json=lease_of(job))).status_code == 200
        assert (await client.post(COMPLETE, json=lease_of(job))).status_code == 200


async def test_a_cancel_reaches_the_worker_in_its_next_heartbeat(plane: Plane, client: httpx.AsyncClient) -> None:
    (job_id,) = await submit(plane)
    job = await claim_one(client)
    asked = (await client.post(f"/jobs/{job_id}/cancel")).json()
    assert asked == {"job_id": job_id, "state": "running", "cancel_requested": True}
    assert (await client.post(HEARTBEAT, json=lease_of(job))).json()["cancel_requested"] is True
    error = {"message": "stopped", "category": "cancelled"}
    await client.post(FAIL, json=lease_of(job) | {"error": error})
    assert (await plane.store.get(job_id)).state is State.CANCELLED


async def test_a_forced_cancel_fences_the_worker_off(plane: Plane, client: httpx.AsyncClient) -> None:
    (job_id,) = await submit(plane)
    job = await claim_one(client)
    assert (await client.post(f"/jobs/{job_id}/cancel", json={"force": True})).json()["state"] == "cancelled"
    for path in (HEARTBEAT, COMPLETE):
        assert (await client.post(path, json=lease_of(job))).status_code == 409
    assert (await plane.store.get(job_id)).state is State.CANCELLED


async def test_unknown_fields_of_a_worker_are_ignored(plane: Plane, client: httpx.AsyncClient) -> None:
    await submit(plane)
    job = await claim_one(client, shoe_size=43)
    assert (await client.post(COMPLETE, json=lease_of(job) | {"shoe_size": 43})).status_code == 200


async def test_a_result_over_its_limit_is_refused_and_the_job_still_runs(
    plane: Plane, client: httpx.AsyncClient
) -> None:
    (job_id,) = await submit(plane)
    job = await claim_one(client)
    answer = await client.post(COMPLETE, json=lease_of(job) | {"result": "x" * 1_000_001})
    assert (answer.status_code, answer.json()["pointer"]) == (413, "/result")
    assert (await plane.store.get(job_id)).state is State.RUNNING


async def test_a_concurrency_limit_holds_for_workers_over_http(plane: Plane, client: httpx.AsyncClient) -> None:
    await submit(plane, 3, concurrency_key="k", concurrency_limit=1)
    ask = {"worker_id": "w", "streams": ["default"], "max_jobs": 3}
    (job,) = (await client.post(CLAIM, json=ask)).json()["jobs"]
    assert (await client.post(CLAIM, json=ask)).json()["claimed"] is False
    await client.post(COMPLETE, json=lease_of(job, worker_id="w"))
    assert len((await client.post(CLAIM, json=ask)).json()["jobs"]) == 1


async def test_stopping_answers_waiting_workers_at_once(sqlite_url: str) -> None:
    async with running_plane(sqlite_url) as plane, plane.client() as client:
        ask = {"worker_id": "w", "streams": ["default"], "max_wait_ms": 50_000}
        poll = asyncio.ensure_future(client.post(CLAIM, json=ask))
        await eventually(lambda: is_waiting(plane))
        plane.app.drain()
        assert (await asyncio.wait_for(poll, 30)).json() == {"claimed": False}
