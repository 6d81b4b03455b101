"""What the three routes answer, and to whom."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, NoReturn

import httpx
import msgspec
import pytest

from euterpe.model.errors import CommitUnknown
from euterpe.model.retention import Retention
from euterpe.model.state import TRANSCODE_STAGES
from euterpe.model.submitting.submission import Submission
from euterpe.queue.queue import core_of
from euterpe.server.http.problems import Refusal
from euterpe.server.quotas import Quotas
from euterpe.stores.sql.accounts.keys import ApiKeys
from tests.sql_stores import sql
from tests.transcode.service.studio import MP3, TOMORROW, Studio

KEYS = {"access_key_id": "AKIA", "secret_access_key": "not-so-secret", "session_token": "tok"}
UNKNOWN = "00000000-0000-4000-8000-000000000000"


def s3_body(studio: Studio, **keys: str) -> dict[str, Any]:
    place = {"type": "s3", "endpoint": "https://s3.example.com", "bucket": "music"}
    return studio.body(
        source={**place, "key": "in/a.flac"},
        destination={**place, "prefix": "out/"},
        credentials={"source": {**KEYS, **keys}, "destination": {**KEYS, **keys}},
    )


async def test_a_repeated_request_gets_the_same_answer_byte_for_byte(studio: Studio) -> None:
    first = await studio.post(s3_body(studio), key="k1")
    assert first.status_code == 202
    assert first.json()["credential_version"] == 1
    assert first.headers["location"] == first.json()["status_url"]
    assert "idempotency-replayed" not in first.headers
    again = await studio.post(s3_body(studio, secret_access_key="another", session_token="fresh"), key="k1")
    assert (again.status_code, again.content) == (202, first.content)
    assert again.headers["idempotency-replayed"] == "true"
    assert again.headers["location"] == first.headers["location"]
    other = await studio.post(s3_body(studio) | {"outputs": [{**MP3, "preset": "mp3_320"}]}, key="k1")
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_conflict")
    stored = await studio.transcoding.credentials.count_by_kek()
    assert sum(stored.values()) == 1, "credentials of requests that made no job are gone"


async def test_a_repeated_request_is_answered_though_its_credentials_have_expired(studio: Studio) -> None:
    """Whoever lost the answer sends the very same request again, perhaps an hour later."""
    past = "2026-01-01T00:00:00Z"
    first = await studio.post(s3_body(studio, expires_at=TOMORROW), key="k1")
    again = await studio.post(s3_body(studio, expires_at=past), key="k1")
    assert (again.status_code, again.content) == (202, first.content), again.text
    assert again.headers["idempotency-replayed"] == "true"
    another = s3_body(studio, expires_at=past) | {"outputs": [{**MP3, "preset": "mp3_320"}]}
    assert (await studio.post(another, key="k1")).status_code == 409
    for key in ("k2", None):
        refused = await studio.post(s3_body(studio, expires_at=past), key=key)
        assert (refused.status_code, refused.json()["pointer"]) == (422, "/credentials/source/expires_at")


async def test_a_repeated_request_is_answered_though_the_quota_is_full(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await studio.post(s3_body(studio), key="k1")

    async def full(*_: Any) -> NoReturn:
        raise Refusal(429, "quota_exceeded", "too many jobs wait")

    monkeypatch.setattr(Quotas, "admit", full)
    assert (await studio.post(s3_body(studio), key="k2")).status_code == 429
    again = await studio.post(s3_body(studio), key="k1")
    assert (again.status_code, again.content) == (202, first.content)


@pytest.mark.parametrize(
    "lost", [CommitUnknown("the answer was lost"), asyncio.CancelledError()], ids=["unknown", "cut off"]
)
async def test_a_job_that_may_yet_be_stored_keeps_its_credentials(
    studio: Studio, monkeypatch: pytest.MonkeyPatch, lost: BaseException
) -> None:
    store = core_of(studio.queue).store

    async def not_answered(*_: Any, **__: Any) -> NoReturn:
        raise lost  # Its commit may still be on its way.

    monkeypatch.setattr(store, "submit_graph", not_answered)
    with suppress(httpx.HTTPError):
        assert (await studio.post(s3_body(studio))).status_code >= 500
    assert sum((await studio.transcoding.credentials.count_by_kek()).values()) == 1


async def test_the_query_of_a_signed_url_does_not_make_another_request(studio: Studio) -> None:
    def body(signature: str) -> dict[str, Any]:
        url = f"https://s3.example.com/music/a.flac?X-Amz-Signature={signature}"
        return studio.body() | {"source": {"type": "signed_url", "url": url}}

    first = await studio.post(body("aaa"), key="k2")
    again = await studio.post(body("bbb"), key="k2")
    assert (again.status_code, again.content) == (202, first.content)
    job = await core_of(studio.queue).get(first.json()["job_id"])
    assert b"aaa" not in job.payload


@pytest.mark.parametrize(
    ("part", "pointer"),
    [
        ({"source": {"type": "signed_url", "url": "https://[::1"}}, "/source/url"),
        ({"outputs": [{**MP3, "put_url": "https://[::1"}], "destination": None}, "/outputs/0/put_url"),
        ({"source": {"type": "local", "path": ".euterpe-staging/x/1.part"}}, "/source/path"),
        ({"destination": {"type": "local", "prefix": "a/.Euterpe-Staging/x/"}}, "/destination/prefix"),
    ],
)
async def test_a_place_that_is_none_is_refused_by_its_pointer(
    studio: Studio, part: dict[str, Any], pointer: str
) -> None:
    answer = await studio.post(studio.body() | part)
    assert answer.status_code == 422, answer.text
    assert pointer in {error["pointer"] for error in answer.json()["errors"]}


async def test_every_problem_of_a_request_is_told_with_its_pointer(studio: Studio) -> None:
    body = {
        "source": {"type": "s3", "bucket": "x", "key": "../a"},
        "destination": {"type": "local", "prefix": "out"},
        "outputs": [{"id": "a", "kind": "audio", "preset": "mp3_999"}, {"id": "b", "kind": "soup"}],
        "status_webhook_url": "ftp://example.com",
        "refresh_url": "http://169.254.169.254/latest",
        "max_attempts": 0,
        "not_before": "tomorrow",
        "metadata": {"k": 1},
        "surprise": True,
    }
    answer = await studio.post(body)
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
    assert {error["pointer"] for error in answer.json()["errors"]} >= {
        "/source/bucket",
        "/source/key",
        "/source/endpoint",
        "/destination/prefix",
        "/credentials/source",
        "/outputs/0/preset",
        "/outputs/1/kind",
        "/status_webhook_url",
        "/refresh_url",
        "/max_attempts",
        "/not_before",
        "/metadata",
        "/surprise",
    }
    assert answer.json()["pointer"] == answer.json()["errors"][0]["pointer"]
    missing = await studio.post({})
    assert {"/source", "/outputs"} <= {error["pointer"] for error in missing.json()["errors"]}
    assert (await studio.queue.stats()).by_state == {}


async def test_a_start_beyond_the_life_of_a_job_is_told_at_its_place(studio: Studio) -> None:
    answer = await studio.post(studio.body(not_before="2099-01-01T00:00:00Z"))
    assert (answer.status_code, answer.json()["pointer"]) == (422, "/not_before")


async def test_put_urls_take_outputs_of_one_file(studio: Studio) -> None:
    thumb = {"id": "t", "kind": "thumbnail", "at_ms": [0, 500], "put_url": "https://s3.example.com/t?sig=1"}
    body = {key: value for key, value in studio.body(thumb).items() if key != "destination"}
    answer = await studio.post(body)
    assert [error["pointer"] for error in answer.json()["errors"]] == ["/outputs/0/put_url"]


async def test_who_may_ask_and_what_a_status_answers(studio: Studio) -> None:
    job_id = await studio.accepted(studio.body())
    keys = ApiKeys(sql(core_of(studio.queue).store).engine)
    reader = (await keys.create_key("local", ("read",))).key
    stranger = (await keys.create_key("somebody", ("submit", "read"))).key

    async def ask(job: str, key: str | None) -> int:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        if key is None:
            studio.client.headers.pop("Authorization", None)
        answer = await studio.client.get("/transcode/status", params={"job_id": job}, headers=headers)
        return answer.status_code

    own = studio.client.headers["Authorization"]
    assert (await studio.client.get("/transcode/status")).status_code == 422
    assert (await studio.client.get("/transcode/status", params={"job_id": UNKNOWN})).status_code == 404
    assert (await studio.client.get("/transcode/status", params={"job_id": "what"})).status_code == 404
    assert await ask(job_id, stranger) == 404
    forbidden = await studio.client.post("/transcode", json={}, headers={"Authorization": f"Bearer {reader}"})
    assert forbidden.status_code == 403
    assert await ask(job_id, None) == 401
    studio.client.headers["Authorization"] = own
    echo = (await studio.client.post("/jobs", json={"type": "euterpe.echo"})).json()["job_id"]
    assert (await studio.client.get("/transcode/status", params={"job_id": echo})).status_code == 404


async def test_a_pruned_transcode_is_gone(studio: Studio) -> None:
    job_id = await studio.accepted(studio.body())
    await studio.client.post(f"/jobs/{job_id}/cancel", json={})
    assert await sql(core_of(studio.queue).store).sweeps.prune(Retention(cancelled_us=0)) == 1
    answer = await studio.client.get("/transcode/status", params={"job_id": job_id})
    assert (answer.status_code, answer.json()["code"]) == (410, "job_pruned")


async def test_fresh_credentials_by_compare_and_set(studio: Studio) -> None:
    job_id = await studio.accepted(s3_body(studio) | {"not_before": TOMORROW})
    fresh = {"credentials": {"source": KEYS, "destination": KEYS}}

    async def put(match: str | None, body: Any = fresh, job: str = job_id) -> Any:
        headers = {} if match is None else {"If-Match": match}
        return await studio.client.put(f"/transcode/{job}/credentials", json=body, headers=headers)

    assert (await put(None)).status_code == 428
    assert (await put('"2"')).status_code == 412
    assert (await put('"1"', job=UNKNOWN)).status_code == 404
    moved = await put('"1"', {**fresh, "destination": {"type": "s3", "bucket": "elsewhere", "region": "eu"}})
    assert moved.status_code == 422
    assert moved.json()["errors"][0]["pointer"] == "/destination"
    dying = await put('"1"', {"credentials": {"source": {**KEYS, "expires_at": "2020-01-01T00:00:00Z"}}})
    assert dying.status_code == 422
    done = await put('"1"')
    assert (done.status_code, done.json()) == (200, {"job_id": job_id, "credential_version": 2})
    assert done.headers["etag"] == '"2"'
    assert (await studio.status(job_id))["credential_version"] == 2


async def test_transcoding_is_described(studio: Studio) -> None:
    paths = (await studio.client.get("/openapi.json")).json()["paths"]
    assert {"/transcode", "/transcode/status", "/transcode/{job_id}/credentials"} <= set(paths)
    assert "202" in paths["/transcode"]["post"]["responses"]
    assert {"412", "428", "409"} <= set(paths["/transcode/{job_id}/credentials"]["put"]["responses"])


async def stored_past_the_route(studio: Studio, body: dict[str, Any], **more: Any) -> str:
    """As an app beside the database may store it."""
    payload = msgspec.json.encode({name: value for name, value in body.items() if name != "status_webhook_url"})
    submission = Submission(type="transcode", payload=payload, **more)
    return (await core_of(studio.queue).store.submit(submission)).job_id


async def test_a_job_without_the_stages_of_a_transcode_fails_and_is_not_tried_again(studio: Studio) -> None:
    studio.start_worker()
    done = await studio.until(await stored_past_the_route(studio, studio.body(), stages=("claimed", "elsewhere")))
    assert (done["status"], done["attempt_count"]) == ("failed", 1)
    assert done["last_error"]["code"] == "request.invalid"
    assert studio.leftovers() == []


FORGED: dict[str, dict[str, Any]] = {
    "an output above the folder": {"outputs": [{**MP3, "filename": "../x.mp3"}]},
    "a hidden output": {"outputs": [{**MP3, "filename": ".x.mp3"}]},
    "a control character": {"source": {"type": "local", "path": "in/\x01"}},
    "a source above the root": {"source": {"type": "local", "path": "../a"}},
    "the staging of another job": {"source": {"type": "local", "path": ".euterpe-staging/x/1.part"}},
    "a prefix in the staging": {"destination": {"type": "local", "prefix": ".euterpe-staging/x/"}},
}


@pytest.mark.parametrize("forged", list(FORGED.values()), ids=list(FORGED))
async def test_a_job_that_came_past_the_route_is_held_against_the_same_rules(
    studio: Studio, forged: dict[str, Any]
) -> None:
    studio.start_worker()
    job_id = await stored_past_the_route(studio, studio.body() | forged, stages=TRANSCODE_STAGES)
    done = await studio.until(job_id)
    assert (done["status"], done["last_error"]["code"]) == ("failed", "request.invalid")
