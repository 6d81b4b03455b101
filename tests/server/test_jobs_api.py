"""Submitting, looking, cancelling, retrying over HTTP."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import msgspec
import pytest

from euterpe.model.retention import Retention
from euterpe.model.submitting.batch import new_ids
from euterpe.wire import jobs as wire_jobs
from tests.server.plane import Plane, claim_one, lease_of

Json = dict[str, Any]


async def submit(client: httpx.AsyncClient, **body: Any) -> Json:
    answer = await client.post("/jobs", json={"type": "t"} | body)
    assert answer.status_code == 202, answer.text
    accepted: Json = answer.json()
    return accepted


def exact(content: bytes, kind: type[msgspec.Struct]) -> msgspec.Struct:
    """Decodes, and has no field that the type does not know."""
    strict = msgspec.defstruct(
        f"Exact{kind.__name__}", [], bases=(kind,), forbid_unknown_fields=True, kw_only=True, frozen=True
    )
    return msgspec.json.decode(content, type=strict)


async def test_a_submission_is_accepted_and_read_back_whole(client: httpx.AsyncClient) -> None:
    accepted = await client.post(
        "/jobs",
        json={"type": "report", "payload": {"n": [1, None, "ü"]}, "priority": "high", "tags": {"team": "a"},
              "correlation_id": "c", "queue": "reports", "max_attempts": 5, "timeout": "10m"},
    )  # fmt: skip
    assert accepted.status_code == 202
    exact(accepted.content, wire_jobs.Accepted)
    job_id = accepted.json()["job_id"]
    assert accepted.headers["location"] == f"/jobs/{job_id}"
    found = await client.get(f"/jobs/{job_id}")
    assert found.status_code == 200
    exact(found.content, wire_jobs.JobDocument)
    job = found.json()
    assert (job["state"], job["status"], job["attempt"]) == ("scheduled", "queued", 0)
    assert job["payload"] == {"n": [1, None, "ü"]}
    assert (job["priority"], job["queue"], job["tags"], job["max_attempts"]) == ("high", "reports", {"team": "a"}, 5)


async def test_the_same_key_and_request_get_the_first_answer_byte_for_byte(client: httpx.AsyncClient) -> None:
    body = {"type": "t", "payload": {"a": 1}}
    first = await client.post("/jobs", json=body, headers={"Idempotency-Key": "k"})
    assert "idempotency-replayed" not in first.headers
    by_header = await client.post("/jobs", json=body, headers={"Idempotency-Key": "k"})
    by_field = await client.post("/jobs", json=body | {"idempotency_key": "k"})
    for again in (by_header, by_field):
        assert again.status_code == 202
        assert again.content == first.content
        assert again.headers["idempotency-replayed"] == "true"


async def test_fifty_submits_at_once_with_one_key_make_one_job(client: httpx.AsyncClient) -> None:
    body = {"type": "t", "idempotency_key": "one"}
    answers = await asyncio.gather(*(client.post("/jobs", json=body) for _ in range(50)))
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.content for answer in answers}) == 1
    assert len((await client.get("/jobs")).json()["jobs"]) == 1


async def test_the_same_key_with_another_request_conflicts(client: httpx.AsyncClient) -> None:
    await submit(client, idempotency_key="k")
    answer = await client.post("/jobs", json={"type": "t", "payload": {"other": 1}, "idempotency_key": "k"})
    assert answer.status_code == 409
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "idempotency_conflict"


async def test_a_key_of_another_requester_is_another_key(plane: Plane) -> None:
    async with plane.client(requester="one") as one, plane.client(requester="two") as two:
        first = await submit(one, idempotency_key="k")
        second = await submit(two, idempotency_key="k", payload={"other": 1})
    assert first["job_id"] != second["job_id"]


async def test_header_and_field_key_must_agree(client: httpx.AsyncClient) -> None:
    body = {"type": "t", "idempotency_key": "a"}
    answer = await client.post("/jobs", json=body, headers={"Idempotency-Key": "b"})
    assert (answer.status_code, answer.json()["pointer"]) == (422, "/idempotency_key")


@pytest.mark.parametrize(
    ("said", "pointer"),
    [
        ({"delay": "soon"}, "/delay"),
        ({"delay": "30"}, "/delay"),
        ({"timeout": "0s"}, "/timeout"),
        ({"priority": "urgent"}, "/priority"),
        ({"priority": 5}, "/priority"),
        ({"priority": True}, "/priority"),
        ({"max_attempts": 0}, "/max_attempts"),
        ({"run_at": "tomorrow"}, "/run_at"),
        ({"run_at": "1969-12-31T23:59:59Z"}, "/run_at"),
        ({"run_at": "2030-01-01T00:00:00"}, "/run_at"),
        ({"backoff": {"initial": "2h", "max": "1h"}}, "/backoff/max"),
        ({"backoff": {"strategy": "custom"}}, "/backoff/name"),
        ({"stages": ["fetching"]}, "/stages"),
        ({"callback_url": "ftp://x"}, "/callback_url"),
        ({"tags": {"a": 1}}, "/tags"),
        ({"tags": {"": "x"}}, "/tags"),
        ({"dependency": "fan_out"}, "/dependency"),
        ({"depends_on": ["nope"]}, "/depends_on"),
        ({"depends_on": ["#elsewhere"]}, "/depends_on"),
        ({"concurrency_limit": 2}, "/concurrency_limit"),
        ({"unique_key": ""}, "/unique_key"),
        ({"payload": 1, "payload_format": "bytes"}, "/payload"),
        ({"prioritee": "high"}, "/prioritee"),
        ({"type": ""}, "/type"),
    ],
)
async def test_what_is_wrong_in_a_submission_is_pointed_at_and_nothing_is_stored(
    sqlite_client: httpx.AsyncClient, said: Json, pointer: str
) -> None:
    answer = await sqlite_client.post("/jobs", json={"type": "t"} | said)
    assert (answer.status_code, answer.json().get("pointer")) == (422, pointer), answer.text
    assert (await sqlite_client.get("/jobs")).json()["jobs"] == []


async def test_an_unknown_dependency_is_refused_also_when_another_requester_has_it(plane: Plane) -> None:
    async with plane.client(requester="one") as one, plane.client(requester="two") as two:
        theirs = (await submit(one))["job_id"]
        for job_id in (theirs, new_ids(1)[0]):
            answer = await two.post("/jobs", json={"type": "t", "depends_on": [job_id]})
            assert (answer.status_code, answer.json()["code"]) == (422, "unknown_dependency")


async def test_delays_and_times_are_kept(client: httpx.AsyncClient) -> None:
    delayed = await submit(client, delay="1h30m")
    assert delayed["state"] == "delayed"
    in_an_hour = datetime.now(UTC) + timedelta(hours=1)
    at = await submit(client, run_at=in_an_hour.isoformat())
    job = (await client.get(f"/jobs/{at['job_id']}")).json()
    assert job["state"] == "delayed"
    assert abs(datetime.fromisoformat(job["run_at"]) - in_an_hour) < timedelta(milliseconds=1)


async def test_bytes_travel_as_base64_and_come_back_so(client: httpx.AsyncClient) -> None:
    payload = {"base64": "AAH/"}
    accepted = await submit(client, payload=payload, payload_format="bytes")
    assert (await client.get(f"/jobs/{accepted['job_id']}")).json()["payload"] == payload
    claimed = await claim_one(client)
    assert (claimed["payload"], claimed["payload_format"]) == (payload, "bytes")


async def test_a_batch_is_stored_whole_or_not_at_all(client: httpx.AsyncClient) -> None:
    bad = await client.post("/jobs/batch", json={"jobs": [{"type": "a"}, {"type": "b", "priority": "x"}]})
    assert (bad.status_code, bad.json()["pointer"]) == (422, "/jobs/1/priority")
    unknown = {"jobs": [{"type": "a"}, {"type": "b", "depends_on": new_ids(1)}]}
    assert (await client.post("/jobs/batch", json=unknown)).status_code == 422
    assert (await client.get("/jobs")).json()["jobs"] == []
    good = await client.post("/jobs/batch", json={"jobs": [{"type": "a"}, {"type": "b"}]})
    assert good.status_code == 202
    exact(good.content, wire_jobs.BatchAccepted)
    assert [job["type"] for job in good.json()["jobs"]] == ["a", "b"]


async def test_a_graph_runs_in_the_order_of_its_refs(client: httpx.AsyncClient) -> None:
    graph = [
        {"ref": "load", "type": "load", "depends_on": ["#extract"]},
        {"ref": "extract", "type": "extract"},
        {"type": "report", "depends_on": ["#load", "#extract"]},
    ]
    answer = await client.post("/jobs/batch", json={"jobs": graph})
    assert [job["state"] for job in answer.json()["jobs"]] == ["pending", "scheduled", "pending"]
    order = []
    for _ in graph:
        job = await claim_one(client)
        order.append(job["type"])
        assert (await client.post("/internal/worker/complete", json=lease_of(job))).status_code == 200
    assert order == ["extract", "load", "report"]


@pytest.mark.parametrize(
    ("jobs", "code", "pointer"),
    [
        ([{"type": "a", "ref": "x", "depends_on": ["#x"]}], "dependency_cycle", "/depends_on"),
        ([{"type": "a", "depends_on": ["#gone"]}], "unknown_dependency", "/jobs/0/depends_on"),
        ([{"type": "a", "ref": "x"}, {"type": "b", "ref": "x"}], "invalid_input", "/jobs/1/ref"),
        ([{"type": "a", "ref": "x"}, {"type": "b", "depends_on": ["#x"], "idempotency_key": "k"}], "invalid_input",
         "/jobs/1/idempotency_key"),
    ],
)  # fmt: skip
async def test_a_graph_that_makes_no_sense_is_refused(
    client: httpx.AsyncClient, jobs: list[Json], code: str, pointer: str
) -> None:
    answer = await client.post("/jobs/batch", json={"jobs": jobs})
    assert (answer.status_code, answer.json()["code"], answer.json()["pointer"]) == (422, code, pointer)
    assert (await client.get("/jobs")).json()["jobs"] == []


async def test_a_batch_with_a_key_is_replayed_byte_for_byte(client: httpx.AsyncClient) -> None:
    body = {"jobs": [{"type": "a", "ref": "a"}, {"type": "b", "depends_on": ["#a"]}]}
    first = await client.post("/jobs/batch", json=body, headers={"Idempotency-Key": "k"})
    again = await client.post("/jobs/batch", json=body | {"idempotency_key": "k"})
    assert (again.status_code, again.content) == (202, first.content)
    assert again.headers["idempotency-replayed"] == "true"
    other = await client.post("/jobs/batch", json={"jobs": [{"type": "a"}], "idempotency_key": "k"})
    assert other.status_code == 409
    assert len((await client.get("/jobs")).json()["jobs"]) == 2


async def test_jobs_are_found_by_state_type_queue_and_tag_a_page_at_a_time(client: httpx.AsyncClient) -> None:
    for i in range(5):
        await submit(client, type="even" if i % 2 == 0 else "odd", tags={"n": str(i)}, queue=f"q{i % 2}")
    pages, cursor = [], ""
    while True:
        answer = await client.get(f"/jobs?limit=2&cursor={cursor}")
        exact(answer.content, wire_jobs.JobPage)
        pages.append([job["tags"]["n"] for job in answer.json()["jobs"]])
        cursor = answer.json()["cursor"]
        if cursor is None:
            break
    assert pages == [["4", "3"], ["2", "1"], ["0"]]

    async def found(query: str) -> list[str]:
        return [job["tags"]["n"] for job in (await client.get(f"/jobs?{query}")).json()["jobs"]]

    assert await found("type=odd") == ["3", "1"]
    assert await found("queue=q0&state=scheduled&type=") == ["4", "2", "0"]
    assert await found("tag=n:3") == ["3"]
    assert await found("state=completed") == []


@pytest.mark.parametrize(
    "query",
    ["state=done", "limit=0", "limit=201", "limit=x", "cursor=abc", "cursor=99999999999999999999", "tag=nocolon",
     "stat=running", "state=running&state=failed", "type=%00", "cursor=-1"],
)  # fmt: skip
async def test_a_search_that_makes_no_sense_is_refused(sqlite_client: httpx.AsyncClient, query: str) -> None:
    answer = await sqlite_client.get(f"/jobs?{query}")
    assert answer.status_code == 422, answer.text
    assert answer.json()["pointer"].startswith("/")


async def test_a_page_of_large_jobs_is_cut_short_and_goes_on(client: httpx.AsyncClient) -> None:
    for _ in range(10):
        await submit(client, payload={"x": "x" * 990_000})
    first = (await client.get("/jobs?limit=10")).json()
    assert 1 <= len(first["jobs"]) < 10
    rest = (await client.get(f"/jobs?limit=10&cursor={first['cursor']}")).json()
    assert len(first["jobs"]) + len(rest["jobs"]) == 10


async def test_another_requesters_job_is_not_there(plane: Plane) -> None:
    async with plane.client(requester="one") as one, plane.client(requester="two") as two:
        job_id = (await submit(one))["job_id"]
        for answer in (
            await two.get(f"/jobs/{job_id}"),
            await two.get(f"/jobs/{job_id}/attempts"),
            await two.post(f"/jobs/{job_id}/cancel"),
            await two.post(f"/jobs/{job_id}/cancel", json={"force": True}),
            await two.post(f"/jobs/{job_id}/retry"),
        ):
            assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
        assert (await two.get("/jobs")).json()["jobs"] == []
        stats = (await two.get("/stats")).json()
        assert all(not part for name, part in stats.items() if name != "per_minute")
        assert set(stats["per_minute"].values()) == {0}
        assert (await one.get(f"/jobs/{job_id}")).json()["state"] == "scheduled"


async def test_only_an_admin_looks_at_other_requesters(plane: Plane) -> None:
    async with plane.client(requester="one") as one, plane.client("admin", requester="ops") as admin:
        job_id = (await submit(one))["job_id"]
        assert (await admin.get(f"/jobs/{job_id}")).status_code == 404
        assert (await admin.get(f"/jobs/{job_id}?requester=one")).status_code == 200
        assert len((await admin.get("/jobs?requester=*")).json()["jobs"]) == 1
        assert (await admin.get("/stats?requester=*")).json()["by_state"] == {"scheduled": 1}
        refused = await one.get("/jobs?requester=ops")
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")


async def test_an_admin_cancels_and_retries_for_others_when_it_says_whose(plane: Plane) -> None:
    async with plane.client(requester="one") as one, plane.client("admin", requester="ops") as admin:
        first, second = [(await submit(one))["job_id"] for _ in range(2)]
        assert (await admin.post(f"/jobs/{first}/cancel")).status_code == 404
        assert (await admin.post(f"/jobs/{first}/cancel", json={"requester": "two"})).status_code == 404
        for action, body in (("cancel", {"requester": "one"}), ("retry", {"requester": "one"})):
            refused = await one.post(f"/jobs/{first}/{action}", json={"requester": "ops"})
            assert (refused.status_code, refused.json()["pointer"]) == (403, "/requester")
            assert (await admin.post(f"/jobs/{first}/{action}", json=body)).status_code in (200, 202)
        assert (await one.get(f"/jobs/{first}")).json()["state"] == "cancelled"
        assert (await admin.post(f"/jobs/{second}/cancel", json={"requester": "*"})).json()["state"] == "cancelled"
        replays = [job for job in (await one.get("/jobs")).json()["jobs"] if job["replay_of"]]
        assert [job["replay_of"] for job in replays] == [first]  # it is the requester's, not the admin's


async def test_a_retry_with_a_key_replays_a_job_once(client: httpx.AsyncClient) -> None:
    first, second = [(await submit(client, idempotency_key=f"k{i}"))["job_id"] for i in range(2)]
    for job_id in (first, second):
        await client.post(f"/jobs/{job_id}/cancel")
    key = {"idempotency-key": "k0"}
    replay = await client.post(f"/jobs/{first}/retry", headers=key)
    again = await client.post(f"/jobs/{first}/retry", headers=key)
    assert (replay.status_code, again.status_code) == (202, 202)
    assert again.json()["job_id"] == replay.json()["job_id"] not in (first, second)
    other = (await client.post(f"/jobs/{second}/retry", headers=key)).json()
    assert (other["replay_of"], replay.json()["replay_of"]) == (second, first)
    unkeyed = (await client.post(f"/jobs/{first}/retry")).json()
    assert len({replay.json()["job_id"], other["job_id"], unkeyed["job_id"]}) == 3


@pytest.mark.parametrize("job_id", ["nope", "%00", "..%2f..", "{}", "1" * 5000, "48ded630-41fa-4c1c-bd83-b07dae185e2Z"])
async def test_an_id_that_is_none_is_not_found(sqlite_client: httpx.AsyncClient, job_id: str) -> None:
    assert (await sqlite_client.get(f"/jobs/{job_id}")).status_code == 404


async def test_an_id_is_found_in_upper_case_too(client: httpx.AsyncClient) -> None:
    job_id = (await submit(client))["job_id"]
    assert (await client.get(f"/jobs/{job_id.upper()}")).json()["job_id"] == job_id


async def test_a_pruned_job_is_gone_for_its_requester_and_unknown_to_others(plane: Plane) -> None:
    async with plane.client(requester="one") as one, plane.client(requester="two") as two:
        job_id = (await submit(one))["job_id"]
        await one.post(f"/jobs/{job_id}/cancel")
        await plane.store.sweeps.prune(Retention(cancelled_us=-60_000_000))
        gone = await one.get(f"/jobs/{job_id}")
        assert (gone.status_code, gone.json()["code"]) == (410, "job_pruned")
        assert (await two.get(f"/jobs/{job_id}")).status_code == 404


async def test_cancelling_a_waiting_job_ends_it_at_once_and_again_changes_nothing(client: httpx.AsyncClient) -> None:
    job_id = (await submit(client))["job_id"]
    for _ in range(2):
        answer = await client.post(f"/jobs/{job_id}/cancel")
        assert answer.json() == {"job_id": job_id, "state": "cancelled", "cancel_requested": False}
    assert (await client.get(f"/jobs/{job_id}")).json()["state"] == "cancelled"


async def test_cancelling_an_ended_job_conflicts(client: httpx.AsyncClient) -> None:
    job_id = (await submit(client))["job_id"]
    await client.post("/internal/worker/complete", json=lease_of(await claim_one(client)))
    answer = await client.post(f"/jobs/{job_id}/cancel")
    assert (answer.status_code, answer.json()["code"]) == (409, "illegal_transition")


async def test_a_failed_job_with_budget_goes_on_and_a_completed_one_is_replayed(client: httpx.AsyncClient) -> None:
    job_id = (await submit(client))["job_id"]
    error = {"code": "no", "message": "no", "retryable": False}
    await client.post("/internal/worker/fail", json=lease_of(await claim_one(client)) | {"error": error})
    again = await client.post(f"/jobs/{job_id}/retry")
    assert (again.status_code, again.json()["job_id"], again.json()["state"]) == (202, job_id, "scheduled")
    await client.post("/internal/worker/complete", json=lease_of(await claim_one(client)))
    replay = await client.post(f"/jobs/{job_id}/retry")
    assert replay.status_code == 202
    assert (replay.json()["replay_of"], replay.headers["location"]) == (job_id, f"/jobs/{replay.json()['job_id']}")
    waiting = await client.post(f"/jobs/{replay.json()['job_id']}/retry")
    assert (waiting.status_code, waiting.json()["code"]) == (409, "illegal_transition")


async def test_attempts_tell_how_each_execution_went(client: httpx.AsyncClient) -> None:
    job_id = (await submit(client, backoff={"initial": "0s"}))["job_id"]
    first = await claim_one(client)
    running = (await client.get(f"/jobs/{job_id}/attempts")).json()["attempts"]
    assert [(a["attempt"], a["outcome"], a["ended_at"]) for a in running] == [(1, None, None)]
    error = {"code": "printer", "message": "out of paper", "stack": "at line 1", "retryable": True}
    await client.post("/internal/worker/fail", json=lease_of(first) | {"error": error})
    answer = await client.get(f"/jobs/{job_id}/attempts")
    exact(answer.content, wire_jobs.Attempts)
    (closed,) = answer.json()["attempts"]
    assert (closed["attempt_id"], closed["outcome"], closed["worker_id"]) == (first["attempt_id"], "temporary", "w-1")
    assert closed["error"] == {
        "code": "printer", "category": "temporary", "message": "out of paper", "retryable": True, "attempt": 1,
        "stack": "at line 1",
    }  # fmt: skip


async def test_stats_count_ones_own_jobs(client: httpx.AsyncClient) -> None:
    await submit(client, type="a")
    await submit(client, type="b", queue="other", delay="1h")
    answer = await client.get("/stats")
    exact(answer.content, wire_jobs.StatsDocument)
    stats = answer.json()
    assert stats["by_state"] == {"scheduled": 1, "delayed": 1}
    assert stats["by_queue"] == {"default": {"scheduled": 1}, "other": {"delayed": 1}}
    assert stats["by_type"] == {"a": {"scheduled": 1}, "b": {"delayed": 1}}
    assert set(stats["oldest_age_seconds"]) == {"default"}


async def test_a_retry_with_dependents_replays_what_ended_with_the_job(client: httpx.AsyncClient) -> None:
    first = (await client.post("/jobs", json={"type": "charge"})).json()["job_id"]
    then = (await client.post("/jobs", json={"type": "mail", "depends_on": [first]})).json()["job_id"]
    assert (await client.get(f"/jobs/{then}")).json()["depends_on"] == [first]
    await client.post(f"/jobs/{first}/cancel")
    for _ in range(2):
        again = await client.post(f"/jobs/{first}/retry", json={"dependents": True})
        assert (again.status_code, again.json()["replay_of"]) == (202, first)
    jobs = (await client.get("/jobs?type=mail")).json()["jobs"]
    assert [(job["state"], job["replay_of"], job["depends_on"]) for job in jobs] == [
        ("pending", then, [again.json()["job_id"]]),
        ("cancelled", None, [first]),
    ]
