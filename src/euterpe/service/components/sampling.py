"""Looking at the queues now and then, so that metrics show lengths and ages and not only events."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Final

from euterpe.model.reading.views import QueueDepth
from euterpe.model.state import State
from euterpe.observe.metrics import Metrics
from euterpe.ports import Capability, Store
from euterpe.runtime.outage import Outage

log: Final = logging.getLogger("euterpe.system")


async def sample_forever(store: Store, metrics: Metrics, interval_s: float) -> None:
    """One look every `interval_s`, the first at once. A database that is away costs a sample."""
    outage = Outage(log, "the sampling of queues")
    while True:
        try:
            await sample(store, metrics)
        except Exception as error:  # noqa: BLE001  # a gauge is worth less than the process
            outage.pause_after(error)
        else:
            outage.over()
        await asyncio.sleep(interval_s)


async def sample(store: Store, metrics: Metrics) -> None:
    waiting = [depth for depth in await store.depths() if depth.state is State.SCHEDULED]
    metrics.sample_queues(lengths_of(waiting), {depth.queue: depth.oldest_age_us / 1e6 for depth in waiting})
    if Capability.OUTBOX in store.capabilities:
        metrics.sample_outbox(await store.outbox.depth())
    metrics.sample_housekeeping(await store.sweeps.overdue_us() / 1e6)


def lengths_of(waiting: Iterable[QueueDepth]) -> dict[str, int]:
    return {depth.queue: depth.count for depth in waiting}
