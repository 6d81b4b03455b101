"""Nobody gets in without a key, and a key opens what its scopes say: for every route there is."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import httpx
import pytest

from euterpe.model.accounts import Scope, StoredKey
from euterpe.server.auth import Authenticator
from euterpe.server.http.asgi import Request
from euterpe.server.http.limits import Limits, RequestRate
from euterpe.server.http.problems import Refusal
from tests.server.plane import Plane, anonymous, running_plane

OPEN = {"/healthz", "/readyz", "/metrics", "/openapi.json", "/docs"}
NEEDS = {
    "GET /workers": "admin",
    "GET /pauses": "read",
    "POST /pauses": "admin",
    "POST /pauses/resume": "admin",
    "POST /dead-letters/purge": "admin",
    "POST /jobs": "submit",
    "POST /jobs/batch": "submit",
    "GET /jobs": "read",
    "GET /jobs/{job_id}": "read",
    "GET /jobs/{job_id}/attempts": "read",
    "GET /jobs/{job_id}/logs": "read",
    "GET /jobs/{job_id}/why": "read",
    "POST /jobs/{job_id}/cancel": "submit",
    "POST /jobs/{job_id}/retry": "submit",
    "POST /jobs/{job_id}/dead-letter": "submit",
    "PATCH /jobs/{job_id}": "submit",
    "GET /stats": "read",
    "GET /jobs/count": "read",
    "POST /operations": "submit",
    "GET /operations": "read",
    "GET /operations/{operation_id}": "read",
    "POST /operations/{operation_id}/cancel": "submit",
    "GET /failures": "read",
    "GET /events": "read",
    "GET /outbox": "read",
    "GET /outbox/{event_id}": "read",
    "POST /outbox/{event_id}/redeliver": "submit",
    "POST /internal/worker/claim": "worker",
    "POST /internal/worker/heartbeat": "worker",
    "POST /internal/worker/complete": "worker",
    "POST /internal/worker/fail": "worker",
    "POST /internal/worker/spawn": "worker",
    "POST /internal/worker/turn": "worker",
}
GRANTS = {"submit": {"submit"}, "read": {"read"}, "worker": {"worker"}, "admin": {"submit", "read", "admin"}}
SOME_ID = "3f0c2a5e-8a54-4a0e-9d5b-6a2f5f6f4f11"


async def call(client: httpx.AsyncClient, method: str, path: str, **more: Any) -> int:
    """The status alone: /events answers without an end."""
    url = re.sub(r"\{\w+\}", SOME_ID, path)
    async with client.stream(method, url, **more) as answer:
        return answer.status_code


async def test_the_table_has_exactly_the_routes_that_are_promised(plane: Plane) -> None:
    there = {f"{route.method} {route.path}" for route in plane.app.routes}
    assert there == set(NEEDS) | {f"GET {path}" for path in OPEN}
    assert {route.path for route in plane.app.routes if route.scope is None} == OPEN


async def test_no_route_but_the_open_ones_answers_without_a_valid_key(plane: Plane) -> None:
    good = await plane.key("submit", "read", "worker", "admin")
    expired = (await plane.keys.create_key("vesta", ["read"], expires_in_us=1)).key
    revoked = await plane.key("submit", "read", "worker", "admin")
    await plane.keys.revoke_key(revoked.split(".")[0])
    wrong_secret = good[:-1] + ("A" if good[-1] != "A" else "B")
    said = [None, "", "Bearer", "Bearer x", "Basic abc", f"Bearer {good}x", f"Bearer {wrong_secret}", good,
            f"Bearer {expired}", f"Bearer {revoked}", "Bearer ek_nobodys1." + "x" * 43, "Bearer \xff\xfe"]  # fmt: skip
    async with anonymous(plane.base_url) as client:
        for route in plane.app.routes:
            for value in said:
                headers = {} if value is None else {"authorization": value.encode("latin-1")}
                status = await call(client, route.method, route.path, headers=headers)
                assert (status == 401) == (route.path not in OPEN), (route.path, value, status)


async def test_a_missing_key_is_answered_with_a_challenge_and_a_problem(plane: Plane) -> None:
    async with anonymous(plane.base_url) as client:
        answer = await client.get("/jobs")
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "unauthorized"


@pytest.mark.parametrize("scope", list(Scope))
async def test_each_scope_opens_its_own_routes_and_no_other(plane: Plane, scope: str) -> None:
    async with plane.client(scope) as client:
        for route, needed in NEEDS.items():
            method, path = route.split(" ")
            status = await call(client, method, path)
            assert (status != 403) == (needed in GRANTS[scope]), (route, status)


async def test_a_body_without_a_key_is_not_even_read(plane: Plane) -> None:
    async with anonymous(plane.base_url) as client:
        answer = await client.post("/jobs", content=b"{" * 100)
    assert answer.status_code == 401


async def test_a_revoked_key_works_no_longer_than_the_time_that_keys_are_believed(url: str) -> None:
    async with running_plane(url, Limits(key_ttl_s=0.2)) as plane, plane.client("read") as client:
        assert (await client.get("/jobs")).status_code == 200
        prefix = client.headers["authorization"].removeprefix("Bearer ").split(".")[0]
        await plane.keys.revoke_key(prefix)
        async with asyncio.timeout(30):
            while (await client.get("/jobs")).status_code != 401:
                pass


class Clock:
    """A monotonic clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def request_with(key: str) -> Request:
    async def receive() -> dict[str, Any]:
        raise AssertionError("the body is not looked at")

    return Request({"headers": [(b"authorization", b"Bearer " + key.encode())], "query_string": b""}, receive, {})


async def test_a_key_costs_one_lookup_a_ttl_however_many_requests_come(plane: Plane) -> None:
    clock, lookups = Clock(), 0

    class Counted:
        async def find(self, prefix: str) -> StoredKey | None:
            nonlocal lookups
            lookups += 1
            return await plane.keys.find(prefix)

    authenticator = Authenticator(Counted(), RequestRate(0, 1), key_ttl_s=3, clock=clock)
    key = await plane.key("read")
    admitted = await asyncio.gather(*(authenticator.admit(request_with(key), Scope.READ) for _ in range(100)))
    assert {identity.requester_id for identity in admitted} == {"vesta"}
    assert lookups == 1
    await plane.keys.revoke_key(key.split(".")[0])
    clock.now_s += 2.9
    await authenticator.admit(request_with(key), Scope.READ)
    clock.now_s += 0.2
    with pytest.raises(Refusal) as refused:
        await authenticator.admit(request_with(key), Scope.READ)
    assert refused.value.status == 401
    assert lookups == 2


async def test_a_key_is_not_believed_past_its_own_expiry(plane: Plane) -> None:
    clock = Clock()
    authenticator = Authenticator(plane.keys, RequestRate(0, 1), key_ttl_s=3600, clock=clock)
    key = (await plane.keys.create_key("vesta", ["read"], expires_in_us=30_000_000)).key
    await authenticator.admit(request_with(key), Scope.READ)
    remembered = list(authenticator._verified.values())
    assert clock.now_s < remembered[0][1] <= clock.now_s + 30
    assert key.encode() not in repr(authenticator._verified).encode()


async def test_what_cannot_be_a_key_costs_no_lookup() -> None:
    class Never:
        async def find(self, prefix: str) -> StoredKey | None:
            raise AssertionError(prefix)

    authenticator = Authenticator(Never(), RequestRate(0, 1), key_ttl_s=3)
    for key in ("", "x", "ek_short.x", "ek_aaaaaaaa." + "x" * 42, "ek_aaaaaaaa." + "x" * 44, "' OR 1=1 --"):
        with pytest.raises(Refusal):
            await authenticator.admit(request_with(key), Scope.READ)


async def test_a_key_that_is_too_fast_is_told_when_to_come_again(sqlite_url: str) -> None:
    limits = Limits(rate_per_s=0.001, rate_burst=3)
    async with (
        running_plane(sqlite_url, limits) as plane,
        plane.client("read") as client,
        plane.client("read") as other,
    ):
        statuses = [(await client.get("/jobs")).status_code for _ in range(4)]
        assert statuses == [200, 200, 200, 429]
        refused = await client.get("/jobs")
        assert refused.json()["code"] == "rate_limited"
        assert int(refused.headers["retry-after"]) >= 1
        assert (await other.get("/jobs")).status_code == 200
        assert (await client.get("/healthz")).status_code == 200


def test_a_bucket_fills_up_again_with_time() -> None:
    clock = Clock()
    limit = RequestRate(2, 2, clock)
    for _ in range(2):
        limit.take("k")
    with pytest.raises(Refusal):
        limit.take("k")
    clock.now_s += 0.5
    limit.take("k")
    with pytest.raises(Refusal):
        limit.take("k")
