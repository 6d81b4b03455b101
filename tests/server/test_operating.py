"""Operators over HTTP: pauses, dead letters, and HEAD for those who only look."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import Any

import pytest

from euterpe import Queue
from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.outcome import Failed
from euterpe.model.errors import IllegalTransition
from euterpe.model.failures.failure import Category, Failure
from euterpe.model.submitting.submission import Submission
from euterpe.stores.remote.store import AccessRefused
from tests.server.plane import Plane

TEMPORARY = Failed(Failure(Category.TEMPORARY, "no answer", "upstream"))


async def dead_letter(plane: Plane) -> str:
    submitted = await plane.store.submit(Submission(type="t", max_attempts=1, requester_id="vesta"))
    (claim,) = await plane.store.claim(ClaimRequest(worker_id="w", limit=1))
    await plane.store.settle([Report(claim, TEMPORARY)])
    return submitted.job_id


async def test_a_pause_over_http_holds_for_every_worker_and_needs_an_admin(plane: Plane) -> None:
    await plane.store.submit(Submission(type="t", queue="mail"))
    async with Queue(plane.base_url, token=await plane.key("admin")) as queue:
        await queue.pause(queue="mail")
        await queue.pause(type="t")
        assert await plane.store.claim(ClaimRequest(worker_id="w", limit=1, queues=("mail",))) == []
        async with plane.client("read") as reader:
            paused = (await reader.get("/pauses")).json()["paused"]
            assert sorted(paused, key=lambda one: one["kind"]) == [
                {"kind": "queue", "name": "mail"},
                {"kind": "type", "name": "t"},
            ]
            assert (await reader.post("/pauses", json={"queue": "mail"})).status_code == 403
        await queue.resume(type="t")
        await queue.resume(queue="mail")
    assert len(await plane.store.claim(ClaimRequest(worker_id="w", limit=1, queues=("mail",)))) == 1
    async with Queue(plane.base_url, token=await plane.key("submit")) as queue:
        with pytest.raises(AccessRefused, match="admin"):
            await queue.pause(queue="mail")


@pytest.mark.parametrize("body", [{}, {"queue": "a", "type": "b"}, {"queue": ""}, {"tope": "b"}, {"queue": "x" * 999}])
async def test_a_pause_of_nothing_or_of_two_things_is_refused(plane: Plane, body: dict[str, Any]) -> None:
    async with plane.client("admin") as admin:
        assert (await admin.post("/pauses", json=body)).status_code == 422
    assert await plane.store.paused() == []


async def test_dead_letters_are_purged_all_or_none(plane: Plane) -> None:
    dead = await dead_letter(plane)
    alive = (await plane.store.submit(Submission(type="t", requester_id="vesta"))).job_id
    async with plane.client("admin") as admin:
        mixed = await admin.post("/dead-letters/purge", json={"job_ids": [dead, alive]})
        assert (mixed.status_code, mixed.json()["code"]) == (409, "illegal_transition")
        assert (await plane.store.get(dead)).state == "dead_letter"
        nothing = await admin.post("/dead-letters/purge", json={"job_ids": ["no id", "'; DROP TABLE jobs"]})
        assert (nothing.status_code, nothing.json()) == (200, {"purged": []})
        assert (await admin.post("/dead-letters/purge", json={"job_ids": []})).status_code == 422
        gone = await admin.post("/dead-letters/purge", json={"job_ids": [dead]})
        assert gone.json() == {"purged": [dead]}
    async with plane.client("submit", "read") as client:
        assert (await client.post("/dead-letters/purge", json={"job_ids": [alive]})).status_code == 403
        assert (await client.get(f"/jobs/{dead}")).status_code == 410


async def test_the_command_line_works_the_dead_letters_of_a_control_plane(plane: Plane) -> None:
    dead = await dead_letter(plane)
    host = plane.base_url.removeprefix("http://")
    engine = f"http://:{await plane.key('admin')}@{host}"

    async def euterpe(*arguments: str) -> str:
        command = [sys.executable, "-m", "euterpe.cli", *arguments]
        environ = os.environ | {"ENGINE_URL": engine}
        ran = await asyncio.to_thread(subprocess.run, command, env=environ, capture_output=True, text=True, timeout=60)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    replayed, paused = await asyncio.gather(euterpe("dlq", "replay", "--all"), euterpe("pause", "--queue", "mail"))
    assert dead in replayed
    assert "paused queue mail" in paused
    assert [state for (state,) in await _states(plane)] == ["dead_letter", "scheduled"]
    purged, stats = await asyncio.gather(euterpe("dlq", "purge", "--all", "--yes"), euterpe("stats"))
    assert "1 dead letters purged" in purged
    assert "paused: queue mail" in stats


async def _states(plane: Plane) -> list[tuple[str]]:
    stats = await plane.store.stats()
    return sorted((state,) for state, count in stats.by_state.items() if count)


async def test_a_purge_through_a_queue_over_http_is_refused_like_on_a_database(plane: Plane) -> None:
    from euterpe.queue.queue import core_of

    alive = (await plane.store.submit(Submission(type="t", requester_id="vesta"))).job_id
    async with Queue(plane.base_url, token=await plane.key("admin")) as queue:
        with pytest.raises(IllegalTransition):
            await core_of(queue).store.purge([alive])


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/jobs", "/openapi.json", "/events", "/nowhere"])
async def test_head_is_answered_as_get_without_a_body(plane: Plane, path: str) -> None:
    async with plane.client("read") as client:
        head = await client.head(path)
        assert head.content == b""
        if path == "/events":
            assert head.headers["content-type"].startswith("text/event-stream")
            return
        got = await client.get(path)
        assert head.status_code == got.status_code
        assert head.headers["content-length"] == got.headers["content-length"]
        assert head.headers["content-type"] == got.headers["content-type"]


async def test_head_leaves_the_connection_usable_and_needs_a_key_too(plane: Plane) -> None:
    async with plane.client("read") as client:
        for _ in range(3):
            assert (await client.head("/jobs")).status_code == 200
        assert (await client.get("/jobs")).json()["jobs"] == []
        assert (await client.head("/jobs", headers={"authorization": "Bearer wrong.key"})).status_code == 401
        assert (await client.request("HEAD", "/jobs/batch")).status_code == 405
