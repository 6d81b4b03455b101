"""How a worker tells that it is alive: its pace, its end, and what is left when it is cut off at any point."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import pytest

from euterpe.model.claims.presence import LISTED, LiveWorker, Presence, WorkerFacts
from euterpe.runtime.shutdown import ShutdownDeadline
from euterpe.stores.sql.sqlite.engine import SqliteEngine
from euterpe.stores.sql.workers import SqlWorkers
from euterpe.worker.heartbeat import registration
from euterpe.worker.heartbeat.registration import WorkerRegistration, registered
from tests.cancellation.cutting import When, cut_off
from tests.faults.stores import sqlite_path

SECOND_US = 1_000_000


class Noted:
    """A registry that notes what it is told, and refuses what a test wants refused."""

    def __init__(self, refusals: int = 0) -> None:
        self.told: list[Presence] = []
        self.left: list[str] = []
        self.refusals = refusals

    async def register(self, workers: Sequence[Presence]) -> None:
        self.told += workers
        if len(self.told) <= self.refusals:
            raise RuntimeError("whatever may go wrong")

    async def unregister(self, worker_id: str) -> None:
        self.left.append(worker_id)
        raise RuntimeError("nor does this matter")

    async def list(self, limit: int = LISTED) -> list[LiveWorker]:
        raise AssertionError(limit)


class Pauses:
    """Instead of waiting; stops after so many."""

    def __init__(self, most: int) -> None:
        self.seconds: list[float] = []
        self._most = most

    async def wait(self, seconds: float, event: asyncio.Event) -> bool:
        self.seconds.append(seconds)
        if len(self.seconds) == self._most:
            event.set()
        return event.is_set()


def worker(registry: Noted | SqlWorkers, name: str = "w", silence_s: float = 60) -> WorkerRegistration:
    facts = WorkerFacts(queues=("default",), slots=3)
    return WorkerRegistration(registry, name, "1.2", lambda: facts, lambda: 0, round(silence_s * SECOND_US))


async def test_it_tells_of_itself_every_third_of_its_silence_more_or_less(monkeypatch: pytest.MonkeyPatch) -> None:
    registry, pauses = Noted(), Pauses(200)
    monkeypatch.setattr(registration, "happens_within", pauses.wait)
    await worker(registry, silence_s=12).run()
    assert len(registry.told) == 200
    assert min(pauses.seconds) < 3.5
    assert 4.5 < max(pauses.seconds) <= 5.0
    (first, *_) = registry.told
    assert (first.worker_id, first.facts.slots, first.facts.version) == ("w", 3, "1.2")
    assert first.facts.pid is not None


async def test_a_refusal_of_any_kind_is_tried_again_soon_and_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    registry, pauses = Noted(refusals=5), Pauses(6)
    monkeypatch.setattr(registration, "happens_within", pauses.wait)
    await worker(registry, silence_s=12).run()
    assert max(pauses.seconds[:5]) <= 2.0
    assert len(registry.told) == 6


async def test_it_leaves_once_and_whatever_that_meets() -> None:
    registry = Noted()
    async with registered(worker(registry), ShutdownDeadline()):
        await asyncio.sleep(0)
    assert registry.left == ["w"]
    async with registered(None, ShutdownDeadline()):
        pass


@pytest.mark.parametrize("when", When, ids=lambda when: when.name.lower())
async def test_cut_off_at_any_point_it_leaves_no_task_and_no_transaction_behind(sqlite_url: str, when: When) -> None:
    engine = SqliteEngine(sqlite_path(sqlite_url))
    await engine.migrate()
    await engine.open()
    registry = SqlWorkers(engine)

    async def life(name: str) -> None:
        async with registered(worker(registry, name), ShutdownDeadline()):
            async with asyncio.timeout(30):
                while name not in [alive.worker_id for alive in await registry.list()]:  # noqa: ASYNC110
                    await asyncio.sleep(0.001)

    mine = asyncio.all_tasks()
    for at in range(200):
        was_cut = False
        with suppress(asyncio.CancelledError):
            was_cut = await cut_off(life(f"w{at}"), at, when)
        if left := asyncio.all_tasks() - mine:
            await asyncio.wait(left, timeout=30)
        assert not asyncio.all_tasks() - mine
        async with asyncio.timeout(30):
            await registry.register([Presence(worker_id="after", facts=WorkerFacts(queues=("q",)))])
            assert "after" in [alive.worker_id for alive in await registry.list()]
        if not was_cut:
            assert f"w{at}" not in [alive.worker_id for alive in await registry.list()]
            break
    else:
        pytest.fail("it has more than 200 suspension points")
    assert at > 3
    await engine.close()
