"""A network that swallows every packet does not keep a worker that was told to stop."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path

from euterpe.queue.queue import Queue
from tests.faults.proxy import proxied
from tests.worker.floor import Floor, until

GRACE_S = 1.0
MOST_S = 15.0
"""Beyond the grace time: writing down what was given back, sweeps, the keeper, the listener and the connections."""


async def test_sigterm_in_a_dead_network_ends_the_worker_soon_after_its_grace_time(
    fresh_postgres_url: str, tmp_path: Path
) -> None:
    async with Queue(fresh_postgres_url) as client, proxied(fresh_postgres_url) as (proxy, through):
        floor = Floor(through, tmp_path)
        try:
            worker = await floor.start(concurrency=2, grace=f"{GRACE_S}s").working()
            await client.submit("gated", {"gate": "never"})
            await floor.noted("begun", count=1)
            proxy.freeze()
            worker.signal(signal.SIGTERM)
            told_at = time.monotonic()
            await until(lambda: worker.said("stopping"), "the worker says that it stops")
            await asyncio.wait_for(worker.ended(), 60)
            took_s = time.monotonic() - told_at
        finally:
            floor.dismiss()
    print(f"ended {took_s:.1f} s after SIGTERM")
    assert took_s < GRACE_S + MOST_S, f"the dead network kept it for {took_s:.1f} s"
