"""Bad input gets a refusal that says why: never a 500, never a hang, nothing stored."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator

import httpx
import pytest

from euterpe.server.http.limits import Limits
from tests.server.plane import Plane, claim_one, lease_of, running_plane

LIMIT = 20_000


@pytest.fixture
async def small(sqlite_url: str) -> AsyncIterator[Plane]:
    """One that takes bodies of 20 kB."""
    async with running_plane(sqlite_url, Limits(max_body_bytes=LIMIT)) as running:
        yield running


async def raw(plane: Plane, head: str, *chunks: bytes) -> bytes:
    """Send bytes as they are; returns all that came back until the server closed or fell silent."""
    reader, writer = await asyncio.open_connection("127.0.0.1", plane.port)
    writer.write(head.replace("\n", "\r\n").encode("latin-1"))
    for chunk in chunks:
        writer.write(chunk)
    await writer.drain()
    try:
        return await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
    finally:
        writer.close()


async def test_a_body_over_the_limit_is_refused_before_it_is_read(small: Plane) -> None:
    key = await small.key("submit")
    head = f"POST /jobs HTTP/1.1\nHost: localhost\nAuthorization: Bearer {key}\nContent-Length: {LIMIT + 1}\n\n"
    answer = await raw(small, head)  # not one byte of the body is sent
    assert answer.startswith(b"HTTP/1.1 413")
    assert b"connection: close" in answer.lower()


async def test_a_client_that_asks_first_is_told_not_to_send(small: Plane) -> None:
    key = await small.key("submit")
    head = (
        f"POST /jobs HTTP/1.1\nHost: localhost\nAuthorization: Bearer {key}\n"
        f"Expect: 100-continue\nContent-Length: {LIMIT + 1}\n\n"
    )
    assert (await raw(small, head)).startswith(b"HTTP/1.1 413")


async def test_a_body_of_unsaid_length_is_cut_off_at_the_limit(small: Plane) -> None:
    key = await small.key("submit")
    head = f"POST /jobs HTTP/1.1\nHost: localhost\nAuthorization: Bearer {key}\nTransfer-Encoding: chunked\n\n"
    chunk = b"%x\r\n%s\r\n" % (8000, b" " * 8000)
    answer = await raw(small, head, chunk, chunk, chunk)  # and it has not ended yet
    assert answer.startswith(b"HTTP/1.1 413")


async def test_a_body_in_pieces_is_put_together(small: Plane) -> None:
    key = await small.key("submit")
    head = f"POST /jobs HTTP/1.1\nHost: localhost\nAuthorization: Bearer {key}\nTransfer-Encoding: chunked\n\n"
    pieces = [b"%x\r\n%s\r\n" % (len(piece), piece) for piece in (b'{"ty', b'pe": "t"}', b"")]
    assert (await raw(small, head, *pieces)).startswith(b"HTTP/1.1 202")


async def test_a_body_at_the_limit_is_taken(small: Plane) -> None:
    async with small.client() as client:
        body = b'{"type": "t"}'
        assert (await client.post("/jobs", content=body + b" " * (LIMIT - len(body)))).status_code == 202


async def test_a_payload_over_its_limit_is_refused_with_a_pointer(client: httpx.AsyncClient) -> None:
    answer = await client.post("/jobs", json={"type": "t", "payload": "x" * 1_000_000})
    assert (answer.status_code, answer.json()["code"]) == (413, "payload_too_large")
    assert answer.json()["pointer"] == "/payload"


@pytest.mark.parametrize(
    "body",
    [b"{", b"[]", b"null", b'"x"', b"{}", b"\xff", b'{"type": "\xff"}', b'{"type": "t", "payload": "\xff"}',
     b'{"type": "\\ud800"}', b'{"type": "t", "payload": "\\ud800"}', b'{"type": "t", "payload": 1e999}',
     b'{"type": "t", "payload": NaN}', b'{"type": "t",}', b'{"type": "t"} x', b"\xef\xbb\xbf{}",
     b'{"type": "t", "payload": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
     b"[" * 500_000, b'{"type": "t", "max_attempts": ' + b"9" * 5000 + b"}", b'{"type": "t", "delay": 1e308}',
     b'{"type": "t", "delay": -1}', b'{"type": "t", "backoff": {"jitter": 1e400}}'],
)  # fmt: skip
async def test_a_body_that_is_no_submission_is_refused(sqlite_client: httpx.AsyncClient, body: bytes) -> None:
    answer = await sqlite_client.post("/jobs", content=body)
    assert answer.status_code in (400, 422), answer.text
    problem = answer.json()
    assert problem["status"] == answer.status_code
    assert problem["code"] in ("malformed_json", "invalid_input")
    assert (await sqlite_client.get("/jobs")).json()["jobs"] == []


@pytest.mark.parametrize(
    ("said", "pointer"),
    [
        ({"type": "a\x00"}, "/type"),
        ({"type": "t", "queue": "\x00"}, "/queue"),
        ({"type": "t", "correlation_id": "a\x00b"}, "/correlation_id"),
        ({"type": "t", "idempotency_key": "\x00"}, "/idempotency_key"),
        ({"type": "t", "tags": {"a": "\x00"}}, "/tags/a"),
        ({"type": "t", "tags": {"\x00": "a"}}, "/tags"),
        ({"type": "t", "stages": ["claimed", "\x00"]}, "/stages/1"),
        ({"type": "t", "backoff": {"strategy": "custom", "name": "\x00"}}, "/backoff/name"),
        ({"type": "t", "concurrency_key": "\x00", "concurrency_limit": 1}, "/concurrency_key"),
        ({"type": "t", "callback_url": "http://x/\x00"}, "/callback_url"),
    ],
)
async def test_nul_in_text_is_pointed_at(
    sqlite_client: httpx.AsyncClient, said: dict[str, object], pointer: str
) -> None:
    answer = await sqlite_client.post("/jobs", json=said)
    assert (answer.status_code, answer.json()["pointer"]) == (422, pointer)


async def test_nul_inside_the_opaque_payload_and_result_is_kept(client: httpx.AsyncClient) -> None:
    accepted = await client.post("/jobs", json={"type": "t", "payload": {"x": "a\x00b"}})
    assert accepted.status_code == 202
    job = await claim_one(client)
    assert job["payload"] == {"x": "a\x00b"}
    assert (await client.post("/internal/worker/complete", json=lease_of(job) | {"result": "\x00"})).status_code == 200
    assert (await client.get(f"/jobs/{job['job_id']}")).json()["result"] == "\x00"


@pytest.mark.parametrize(
    ("path", "change"),
    [
        ("claim", {"worker_id": "\x00"}),
        ("claim", {"streams": ["\x00"]}),
        ("claim", {"streams": []}),
        ("claim", {"types": ["\x00"]}),
        ("claim", {"max_jobs": 0}),
        ("claim", {"max_jobs": 10**6}),
        ("claim", {"max_wait_ms": -1}),
        ("heartbeat", {"stage": "\x00"}),
        ("heartbeat", {"progress": {"percent": 1, "message": "\x00"}}),
        ("heartbeat", {"lease_token": "\x00"}),
        ("heartbeat", {"job_id": "nope"}),
        ("complete", {"attempt_id": "\x00"}),
        ("complete", {"lease_token": 5}),
        ("fail", {"error": {"message": "\x00"}}),
        ("fail", {"error": {"message": "m", "stack": "\x00"}}),
        ("fail", {"error": {"message": "m", "code": ""}}),
        ("fail", {"error": "it broke"}),
    ],
)
async def test_bad_input_of_a_worker_is_refused_and_its_job_goes_on(
    plane: Plane, client: httpx.AsyncClient, path: str, change: dict[str, object]
) -> None:
    await client.post("/jobs", json={"type": "t"})
    job = await claim_one(client)
    before = await plane.store.get(job["job_id"])
    said = lease_of(job) | {"streams": ["default"]} | change
    answer = await client.post(f"/internal/worker/{path}", json=said)
    assert answer.status_code == 422, answer.text
    assert answer.json()["pointer"].startswith("/")
    assert await plane.store.get(job["job_id"]) == before


@pytest.mark.parametrize("number", [0, 2**63 - 1, 2**63, 10**40])
async def test_an_attempt_id_with_any_number_is_only_stale(client: httpx.AsyncClient, number: int) -> None:
    await client.post("/jobs", json={"type": "t"})
    job = await claim_one(client)
    wrong = lease_of(job) | {"attempt_id": f"{job['job_id']}:{number}"}
    for path in ("heartbeat", "complete"):
        answer = await client.post(f"/internal/worker/{path}", json=wrong)
        assert (answer.status_code, answer.json()["ok"]) in ((409, False), (422, None)), answer.text


@pytest.mark.parametrize("query", ["%ff", "a=%ff", "&".join("a" + str(i) for i in range(60)), "state=%80"])
async def test_a_query_that_is_not_text_is_refused(sqlite_client: httpx.AsyncClient, query: str) -> None:
    answer = await sqlite_client.get(f"/jobs?{query}")
    assert answer.status_code in (400, 422)
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("path", ["/", "/jobs/", "//jobs", "/jobs/x/y/z", "/transcode", "/jobs/batch/x", "/%2e%2e"])
async def test_a_path_that_is_not_there_is_not_found(sqlite_client: httpx.AsyncClient, path: str) -> None:
    answer = await sqlite_client.get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")


async def test_a_method_that_is_not_there_is_told_which_are(client: httpx.AsyncClient) -> None:
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS"):
        answer = await client.request(method, "/jobs")
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD, POST")


async def test_a_compressed_body_is_refused(client: httpx.AsyncClient) -> None:
    answer = await client.post("/jobs", content=b"x", headers={"content-encoding": "gzip"})
    assert (answer.status_code, answer.json()["code"]) == (415, "unsupported_encoding")


@pytest.mark.parametrize("length", ["-1", "abc", "1e9", "99999999999999999999"])
async def test_a_length_that_is_none_closes_the_connection(small: Plane, length: str) -> None:
    key = await small.key("submit")
    head = f"POST /jobs HTTP/1.1\nHost: localhost\nAuthorization: Bearer {key}\nContent-Length: {length}\n\n"
    assert (await raw(small, head))[9:12] in (b"400", b"413")


async def test_a_client_that_leaves_in_the_middle_of_its_body_is_forgotten(small: Plane) -> None:
    key = await small.key("submit", "read")
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", small.port)) as left:
            head = (
                f"POST /jobs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nContent-Length: 100\r\n\r\n"
            )
            left.sendall(head.encode() + b'{"type"')
    async with small.client() as client:
        assert (await client.get("/jobs")).json()["jobs"] == []


async def test_the_content_type_does_not_matter(client: httpx.AsyncClient) -> None:
    body = json.dumps({"type": "t"}).encode()
    for content_type in ("application/x-www-form-urlencoded", "text/plain", "application/json; charset=utf-8"):
        answer = await client.post("/jobs", content=body, headers={"content-type": content_type})
        assert answer.status_code == 202


@pytest.mark.parametrize("key", [b"", b"x" * 257, b"\xff"])
async def test_an_idempotency_key_header_that_is_none_is_refused(sqlite_client: httpx.AsyncClient, key: bytes) -> None:
    answer = await sqlite_client.post("/jobs", json={"type": "t"}, headers={b"idempotency-key": key})
    assert (answer.status_code, answer.json()["pointer"]) == (422, "/idempotency_key")


@pytest.mark.parametrize(
    "callback",
    ["http://[", "http://]", "http://[::1", "http://a\u2100b.example/", "http://\uff21.example/", "http://u:p@x.example/",
     "http://x.example:70000/", "http://x.example/ y"],
    ids=ascii,
)  # fmt: skip
async def test_a_malformed_callback_is_pointed_at_and_the_queue_goes_on(
    client: httpx.AsyncClient, callback: str
) -> None:
    alone = await client.post("/jobs", json={"type": "t", "callback_url": callback})
    assert (alone.status_code, alone.json()["pointer"]) == (422, "/callback_url")
    jobs = [{"type": "t"}, {"type": "t", "callback_url": callback}]
    batch = await client.post("/jobs/batch", json={"jobs": jobs})
    assert (batch.status_code, batch.json()["pointer"]) == (422, "/jobs/1/callback_url")
    await client.post("/jobs", json={"type": "t"})
    assert (await claim_one(client))["claimed"]


@pytest.mark.parametrize(("field", "value"), [("delay", "8d"), ("visibility", "1us"), ("visibility", "999ms")])
async def test_times_that_make_no_sense_are_pointed_at(client: httpx.AsyncClient, field: str, value: str) -> None:
    answer = await client.post("/jobs", json={"type": "t", field: value})
    assert (answer.status_code, answer.json()["pointer"]) == (422, f"/{field}")


async def test_a_run_at_beyond_the_lifetime_is_pointed_at(client: httpx.AsyncClient) -> None:
    answer = await client.post("/jobs", json={"type": "t", "run_at": "2999-01-01T00:00:00Z"})
    assert (answer.status_code, answer.json()["pointer"]) == (422, "/run_at")
