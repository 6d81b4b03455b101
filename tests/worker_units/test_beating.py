"""The pace of heartbeats."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import cast

import pytest

from euterpe.model.claims.exchange import HeartbeatReply
from euterpe.model.job import Lease
from euterpe.ports import Claims
from euterpe.worker.heartbeat import renew
from euterpe.worker.heartbeat.lease_table import LeaseTable


class Renewing:
    async def heartbeat(self, leases: Sequence[Lease], lease_ttl_us: int = 0) -> list[HeartbeatReply]:
        return [HeartbeatReply(lease, True) for lease in leases]


async def test_a_lease_of_a_microsecond_does_not_make_the_keeper_spin(monkeypatch: pytest.MonkeyPatch) -> None:
    """An older release accepted such a job."""
    table = LeaseTable(1)
    table.hold(Lease("0" * 36, 1, 0), time.monotonic() + 3600, 1)
    pauses: list[float] = []

    class Enough(Exception):
        pass

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 10:
            raise Enough

    monkeypatch.setattr(asyncio, "sleep", sleep)
    with pytest.raises(Enough):
        await renew.renew_forever(cast(Claims, Renewing()), table, 60_000_000, lambda _news: True)
    assert min(pauses) >= 0.1
