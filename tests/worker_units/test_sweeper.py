"""What a sweep ends may have a callback: whoever delivers is told at once and need not find out."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from euterpe.model.retention import Swept
from euterpe.ports import OUTBOX_CHANNEL
from euterpe.stores.remote.store import RemoteSweeps
from euterpe.wakeups.local import LocalWakeups
from euterpe.worker.maintenance import Sweeper


class Recovering(RemoteSweeps):
    """Sweeps whose recovery did this."""

    def __init__(self, did: Swept) -> None:
        super().__init__()
        self._did = did
        self.looked = asyncio.Event()

    async def recover(self) -> Swept:
        return self._did

    async def promote(self) -> list[str]:
        return []

    async def next_due_in_us(self) -> int | None:
        self.looked.set()
        return None


class Heard(LocalWakeups):
    def __init__(self) -> None:
        super().__init__()
        self.channels: list[str] = []

    def announce(self, queues: Iterable[str]) -> None:
        self.channels += queues


@pytest.mark.parametrize(
    ("did", "told"),
    [
        (Swept([], 1, 0, 0, 0, 0), [OUTBOX_CHANNEL]),
        (Swept([], 0, 1, 0, 0, 0), [OUTBOX_CHANNEL]),
        (Swept([], 0, 0, 1, 0, 0), [OUTBOX_CHANNEL]),
        (Swept([], 0, 0, 0, 0, 1), [OUTBOX_CHANNEL]),
        (Swept([], 0, 0, 0, 3, 0), []),
        (Swept([], 0, 0, 0, 0, 0), []),
    ],
    ids=["reclaimed", "buried", "lifetime", "event", "unparked", "nothing"],
)
async def test_what_a_sweep_ended_is_told_to_whoever_delivers(did: Swept, told: list[str]) -> None:
    store, heard = Recovering(did), Heard()
    sweeper = Sweeper(store, heard)
    sweeping = asyncio.get_running_loop().create_task(sweeper.run())
    await store.looked.wait()
    sweeper.stop()
    await sweeping
    assert heard.channels == told
