"""A turn: reports, heartbeats and the next claim in one request, each entry answered as its own route would."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from euterpe.model.state import State
from euterpe.model.submitting.submission import Submission
from tests.server.plane import Plane

TURN = "/internal/worker/turn"
COMPLETE = "/internal/worker/complete"
FAIL = "/internal/worker/fail"
HEARTBEAT = "/internal/worker/heartbeat"
CLAIM = {"streams": ["default"], "max_jobs": 100}
DONE = {"ok": True, "ack": True}
Json = dict[str, Any]


async def claimed(plane: Plane, client: httpx.AsyncClient, count: int, **said: Any) -> list[Json]:
    """So many jobs, claimed in a turn."""
    await plane.store.submit_many([Submission(type="t", requester_id="vesta", **said)] * count)
    answer = await turn(client, claim=CLAIM)
    assert (answer["claimed"], len(answer["jobs"])) == (True, count)
    jobs: list[Json] = answer["jobs"]
    return jobs


async def turn(client: httpx.AsyncClient, **said: Any) -> Json:
    answer = await client.post(TURN, json={"worker_id": "w-1"} | said)
    assert answer.status_code == 200, answer.text
    document: Json = answer.json()
    return document


def entry(job: Json, **more: Any) -> Json:
    return {key: job[key] for key in ("job_id", "attempt_id", "lease_token")} | more


def single(job: Json, **more: Any) -> Json:
    return entry(job, worker_id="w-1", **more)


async def state_of(plane: Plane, job: Json) -> State:
    return (await plane.store.get(job["job_id"])).state


async def test_reports_and_the_next_claim_go_in_one_request(plane: Plane, client: httpx.AsyncClient) -> None:
    first, second, third = await claimed(plane, client, 3)
    await plane.store.submit(Submission(type="next", requester_id="vesta"))
    answer = await turn(
        client,
        complete=[entry(first, result={"n": 1}), entry(second)],
        fail=[entry(third, error={"message": "no", "retryable": False})],
        claim=CLAIM,
    )
    assert answer["complete"] == [DONE, DONE]
    assert answer["fail"] == [DONE | {"requeued": False, "dlq": False, "state": "failed"}]
    assert answer["heartbeat"] == []
    assert [(job["type"], job["attempt"]) for job in answer["jobs"]] == [("next", 1)]
    assert (await plane.store.get(first["job_id"])).result == b'{"n":1}'
    assert [await state_of(plane, job) for job in (second, third)] == [State.COMPLETED, State.FAILED]
    (running,) = answer["jobs"]
    assert (await plane.store.get(running["job_id"])).worker_id == "w-1"


async def test_a_turn_is_safe_to_repeat_and_its_entries_agree_with_the_single_routes(
    plane: Plane, client: httpx.AsyncClient
) -> None:
    first, second, third = await claimed(plane, client, 3)
    said = {"complete": [entry(first, result={"a": 1, "b": 2})], "fail": [entry(second, released=True)]}
    answer = await turn(client, **said)
    assert answer["fail"] == [DONE | {"requeued": True, "dlq": False, "state": "scheduled"}]
    stored = [await plane.store.get(job["job_id"]) for job in (first, second)]
    assert await turn(client, **said) == answer
    respelled = await client.post(COMPLETE, json=single(first, result={"b": 2, "a": 1}))
    assert (respelled.status_code, respelled.json()) == (200, DONE)
    replayed = await client.post(FAIL, json=single(second, released=True))
    assert (replayed.status_code, replayed.json() | {"state": "scheduled"}) == (200, answer["fail"][0])
    assert [await plane.store.get(job["job_id"]) for job in (first, second)] == stored
    assert (await client.post(COMPLETE, json=single(third, result=7))).status_code == 200
    assert (await turn(client, complete=[entry(third, result=7)]))["complete"] == [DONE]


@pytest.mark.parametrize("change", [{"lease_token": "guess"}, {"attempt_id": "nonsense"}, {"job_id": "0" * 32}])
async def test_a_refused_entry_writes_nothing_and_its_neighbours_are_written(
    plane: Plane, client: httpx.AsyncClient, change: Json
) -> None:
    one, two, three = await claimed(plane, client, 3)
    before = await plane.store.get(two["job_id"])
    error = {"message": "no", "retryable": False}
    answer = await turn(
        client,
        complete=[entry(one), entry(two) | change],
        fail=[entry(two, error=error) | change, entry(three, error=error)],
        heartbeat=[entry(two) | change],
    )
    assert [said["ok"] for said in answer["complete"]] == [True, False]
    assert [said["ok"] for said in answer["fail"]] == [False, True]
    refused = [answer["complete"][1], answer["fail"][0], answer["heartbeat"][0]]
    assert [(said["ok"], said["code"]) for said in refused] == [(False, "stale_lease")] * 3
    assert await plane.store.get(two["job_id"]) == before
    assert [await state_of(plane, job) for job in (one, three)] == [State.COMPLETED, State.FAILED]


async def test_another_report_on_a_closed_attempt_is_refused(plane: Plane, client: httpx.AsyncClient) -> None:
    (job,) = await claimed(plane, client, 1)
    answer = await turn(client, complete=[entry(job, result=1), entry(job, result=2), entry(job, result=1)])
    assert [said["ok"] for said in answer["complete"]] == [True, False, True]
    assert (await plane.store.get(job["job_id"])).result == b"1"


async def test_many_leases_are_kept_in_one_request_and_news_ride_along(plane: Plane, client: httpx.AsyncClient) -> None:
    jobs = await claimed(plane, client, 5, stages=("claimed", "one"))
    before = {job["job_id"]: (await plane.store.get(job["job_id"])).lease_expires_at or 0 for job in jobs}
    await client.post(f"/jobs/{jobs[1]['job_id']}/cancel")
    await client.post(f"/jobs/{jobs[2]['job_id']}/cancel", json={"force": True})
    beats = [entry(job) for job in jobs]
    beats[3] |= {"stage": "one", "progress": {"percent": 40, "message": "half"}, "checkpoint": {"row": 7}}
    beats[4] |= {"stage": "nowhere"}
    answers = (await turn(client, heartbeat=beats))["heartbeat"]
    assert [said["ok"] for said in answers] == [True, True, False, True, False]
    assert [said.get("cancel_requested") for said in answers] == [False, True, None, False, None]
    assert [said.get("code") for said in answers] == [None, None, "stale_lease", None, "illegal_transition"]
    for job in (jobs[0], jobs[1], jobs[3]):
        assert ((await plane.store.get(job["job_id"])).lease_expires_at or 0) > before[job["job_id"]]
    told = await plane.store.get(jobs[3]["job_id"])
    assert (told.stage, told.progress, told.progress_message, told.checkpoint) == ("one", 40.0, "half", b'j{"row":7}')
    single_answer = (await client.post(HEARTBEAT, json=single(jobs[0]))).json()
    assert set(answers[0]) == set(single_answer)


@pytest.mark.parametrize(
    ("said", "pointer"),
    [
        ({"fail": [{}]}, "/fail/1/error"),
        ({"fail": [{"error": {"message": "m", "retry_after": "soon"}}]}, "/fail/1/error/retry_after"),
        ({"heartbeat": [{"checkpoint": {"x": 1}, "checkpoint_format": "bytes"}]}, "/heartbeat/1/checkpoint"),
        ({"complete": [{"lease_token": 7}]}, "/complete/1/lease_token"),
        ({"claim": {"streams": []}}, "/claim/streams"),
    ],
)
async def test_what_is_malformed_refuses_the_turn_before_anything_is_written(
    plane: Plane, client: httpx.AsyncClient, said: Json, pointer: str
) -> None:
    (job,) = await claimed(plane, client, 1)
    before = await plane.store.get(job["job_id"])
    good = {"complete": [entry(job)], "fail": [entry(job, released=True)], "heartbeat": [entry(job)]}
    bad = {key: [*good[key], *(entry(job) | b for b in value)] if key in good else value for key, value in said.items()}
    answer = await client.post(TURN, json={"worker_id": "w"} | good | bad)
    assert (answer.status_code, answer.json()["pointer"]) == (422, pointer)
    assert await plane.store.get(job["job_id"]) == before


async def test_a_turn_ends_dependencies_before_it_claims(plane: Plane, client: httpx.AsyncClient) -> None:
    graph = [{"type": "a", "ref": "a"}, {"type": "b", "depends_on": ["#a"]}]
    await client.post("/jobs/batch", json={"jobs": graph})
    (first,) = (await turn(client, claim=CLAIM))["jobs"]
    answer = await turn(client, complete=[entry(first)], claim=CLAIM)
    assert [job["type"] for job in answer["jobs"]] == ["b"]


async def test_a_turn_needs_the_scope_of_a_worker(plane: Plane) -> None:
    async with plane.client("submit", "read", "admin") as client:
        assert (await client.post(TURN, json={"worker_id": "w"})).status_code == 403


async def test_all_reports_of_a_turn_are_one_transaction(
    plane: Plane, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = await claimed(plane, client, 100)
    writes: list[str] = []

    def count(name: str) -> None:
        real = getattr(plane.store.engine, name)

        async def counted(*arguments: Any, **more: Any) -> Any:
            writes.append(name)
            return await real(*arguments, **more)

        monkeypatch.setattr(plane.store.engine, name, counted)

    count("write")
    count("write_one")
    answer = await turn(client, complete=[entry(job) for job in jobs])
    assert [said["ok"] for said in answer["complete"]] == [True] * 100
    assert len(writes) == 1


async def test_plain_jobs_and_others_are_claimed_and_completed_side_by_side(
    plane: Plane, client: httpx.AsyncClient
) -> None:
    """On Postgres plain ones go by a statement of their own, until one that is not plain comes; and again later."""
    for _ in range(2):
        plain = await claimed(plane, client, 2)
        hooked = await claimed(plane, client, 1, callback_url="https://example.com/hook")
        keyed = await claimed(plane, client, 1, concurrency_key="k", concurrency_limit=1)
        waited_for = await claimed(plane, client, 1)
        dependent = await plane.store.submit(
            Submission(type="after", requester_id="vesta", depends_on=(waited_for[0]["job_id"],))
        )
        jobs = [plain[0], *hooked, *keyed, *waited_for, plain[1]]
        said = [entry(job, result=i) for i, job in enumerate(jobs)]
        strange = entry(plain[0], result=0) | {"lease_token": "guess"}
        answer = await turn(client, complete=[strange, *said, said[0]], claim=CLAIM)
        assert [one["ok"] for one in answer["complete"]] == [False, *[True] * 5, True]
        assert [job["job_id"] for job in answer["jobs"]] == [dependent.job_id]
        for i, job in enumerate(jobs):
            stored = await plane.store.get(job["job_id"])
            assert (stored.state, stored.result) == (State.COMPLETED, str(i).encode())
            assert [a.outcome for a in await plane.store.attempts(stored.id)] == ["completed"]
        events = await plane.store.outbox.search(job_id=hooked[0]["job_id"])
        assert "job.completed" in {event.type for _, event in events}
        assert (await turn(client, complete=said))["complete"] == [DONE] * 5
        other = [entry(job, result="other") for job in jobs]
        assert [one["ok"] for one in (await turn(client, complete=other))["complete"]] == [False] * 5
        assert (await turn(client, complete=[entry(answer["jobs"][0])]))["complete"] == [DONE]


async def test_the_tokens_of_one_claim_are_each_others_strangers(plane: Plane, client: httpx.AsyncClient) -> None:
    one, two, three = await claimed(plane, client, 3)
    assert len({job["lease_token"] for job in (one, two, three)}) == 3
    swapped = entry(one) | {"lease_token": two["lease_token"]}
    assert [said["ok"] for said in (await turn(client, complete=[swapped]))["complete"]] == [False]
    later = entry(one) | {"attempt_id": f"{one['job_id']}:2"}
    assert [said["ok"] for said in (await turn(client, complete=[later]))["complete"]] == [False]
    assert await state_of(plane, one) is State.RUNNING


async def test_what_a_worker_does_not_hold_goes_back_uncharged(plane: Plane, client: httpx.AsyncClient) -> None:
    kept, lost = await claimed(plane, client, 2)
    await plane.store.submit(Submission(type="t", requester_id="vesta"))
    (theirs,) = (await turn(client, worker_id="w-2", claim=CLAIM))["jobs"]
    answer = await turn(client, held=[kept["attempt_id"]], claim=CLAIM)
    assert [(job["job_id"], job["attempt"]) for job in answer["jobs"]] == [(lost["job_id"], 1)]
    assert (await plane.store.get(lost["job_id"])).release_count == 1
    assert [await state_of(plane, job) for job in (kept, theirs)] == [State.RUNNING, State.RUNNING]
    answer = await turn(client, complete=[entry(kept), entry(lost)], held=[])
    assert [done["ok"] for done in answer["complete"]] == [True, False], "the claim that was lost is nobody's"
    assert await state_of(plane, lost) is State.SCHEDULED


async def test_an_attempt_that_cannot_be_read_gives_nothing_back(plane: Plane, client: httpx.AsyncClient) -> None:
    job, other = await claimed(plane, client, 2)
    for wrong in ("", "x", job["job_id"], f"{job['job_id']}:x"):
        said = {"worker_id": "w-1", "complete": [entry(other)], "held": [job["attempt_id"], wrong]}
        answer = await client.post(TURN, json=said)
        assert answer.status_code == 422
        assert answer.json()["pointer"].startswith("/held")
    assert [await state_of(plane, one) for one in (job, other)] == [State.RUNNING, State.RUNNING]


async def test_jobs_that_were_submitted_alike_are_told_together_to_whoever_reads_that(
    plane: Plane, client: httpx.AsyncClient
) -> None:
    """In their order. An older worker does not say so, and gets each job in full."""
    said: list[dict[str, Any]] = [
        {"payload": b"0", "priority": 0},
        {"payload": b"1"},
        {"payload": b"2"},
        {"payload": b"\x00\xff", "payload_format": "bytes"},
        {"payload": b"\x01", "payload_format": "bytes"},
        {"payload": b"5", "tags": {"a": "b"}},
    ]
    ids = [(await plane.store.submit(Submission(type="t", requester_id="vesta", **job))).job_id for job in said]
    answer = await turn(client, claim=CLAIM | {"uniform": True})
    assert (answer["claimed"], answer["jobs"]) == (True, [])
    told: list[Json] = []
    for group in answer["uniform"]:
        told.append(group["first"])
        for job_id, token, payload in group["others"]:
            own = {"job_id": job_id, "attempt_id": f"{job_id}:1", "lease_token": token, "payload": payload}
            told.append(group["first"] | own)
    assert [job["job_id"] for job in told] == ids
    assert [job["payload"] for job in told] == [0, 1, 2, {"base64": "AP8="}, {"base64": "AQ=="}, 5]
    assert [job.get("tags") for job in told] == [None] * 5 + [{"a": "b"}]
    assert len({job["lease_token"] for job in told}) == len(ids)
    done = await turn(client, complete=[entry(job) for job in told])
    assert done["complete"] == [DONE] * len(ids)
    (job,) = await claimed(plane, client, 1)
    assert job["payload"] is not None


async def test_jobs_of_a_batch_are_one_group(plane: Plane, client: httpx.AsyncClient) -> None:
    await plane.store.submit_many([Submission(type="t", requester_id="vesta", payload=b"%d" % n) for n in range(20)])
    answer = await turn(client, claim=CLAIM | {"uniform": True})
    (group,) = answer["uniform"]
    assert [group["first"]["payload"], *(payload for _, _, payload in group["others"])] == list(range(20))


async def test_a_completion_that_is_refused_leaves_the_others_of_its_turn(
    plane: Plane, client: httpx.AsyncClient
) -> None:
    one, two, three, four = await claimed(plane, client, 4)
    before = await plane.store.get(three["job_id"])
    wrong = [
        entry(three | {"lease_token": four["lease_token"]}),
        entry(three | {"lease_token": f"2.{three['lease_token'].partition('.')[2]}"}),
        entry(three | {"lease_token": "nonsense"}),
        entry(three | {"attempt_id": "nonsense:1"}),
        entry(three | {"attempt_id": f"{three['job_id']}:2"}),
        entry(three | {"attempt_id": f"{three['job_id']}:{2**63}"}),
    ]
    answer = await turn(client, complete=[entry(one, result={"a": 1}), *wrong, entry(two), entry(four, result=4)])
    assert [reply["ok"] for reply in answer["complete"]] == [True, *[False] * 6, True, True]
    assert [(await plane.store.get(job["job_id"])).result for job in (one, two, four)] == [b'{"a":1}', None, b"4"]
    assert await plane.store.get(three["job_id"]) == before
    again = await turn(client, complete=[entry(one, result={"a": 1}), entry(one, result={"a": 2}), entry(two)])
    assert [reply["ok"] for reply in again["complete"]] == [True, False, True], "the first answer again, and no other"


async def test_of_two_reports_on_one_attempt_in_a_turn_the_first_counts(
    plane: Plane, client: httpx.AsyncClient
) -> None:
    (job,) = await claimed(plane, client, 1)
    same, other = entry(job, result=1), entry(job, result=2)
    answer = await turn(client, complete=[same, other, same])
    assert [reply["ok"] for reply in answer["complete"]] == [True, False, True]
    assert (await plane.store.get(job["job_id"])).result == b"1"
