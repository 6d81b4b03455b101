"""Postgres drops its clients, crashes, is gone, or is behind a dead network: what was acknowledged stays, and every
caller gets an answer in time, be it only that the database does not answer."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Iterator
from pathlib import Path

import pytest

from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.outcome import Success
from euterpe.model.errors import StoreUnavailable
from euterpe.model.state import TERMINAL
from euterpe.model.submitting.submission import Submission
from euterpe.stores.sql.postgres import engine
from euterpe.stores.sql.store import SqlStore
from euterpe.stores.sql.submitting import unit_commits
from tests.faults import actors, breakers
from tests.faults.conftest import prepared
from tests.faults.crew import Actor, Crew, until
from tests.faults.history import History, check
from tests.faults.proxy import proxied
from tests.faults.recorder import rows
from tests.faults.stores import engine_of, opened
from tests.patience import in_time
from tests.servers import PostgresServer

LEASE_US = 400_000


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """Ours alone, to be maltreated."""
    with PostgresServer() as server:
        yield server


@pytest.fixture
async def url(server: PostgresServer, tmp_path: Path) -> str:
    return await prepared(f"{server.url}?schema=test_{random.randrange(10**12)}")


async def test_clients_that_are_cut_off_again_and_again_lose_nothing(
    server: PostgresServer, url: str, crew: Crew
) -> None:
    traffic = _start_traffic(crew, url)
    for _ in range(6):
        await _some_more_work(crew)
        assert server.terminate_backends() > 0
    history = await _stopped_and_drained(crew, traffic, url)
    print(f"6 x pg_terminate_backend: {len(history.jobs)} jobs, {len(history.closed)} attempts")


async def test_a_crash_and_restart_in_the_middle_of_traffic_loses_nothing(
    server: PostgresServer, url: str, crew: Crew
) -> None:
    traffic = _start_traffic(crew, url)
    for _ in range(2):
        await _some_more_work(crew)
        await asyncio.to_thread(server.restart, immediate=True)
    await _some_more_work(crew)
    history = await _stopped_and_drained(crew, traffic, url)
    print(f"2 x immediate restart: {len(history.jobs)} jobs, {len(history.closed)} attempts")


async def test_a_server_that_is_gone_is_told_within_the_patience_and_used_again_when_it_is_back(
    server: PostgresServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unit_commits, "OUTAGE_WAIT_S", 1.0)
    async with opened(url) as store:
        before = await store.submit(Submission(type="t"))
        [claim] = await store.claim(ClaimRequest(worker_id="w", limit=1))
        server.stop(immediate=True)
        try:
            for submission in (Submission(type="plain"), Submission(type="keyed", idempotency_key="k")):
                busy_s = time.process_time()
                took_s = await _refused_after_s(store.submit(submission))
                assert took_s > 0.9
                in_time(took_s, 8.0)
                assert time.process_time() - busy_s < 0.5, "it did not wait, it hammered"
            in_time(await _refused_after_s(store.settle([Report(claim, Success())])), 6.0)
            in_time(await _refused_after_s(store.claim(ClaimRequest(worker_id="w", limit=1))), 6.0)
            in_time(await _refused_after_s(store.heartbeat([claim.lease])), 6.0)
            in_time(await _refused_after_s(store.get(before.job_id)), 6.0)
            in_time(await _refused_after_s(SqlStore(engine_of(url)).open()), 6.0)
            in_time(await _refused_after_s(engine_of(url).migrate()), 6.0)
        finally:
            server.start()
        assert (await store.settle([Report(claim, Success())]))[0].accepted
        assert (await store.submit(Submission(type="t"))).state == "scheduled"
    assert rows(url, "SELECT count(*) FROM inbox_jobs WHERE type <> 't'") == [(0,)]
    check(url)


async def test_a_submit_outlasts_a_short_outage(server: PostgresServer, url: str) -> None:
    async with opened(url) as store:
        await store.submit(Submission(type="t"))
        server.stop(immediate=True)
        submits = [
            asyncio.create_task(store.submit(Submission(type="later", idempotency_key=key)))
            for key in (None, "a", "b", "b")
        ]
        await asyncio.to_thread(server.start)
        submit_results = await asyncio.gather(*submits)
        assert len({submitted.job_id for submitted in submit_results}) == 3
    check(url)


async def test_a_network_that_swallows_everything_is_told_too(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit_commits, "OUTAGE_WAIT_S", 0.5)
    monkeypatch.setattr(engine, "ANSWER_TIMEOUT_S", 1.5)
    monkeypatch.setattr(engine, "CONNECT_TIMEOUT_S", 1.5)
    async with proxied(url) as (proxy, through), opened(through) as store:
        await store.submit(Submission(type="t"))
        [claim] = await store.claim(ClaimRequest(worker_id="w", limit=1))
        proxy.freeze()
        waits_s = await asyncio.gather(
            _refused_after_s(store.submit(Submission(type="t"))),
            _refused_after_s(store.settle([Report(claim, Success())])),
            _refused_after_s(store.heartbeat([claim.lease])),
            _refused_after_s(store.get(claim.job.id)),
        )
        in_time(max(waits_s), 15.0)
        proxy.thaw()
        assert (await store.settle([Report(claim, Success())]))[0].accepted
    check(url)


async def test_a_lone_submit_is_told_when_its_own_time_is_over_and_not_the_drivers(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unit_commits, "OUTAGE_WAIT_S", 0.5)
    monkeypatch.setattr(engine, "ANSWER_TIMEOUT_S", 20.0)
    async with proxied(url) as (proxy, through), opened(through) as store:
        await store.submit(Submission(type="t"))
        proxy.freeze()
        in_time(await _refused_after_s(store.submit(Submission(type="t"))), 15.0)
        proxy.thaw()
    check(url)


async def test_a_process_frozen_inside_a_transaction_does_not_keep_its_jobs_for_ever(url: str, crew: Crew) -> None:
    async with opened(url) as store:
        await store.submit(Submission(type="t", retry=actors.AT_ONCE))
        frozen = crew.start(breakers.freezes_inside_a_settle, url, 2.0)
        assert await frozen.report() == "half way"
        frozen.freeze()
        heirs = 0

        async def taken_over() -> bool:
            nonlocal heirs
            await store.sweeps.urgent()
            heirs += len(await store.claim(ClaimRequest(worker_id="heir", limit=1)))
            return heirs == 1

        took_s = await until(taken_over)
        in_time(took_s, 8.0, "its locks outlived its lease of 2 s")
        frozen.order("go on")
        frozen.thaw()
        assert "went away" in await frozen.report(), "its commit must not have come through"
    history = check(url)
    assert [c.outcome for c in history.closed] == ["system"]


def _start_traffic(crew: Crew, url: str) -> list[Actor]:
    return [
        *(crew.start(actors.submitter, url, seed) for seed in (1, 2)),
        *(crew.start(actors.worker, url, LEASE_US, seed) for seed in (3, 4, 5)),
        crew.start(actors.sweeper, url, 0.1),
    ]


async def _some_more_work(crew: Crew) -> None:
    enough = len(crew.notes("settled")) + 40

    async def done() -> bool:
        crew.check_alive()
        return len(crew.notes("settled")) >= enough

    await until(done)


async def _stopped_and_drained(crew: Crew, traffic: list[Actor], url: str) -> History:
    for actor in traffic:
        actor.order("stop")
    for actor in traffic:
        await asyncio.to_thread(actor.process.join, 30)
        assert actor.process.exitcode == 0, f"{actor.process.name} did not survive"
    async with opened(url) as store:

        async def drained() -> bool:
            await store.sweeps.urgent()
            claims = await store.claim(ClaimRequest(worker_id="drain", limit=500))
            await store.settle([Report(claim, Success()) for claim in claims])
            return not await store.depths()

        await until(drained)
    history = check(url, crew)
    assert {job.state for job in history.jobs.values()} <= TERMINAL
    keys = rows(url, "SELECT idempotency_key FROM inbox_jobs WHERE idempotency_key IS NOT NULL")
    assert len(set(keys)) == len(keys), "an ambiguous commit was repeated by hope"
    return history


async def _refused_after_s(call: Awaitable[object]) -> float:
    started = time.monotonic()
    with pytest.raises(StoreUnavailable, match="Postgres"):
        await call
    return time.monotonic() - started
