"""How few requests a worker over HTTP needs, and what it does when a control plane will not take them whole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from euterpe.model.claims.exchange import ClaimRequest, Report, SettleResult
from euterpe.model.claims.outcome import Failed, Outcome, Released, Success
from euterpe.model.errors import EuterpeError, PayloadTooLarge
from euterpe.model.failures.failure import Category, Failure
from euterpe.model.job import Claim
from euterpe.model.state import State
from euterpe.model.submitting.submission import Submission
from euterpe.server.http.limits import Limits
from euterpe.stores.remote.session import ControlPlaneSession
from euterpe.stores.remote.store import HttpStore
from tests.server.plane import Plane, running_plane
from tests.wakeups.crew import until

ASK = ClaimRequest(worker_id="w-1", limit=1000)


@asynccontextmanager
async def client_of(plane: Plane) -> AsyncIterator[HttpStore]:
    store = HttpStore(plane.base_url.replace("://", f"://:{await plane.key()}@"))
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@pytest.fixture
async def plane(url: str) -> AsyncIterator[Plane]:
    async with running_plane(url) as running:
        yield running


@pytest.fixture
def posts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that were posted to, in order."""
    seen: list[str] = []
    real = ControlPlaneSession.post

    async def noted(self: ControlPlaneSession, path: str, *arguments: Any, **more: Any) -> Any:
        seen.append(path)
        return await real(self, path, *arguments, **more)

    monkeypatch.setattr(ControlPlaneSession, "post", noted)
    return seen


async def claims_of(plane: Plane, store: HttpStore, count: int) -> list[Claim]:
    await plane.store.submit_many([Submission(type="t", requester_id="vesta")] * count)
    return await store.claim(ASK)


async def test_a_turn_and_a_round_of_heartbeats_are_one_request_each(plane: Plane, posts: list[str]) -> None:
    outcomes: list[Outcome] = [Success(b"1"), Failed(Failure(Category.PERMANENT, "no")), Released(), Success()]
    states = [State.COMPLETED, State.FAILED, State.SCHEDULED, State.COMPLETED]
    async with client_of(plane) as store:
        claims = await claims_of(plane, store, 400)
        posts.clear()
        assert all(beat.alive for beat in await store.heartbeat([claim.lease for claim in claims]))
        assert len(posts) == 1
        finished = [Report(claim, outcomes[i % 4]) for i, claim in enumerate(claims)]
        verdicts, again = await store.exchange(finished, ASK)
        assert len(posts) == 2
    assert verdicts == [SettleResult(True, states[i % 4]) for i in range(400)]
    assert sorted(claim.job.id for claim in again) == sorted(claim.job.id for claim in claims[2::4])


async def test_results_that_are_too_much_for_one_request_go_in_several(plane: Plane, posts: list[str]) -> None:
    async with client_of(plane) as store:
        claims = await claims_of(plane, store, 8)
        posts.clear()
        result = b'"' + b"x" * 400_000 + b'"'
        verdicts = await store.settle([Report(claim, Success(result)) for claim in claims])
        assert [verdict.accepted for verdict in verdicts] == [True] * 8
        assert len(posts) == 4
        assert (await plane.store.get(claims[7].job.id)).result == result


async def test_a_body_over_the_servers_limit_is_halved_until_it_fits(url: str, posts: list[str]) -> None:
    async with running_plane(url, Limits(max_body_bytes=10_000)) as plane, client_of(plane) as store:
        claims = await claims_of(plane, store, 7)
        await plane.store.cancel(claims[3].job.id, force=True)
        posts.clear()
        finished = [Report(claim, Success(b'"' + b"x" * 3_000 + b'"')) for claim in claims]
        await plane.store.submit(Submission(type="next", requester_id="vesta"))
        verdicts, again = await store.exchange(finished, ASK)
        assert [verdict.accepted for verdict in verdicts] == [True, True, True, False, True, True, True]
        assert [claim.job.type for claim in again] == ["next"]
        assert len(posts) > 1
        with pytest.raises(PayloadTooLarge):
            await store.settle([Report(again[0], Success(b'"' + b"x" * 20_000 + b'"'))])


async def test_an_idle_turn_waits_for_work_to_come(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("euterpe.stores.remote.store.WAIT_MS", 60_000)
    async with client_of(plane) as store:
        waiting = asyncio.create_task(store.exchange([], ASK))
        await until(lambda: any(group._waiters for group in plane.app._coordinator._groups.values()))
        assert not waiting.done()
        await store.submit(Submission(type="t"))
        _, claims = await asyncio.wait_for(waiting, 30)
        assert len(claims) == 1


async def test_a_control_plane_without_turns_is_named_as_too_old() -> None:
    async def nothing_here(_: web.Request) -> web.Response:
        problem = {"code": "no_such_route", "detail": "nothing is here; /docs shows what there is"}
        return web.json_response(problem, status=404, content_type="application/problem+json")

    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", nothing_here)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    store = HttpStore(f"http://:key@127.0.0.1:{runner.addresses[0][1]}")
    await store.open()
    try:
        with pytest.raises(EuterpeError, match="older than this client"):
            await asyncio.wait_for(store.claim(ASK), 30)
    finally:
        await store.close()
        await runner.cleanup()
