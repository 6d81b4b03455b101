"""Authorization as a table: every route, by every kind of key, on one's own things and on another requester's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final

import pytest

from euterpe.model.bulk import Action, BulkOrder
from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.outcome import Success
from euterpe.model.events.outbox import Delivery
from euterpe.model.reading.views import Search
from euterpe.model.submitting.submission import Submission
from tests.server.plane import Plane, anonymous, running_plane

OWNER: Final = "owner"
OTHER: Final = "other"
NO_KEY: Final = ("none", "bad", "expired", "revoked")
SCOPES: Final = ("read", "submit", "worker", "admin")
LEASE: Final = {"worker_id": "w", "attempt_id": "x:1", "lease_token": "t", "stream": "s", "message_id": "m"}


@dataclass(frozen=True, slots=True)
class Row:
    """A route; `own` and `other` are what a key with its scope gets on its own and on another's object."""

    route: str
    scope: str | None
    own: int
    other: int | None = None
    body: dict[str, Any] | None = None


TABLE: Final = (
    Row("POST /jobs", "submit", 202, body={"type": "t"}),
    Row("POST /jobs/batch", "submit", 202, body={"jobs": [{"type": "t"}]}),
    Row("GET /jobs", "read", 200),
    Row("GET /jobs/{job_id}", "read", 200, 404),
    Row("GET /jobs/{job_id}/attempts", "read", 200, 404),
    Row("GET /jobs/{job_id}/logs", "read", 200, 404),
    Row("GET /jobs/{job_id}/why", "read", 200, 404),
    Row("PATCH /jobs/{job_id}", "submit", 200, 404, {"tags": {"a": "b"}}),
    Row("POST /jobs/{job_id}/cancel", "submit", 200, 404, {}),
    Row("POST /jobs/{job_id}/retry", "submit", 202, 404, {}),  # it has just been cancelled
    Row("POST /jobs/{job_id}/dead-letter", "submit", 409, 404, {}),  # it did not fail
    Row("GET /stats", "read", 200),
    Row("GET /jobs/count", "read", 200),
    Row("POST /operations", "submit", 202, body={"action": "retry", "q": "type:t"}),
    Row("GET /operations", "read", 200),
    Row("GET /operations/{operation_id}", "read", 200, 404),
    Row("POST /operations/{operation_id}/cancel", "submit", 200, 404, {}),
    Row("GET /failures", "read", 200),
    Row("GET /events", "read", 200),
    Row("GET /outbox", "read", 200),
    Row("GET /outbox/{event_id}", "read", 200, 404),
    Row("POST /outbox/{event_id}/redeliver", "submit", 202, 404),
    # A worker's key runs everybody's jobs; what it may touch is what it holds a lease of.
    Row("POST /internal/worker/claim", "worker", 200, body={"worker_id": "w", "streams": ["none"], "max_wait_ms": 0}),
    Row("POST /internal/worker/heartbeat", "worker", 409, 409, LEASE),
    Row("POST /internal/worker/complete", "worker", 409, 409, LEASE),
    Row("POST /internal/worker/fail", "worker", 409, 409, LEASE | {"error": {"message": "m"}}),
    Row("POST /internal/worker/spawn", "worker", 409, 409, LEASE | {"jobs": [{"type": "t"}]}),
    Row("POST /internal/worker/turn", "worker", 200, body={"worker_id": "w"}),
    # What operators do concerns every requester.
    Row("GET /workers", "admin", 200),
    Row("GET /pauses", "read", 200),
    Row("POST /pauses", "admin", 200, body={"queue": "none"}),
    Row("POST /pauses/resume", "admin", 200, body={"queue": "none"}),
    Row("POST /dead-letters/purge", "admin", 200, body={"job_ids": ["no id"]}),
    Row("GET /healthz", None, 200),
    Row("GET /readyz", None, 200),
    Row("GET /metrics", None, 200),
    Row("GET /openapi.json", None, 200),
    Row("GET /docs", None, 200),
)
GRANTS: Final = {"read": {"read"}, "submit": {"submit"}, "worker": {"worker"}, "admin": {"read", "submit", "admin"}}


@dataclass(slots=True)
class Things:
    """What belongs to one requester."""

    job_id: str
    event_id: str
    operation_id: str


@dataclass(slots=True)
class Ground:
    plane: Plane
    things: dict[str, Things]
    keys: dict[str, str | None]

    async def ask(self, kind: str, row: Row, whose: str) -> tuple[int, bytes]:
        """Status and body; of /events only the beginning."""
        method, path = row.route.split(" ")
        things = self.things[whose]
        url = path.format(job_id=things.job_id, event_id=things.event_id, operation_id=things.operation_id)
        body = row.body
        if body is not None and "lease_token" in body:
            body = body | {"job_id": things.job_id, "attempt_id": f"{things.job_id}:1"}
        key = self.keys[kind]
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        async with (
            anonymous(self.plane.base_url) as client,
            client.stream(method, url, json=body, headers=headers) as answer,
        ):
            if answer.headers["content-type"].startswith("text/event-stream"):
                return answer.status_code, b""
            return answer.status_code, await answer.aread()


@pytest.fixture
async def ground(sqlite_url: str) -> AsyncIterator[Ground]:
    async with running_plane(sqlite_url) as plane:
        keys: dict[str, str | None] = {scope: await plane.key(scope, requester=OWNER) for scope in SCOPES}
        keys["none"] = None
        everything = await plane.key(*SCOPES, requester=OWNER)
        keys["bad"] = everything[:-1] + ("A" if everything[-1] != "A" else "B")
        keys["expired"] = (await plane.keys.create_key(OWNER, SCOPES, expires_in_us=1)).key
        revoked = await plane.key(*SCOPES, requester=OWNER)
        await plane.keys.revoke_key(revoked.split(".")[0])
        keys["revoked"] = revoked
        things = {name: await make_things(plane, name) for name in (OWNER, OTHER)}
        yield Ground(plane, things, keys)


async def make_things(plane: Plane, requester: str) -> Things:
    """A job that waits, and a webhook event of a job that ended."""
    ended = Submission(
        type="t", requester_id=requester, queue=requester, callback_url="http://x.invalid/", callback_events="terminal"
    )
    await plane.store.submit(ended)
    (claim,) = await plane.store.claim(ClaimRequest(worker_id="w", limit=1, queues=(requester,)))
    await plane.store.settle([Report(claim, Success(b"null"))])
    ((_, event),) = await plane.store.outbox.search(requester_id=requester)
    (claimed,) = await plane.store.outbox.claim("d", 1)
    gone = Delivery(event_id=event.id, claim_version=claimed.claim_version, state="dead_letter", outcome="gone")
    assert await plane.store.outbox.settle([gone]) == {event.id}
    secret = b'"secret of %s"' % requester.encode()
    submitted = await plane.store.submit(Submission(type="t", requester_id=requester, payload=secret))
    search = Search(type="t", requester_id=requester)
    order = BulkOrder(action=Action.CANCEL, query="type:t", search=search, ordered_by=requester)
    operation, _ = await plane.store.operations.order(order)
    return Things(submitted.job_id, event.id, operation.id)


async def test_the_table_has_every_route(ground: Ground) -> None:
    there = {(f"{route.method} {route.path}", route.scope) for route in ground.plane.app.routes}
    assert there == {(row.route, row.scope) for row in TABLE}
    with_object = {f"{route.method} {route.path}" for route in ground.plane.app.routes if "{" in route.path}
    assert with_object <= {row.route for row in TABLE if row.other is not None}


async def test_without_a_good_key_only_the_open_routes_answer(ground: Ground) -> None:
    for row in TABLE:
        for kind in NO_KEY:
            status, _ = await ground.ask(kind, row, OWNER)
            assert status == (200 if row.scope is None else 401), (row.route, kind, status)


@pytest.mark.parametrize("scope", SCOPES)
async def test_a_key_opens_its_own_routes_on_its_own_things_alone(ground: Ground, scope: str) -> None:
    for row in TABLE:
        granted = row.scope is None or row.scope in GRANTS[scope]
        # The other's first: what one's own cancel did must not be what hides it.
        if row.other is not None:
            status, body = await ground.ask(scope, row, OTHER)
            assert status == (row.other if granted else 403), (row.route, "other's", status)
            assert b"secret of other" not in body
        status, body = await ground.ask(scope, row, OWNER)
        assert status == (row.own if granted else 403), (row.route, "own", status, body)
        assert b"secret of other" not in body, row.route


@pytest.mark.parametrize("scope", ["read", "submit", "admin"])
async def test_only_an_admin_may_say_another_requester(ground: Ground, scope: str) -> None:
    other = ground.things[OTHER]
    key = ground.keys[scope]
    async with anonymous(ground.plane.base_url) as client:
        client.headers["authorization"] = f"Bearer {key}"
        looks = [
            await client.get(path, params={"requester": said})
            for said in (OTHER, "*")
            for path in ("/jobs", f"/jobs/{other.job_id}", f"/jobs/{other.job_id}/attempts", "/stats", "/outbox",
                         f"/outbox/{other.event_id}", "/jobs/count", "/operations",
                         f"/operations/{other.operation_id}", "/failures")
        ]  # fmt: skip
        acts = [
            await client.patch(f"/jobs/{other.job_id}", json={"requester": OTHER, "tags": {"a": "b"}}),
            await client.post(f"/jobs/{other.job_id}/dead-letter", json={"requester": "*"}),
            await client.post(f"/jobs/{other.job_id}/retry", json={"requester": OTHER}),
            await client.post(f"/jobs/{other.job_id}/cancel", json={"requester": "*"}),
            await client.post("/operations", json={"requester": "*", "action": "cancel", "q": "type:t"}),
            await client.post(f"/operations/{other.operation_id}/cancel", json={"requester": OTHER}),
        ]
    if scope == "admin":
        assert {answer.status_code for answer in looks} == {200}
        assert [answer.status_code for answer in acts] == [200, 409, 409, 200, 202, 200]
    else:
        assert {answer.status_code for answer in looks + acts} == {403}


async def test_nothing_that_was_refused_has_changed_anything(ground: Ground) -> None:
    before = await ground.plane.store.get(ground.things[OTHER].job_id)
    for row in TABLE:
        for kind in (*NO_KEY, *SCOPES):
            if row.other is not None and row.scope != "worker":
                await ground.ask(kind, row, OTHER)
    assert await ground.plane.store.get(ground.things[OTHER].job_id) == before
    event = await ground.plane.store.outbox.get(ground.things[OTHER].event_id)
    assert event.state == "dead_letter"
    assert (await ground.plane.store.operations.get(ground.things[OTHER].operation_id)).state == "running"
