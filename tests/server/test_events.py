"""Server-sent events: a requester sees its own jobs change, and finds its place again after a reconnect."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from euterpe.model.reading.views import Change
from euterpe.model.state import State
from euterpe.server.http.limits import Limits
from euterpe.server.routes import events
from tests.patience import PATIENCE_S
from tests.server.plane import Plane, anonymous, claim_one, lease_of, running_plane


class Listening:
    """An open stream, read event by event."""

    def __init__(self, answer: httpx.Response) -> None:
        self.answer = answer
        self._lines = answer.aiter_lines()
        self.comments: list[str] = []

    async def next(self) -> tuple[str, str, dict[str, Any]]:
        """(id, name, data) of the next event."""
        fields: dict[str, str] = {}
        async with asyncio.timeout(PATIENCE_S):
            async for line in self._lines:
                if line.startswith(":"):
                    self.comments.append(line)
                elif line:
                    name, _, value = line.partition(": ")
                    fields[name] = value
                elif "data" in fields:
                    return fields["id"], fields["event"], json.loads(fields["data"])
                else:
                    fields = {}
        raise AssertionError("the stream ended")

    async def line(self, wanted: str) -> None:
        """Wait for this line."""
        async with asyncio.timeout(PATIENCE_S):
            async for line in self._lines:
                if line == wanted:
                    return
        raise AssertionError("the stream ended")

    async def until(self, event: str, job_id: str) -> str:
        """The id of this event, whatever comes before it."""
        while True:
            event_id, name, data = await self.next()
            if (name, data["job_id"]) == (event, job_id):
                return event_id


@asynccontextmanager
async def listening(client: httpx.AsyncClient, last_event_id: str | None = None) -> AsyncIterator[Listening]:
    headers = {} if last_event_id is None else {"last-event-id": last_event_id}
    async with client.stream("GET", "/events", headers=headers) as answer:
        assert answer.status_code == 200, await answer.aread()
        yield Listening(answer)


async def test_a_listener_sees_its_job_from_submit_to_end(client: httpx.AsyncClient) -> None:
    async with listening(client) as stream:
        assert stream.answer.headers["content-type"].startswith("text/event-stream")
        job_id = (await client.post("/jobs", json={"type": "t"})).json()["job_id"]
        _, name, data = await stream.next()
        assert (name, data["job_id"], data["state"], data["status"]) == ("job.scheduled", job_id, "scheduled", "queued")
        job = await claim_one(client)
        _, name, running = await stream.next()
        assert (name, running["attempt"]) == ("job.running", 1)
        await client.post("/internal/worker/complete", json=lease_of(job))
        _, name, ended = await stream.next()
        assert (name, ended["status"]) == ("job.completed", "succeeded")
        assert data["sequence"] < running["sequence"] < ended["sequence"]


async def test_nobody_sees_anothers_jobs(plane: Plane) -> None:
    async with (
        plane.client(requester="one") as one,
        plane.client(requester="two") as two,
        listening(one),  # so that their changes are looked for at all
        listening(two) as stream,
    ):
        theirs = (await one.post("/jobs", json={"type": "theirs"})).json()["job_id"]
        own = (await two.post("/jobs", json={"type": "own"})).json()["job_id"]
        _, _, data = await stream.next()
        assert data["job_id"] == own
        await one.post(f"/jobs/{theirs}/cancel")
        await two.post(f"/jobs/{own}/cancel")
        _, name, data = await stream.next()
        assert (name, data["job_id"]) == ("job.cancelled", own)


async def test_all_listeners_of_a_requester_see_the_same_also_when_one_joins_later(client: httpx.AsyncClient) -> None:
    async with listening(client) as first:
        job_id = (await client.post("/jobs", json={"type": "t"})).json()["job_id"]
        async with listening(client) as second:
            await first.until("job.scheduled", job_id)
            await client.post(f"/jobs/{job_id}/cancel")
            await first.until("job.cancelled", job_id)
            await second.until("job.cancelled", job_id)


async def test_the_end_of_an_old_job_is_told_however_many_newer_ones_ended(
    plane: Plane, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("euterpe.stores.sql.reads.changes.NEWEST_OF_A_STATE", 3)
    old = (await client.post("/jobs", json={"type": "old"})).json()["job_id"]
    job = await claim_one(client)
    async with listening(client) as stream:
        for _ in range(8):
            await client.post("/jobs", json={"type": "new"})
            await client.post("/internal/worker/complete", json=lease_of(await claim_one(client)))
        await client.post("/internal/worker/complete", json=lease_of(job))
        await stream.until("job.completed", old)


async def test_a_listener_that_comes_back_is_told_what_it_missed(client: httpx.AsyncClient) -> None:
    async with listening(client) as stream:
        job_id = (await client.post("/jobs", json={"type": "t"})).json()["job_id"]
        last = await stream.until("job.scheduled", job_id)
    await client.post(f"/jobs/{job_id}/cancel")
    async with listening(client, last) as stream:
        await stream.until("job.cancelled", job_id)


async def test_an_event_id_that_is_none_is_refused(client: httpx.AsyncClient) -> None:
    for said in ("abc", "-1", "9" * 19):
        answer = await client.get("/events", headers={"last-event-id": said})
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_input")


async def test_a_quiet_stream_shows_that_it_is_alive(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "HEARTBEAT_S", 0.05)
    async with listening(client) as stream:
        async with asyncio.timeout(PATIENCE_S):
            async for line in stream.answer.aiter_lines():
                if line == ": still here":
                    return
    raise AssertionError("no sign of life")


async def test_a_listener_that_left_is_forgotten_and_the_looking_ends(plane: Plane, client: httpx.AsyncClient) -> None:
    async with listening(client):
        assert len(plane.app._feed._listeners) == 1
    async with asyncio.timeout(PATIENCE_S):
        while plane.app._feed._listeners or plane.app._feed._polling:  # noqa: ASYNC110  # the server notices by itself
            await asyncio.sleep(0.02)
    assert plane.app._feed._live == {}


async def test_more_listeners_than_allowed_are_told_to_come_later(sqlite_url: str) -> None:
    async with (
        running_plane(sqlite_url, Limits(max_listeners=1)) as plane,
        plane.client("read") as client,
        listening(client),
    ):
        refused = await client.get("/events")
        assert (refused.status_code, refused.json()["code"]) == (503, "too_many_listeners")
        assert "retry-after" in refused.headers


async def test_a_listener_that_does_not_read_is_cut_off_and_the_others_are_not() -> None:
    slow, quick = events.Listener("r"), events.Listener("r")
    change = Change("id", "r", "t", "q", State.COMPLETED, None, 0, 1, 1)
    for _ in range(events.BACKLOG + 1):
        slow.push(change)
    quick.push(change)
    assert slow.cut
    assert not quick.cut
    assert slow.queue.qsize() == events.BACKLOG


async def test_draining_ends_the_streams(plane: Plane, client: httpx.AsyncClient) -> None:
    async with listening(client) as stream:
        plane.app.drain()
        async with asyncio.timeout(PATIENCE_S):
            assert [line async for line in stream.answer.aiter_lines()][-1] == ""


async def ended(stream: Listening) -> None:
    """Wait until the server ends the stream."""
    async with asyncio.timeout(PATIENCE_S):
        async for _ in stream.answer.aiter_bytes():
            pass


async def test_a_stream_ends_when_its_key_is_revoked(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "HEARTBEAT_S", 0.05)
    async with (
        running_plane(url, Limits(key_ttl_s=0.05)) as plane,
        plane.client("read") as client,
        plane.client("read") as other,
        listening(client) as stream,
        listening(other) as stays,
    ):
        prefix = client.headers["authorization"].removeprefix("Bearer ").split(".")[0]
        await plane.keys.revoke_key(prefix)
        await ended(stream)
        await stays.line(": still here")


async def test_a_stream_ends_when_its_key_expires_however_busy_it_is(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "HEARTBEAT_S", 0.5)
    monkeypatch.setattr(events, "CHANGES_POLL_S", 0.02)
    async with running_plane(sqlite_url, Limits(key_ttl_s=0.05)) as plane, plane.client() as submitter:
        key = (await plane.keys.create_key("vesta", ["read"], expires_in_us=2_000_000)).key

        async def keep_it_busy() -> None:
            while True:
                await submitter.post("/jobs", json={"type": "t"})

        async with anonymous(plane.base_url) as client:
            client.headers["authorization"] = f"Bearer {key}"
            async with listening(client) as stream:
                busy = asyncio.get_running_loop().create_task(keep_it_busy())
                try:
                    await ended(stream)
                finally:
                    busy.cancel()
                    await asyncio.gather(busy, return_exceptions=True)


async def test_one_requester_has_its_share_of_the_streams_and_no_more(sqlite_url: str) -> None:
    async with (
        running_plane(sqlite_url, Limits(max_listeners=4, max_listeners_per_requester=2)) as plane,
        plane.client("read", requester="greedy") as greedy,
        plane.client("read", requester="modest") as modest,
    ):
        async with listening(greedy), listening(greedy):
            refused = await greedy.get("/events", timeout=5)
            assert (refused.status_code, refused.json()["code"]) == (429, "too_many_streams")
            assert "retry-after" in refused.headers
            async with listening(modest):
                pass
        async with asyncio.timeout(PATIENCE_S):
            while plane.app._feed._listeners:  # noqa: ASYNC110  # the server notices by itself
                await asyncio.sleep(0.02)
        all_there = asyncio.Barrier(10)
        opened = await asyncio.gather(*(stay_until(all_there, greedy) for _ in range(10)))
        assert opened.count(200) == 2, "of a crowd that comes at once no more are let in"


async def stay_until(all_there: asyncio.Barrier, client: httpx.AsyncClient) -> int:
    async with client.stream("GET", "/events") as answer:
        await all_there.wait()
        return answer.status_code
