"""Workers are seen while they are alive, idle ones too: real processes, stopped and killed, and breakers that open."""

from __future__ import annotations

import asyncio
import logging
import signal
from typing import Any

import pytest

import euterpe
from euterpe.backends.engines import connect
from euterpe.model.claims.presence import SILENCE_US, BreakerState, LiveWorker
from euterpe.model.reading.why import Reason
from euterpe.model.state import State
from euterpe.queue.queue import Queue, core_of
from euterpe.worker.heartbeat import registration
from tests.faults.recorder import rows
from tests.faults.stores import SQLITE
from tests.worker.conftest import ON_SQLITE_ALONE
from tests.worker.floor import Floor, in_state, until
from tests.worker.inline import working
from tests.worker.test_circuit_breaker import Shop


async def alive(queue: Queue) -> list[LiveWorker]:
    return await core_of(queue).store.workers.list()


async def alive_at(url: str, now_us: int) -> list[str]:
    """As a process sees it at another time."""
    backend = connect(url, clock=lambda: now_us)
    await backend.open()
    try:
        return [worker.worker_id for worker in await backend.store.workers.list()]
    finally:
        await backend.close()


def rename(url: str, table: str, name: str) -> None:
    """A database that refuses what is asked of this table."""
    change = f"ALTER TABLE {table} RENAME TO {name}"
    rows(url, change if url.startswith(SQLITE) else f"SELECT 1; {change}")


async def test_a_worker_that_stops_is_gone_at_once_and_one_that_is_killed_when_its_silence_is_over(
    floor: Floor, client: Queue, url: str
) -> None:
    stops, killed = floor.start(concurrency=7), floor.start(queues=["mail"])

    async def both() -> dict[int | None, LiveWorker] | None:
        found = {worker.facts.pid: worker for worker in await alive(client)}
        return found if found.keys() == {stops.pid, killed.pid} else None

    found: dict[int | None, LiveWorker] = await until(both, "both idle workers are listed")
    facts = found[stops.pid].facts
    assert (facts.queues, facts.slots, facts.running, facts.version) == (("default",), 7, 0, euterpe.__version__)
    assert "quick" in (facts.types or ())
    assert found[killed.pid].facts.queues == ("mail",)
    stops.signal(signal.SIGTERM)
    assert await stops.ended() == 0
    killed.signal(signal.SIGKILL)
    await killed.ended()
    last = found[killed.pid]
    assert await alive_at(url, last.seen_at) == [last.worker_id]
    later = await core_of(client).store.now_us() + SILENCE_US
    assert await alive_at(url, later) == []


async def test_jobs_go_on_where_a_worker_cannot_be_registered_and_it_is_tried_again(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    queue = Queue(url)

    @queue.job("quick")
    async def quick() -> str:
        return "done"

    async with queue:
        await asyncio.to_thread(rename, url, "euterpe_workers", "gone")
        async with working(queue, poll="100ms", webhooks=False):
            jobs = [await queue.submit("quick") for _ in range(3)]
            for job in jobs:
                assert (await in_state(queue, job, State.COMPLETED)).attempt_count == 1
            refused = "database unavailable: the registration of this worker is retrying"
            await until(lambda: [r for r in caplog.records if refused in r.getMessage()], "the refusal is logged")
            await asyncio.to_thread(rename, url, "gone", "euterpe_workers")
            await until(lambda: alive(queue), "the worker is registered after all")
        assert await alive(queue) == []


@ON_SQLITE_ALONE
async def test_a_breaker_that_opens_is_seen_by_everybody_and_a_waiting_job_tells_of_it(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registration, "SOONEST_S", 0.02)
    shop = Shop(url)
    async with shop.open(), Queue(url) as other:
        await shop.submit(4)
        await shop.turns(2)
        waiting = await other.submit("fetch", queue="mail")

        async def barred() -> Any:
            told = await core_of(other).store.why(waiting.id)
            return told if told.reason is Reason.BREAKER_OPEN else None

        told = await until(barred, "the job tells of the breaker")
        assert "circuit breaker of fetch in queue mail is open on every worker" in told.sentence
        (worker,) = await alive(other)
        (breaker,) = worker.facts.breakers
        assert (breaker.queue, breaker.type, breaker.state) == ("mail", "fetch", BreakerState.OPEN)
        shop.mode = "succeed"
        await shop.runs(5)

        async def closed() -> bool:
            return [worker.facts.breakers for worker in await alive(other)] == [()]

        await until(closed, "everybody sees that it is closed again")
    async with Queue(url) as other:
        assert await alive(other) == []


@ON_SQLITE_ALONE
async def test_a_worker_that_drains_says_so_while_it_finishes_its_jobs(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registration, "SOONEST_S", 0.02)
    queue = Queue(url)
    begun, gate = asyncio.Event(), asyncio.Event()

    @queue.job("slow")
    async def slow() -> None:
        begun.set()
        await gate.wait()

    async with working(queue, grace="60s", webhooks=False) as stop:
        await queue.submit("slow")
        await begun.wait()
        stop.set()

        async def drains() -> bool:
            return [(worker.facts.stopping, worker.facts.running) for worker in await alive(queue)] == [(True, 1)]

        await until(drains, "the worker says that it stops")
        gate.set()
