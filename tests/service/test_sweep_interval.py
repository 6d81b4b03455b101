"""`worker.sweep_interval` of the configuration is how often the sweeps of every role look."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest

from euterpe.config import load_config
from euterpe.model.claims.heartbeat_turns import HeartbeatTurns
from euterpe.model.retention import Swept
from euterpe.queue.queue import Queue
from euterpe.service.roles import OUTBOX, WORKER, Role, Started, run_role, tuning_of
from euterpe.stores.remote.exchange import RemoteExchange
from euterpe.stores.remote.session import ControlPlaneSession
from euterpe.stores.remote.store import RemoteSweeps
from euterpe.wakeups.local import LocalWakeups
from euterpe.worker.sweeper import Sweeper


class Counted(RemoteSweeps):
    """Sweeps that find nothing, and tell when they were asked often enough."""

    def __init__(self, enough: int) -> None:
        super().__init__(RemoteExchange(ControlPlaneSession("http://127.0.0.1")))
        self.looks = self.recoveries = 0
        self.done = asyncio.Event()
        self._enough = enough

    async def promote(self) -> list[str]:
        self.looks += 1
        if self.looks >= self._enough:
            self.done.set()
        return []

    async def recover(self, turns: HeartbeatTurns | None = None) -> Swept:
        self.recoveries += 1
        return Swept([], 0, 0, 0, 0, 0)

    async def next_due_in_us(self) -> int | None:
        return None


async def test_the_interval_sets_the_pace_and_lost_jobs_are_looked_for_every_third_time() -> None:
    store = Counted(enough=60)
    sweeper = Sweeper(store, LocalWakeups(), interval_s=0.01)
    sweeping = asyncio.get_running_loop().create_task(sweeper.run())
    async with asyncio.timeout(30):  # by the default interval it would take a minute
        await store.done.wait()
    sweeper.stop()
    await sweeping
    assert 60 / 6 <= store.recoveries <= 60 / 1.5


@pytest.mark.parametrize("role", [WORKER, OUTBOX], ids=lambda role: role.name)
async def test_every_role_sweeps_as_the_configuration_says(
    role: Role, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    intervals: list[float] = []

    class Noted(Sweeper):
        def __init__(self, store: Any, wakeups: Any, telemetry: Any, interval_s: float, lease_ttl_us: int) -> None:
            intervals.append(interval_s)
            super().__init__(store, wakeups, telemetry, interval_s, lease_ttl_us)

    monkeypatch.setattr("euterpe.worker.sweeper.Sweeper", Noted)
    monkeypatch.setattr("euterpe.queue.run.Sweeper", Noted)
    queue = Queue(sqlite_url)

    @queue.job("greet")
    async def greet() -> None: ...

    config = load_config(None, {"WORKER_SWEEP_INTERVAL": "250ms", "OBSERVABILITY_METRICS_PORT": "0"})

    def ready(_started: Started) -> None:
        asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGTERM)

    async with asyncio.timeout(30):
        await run_role(role, config, queue, tuning_of(config), ready)
    assert intervals == [0.25]
