"""Housekeeping in every worker: removes what retention no longer keeps, in short transactions beside the sweeps."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from typing import Final

from euterpe.model.retention import TIDY_LIMIT, Chore
from euterpe.ports import Sweeps, Telemetry
from euterpe.runtime.outage import Outage
from euterpe.runtime.wait import happens_within

log = logging.getLogger("euterpe.sweep")

TIDY_S: Final = 300.0
STEP_S: Final = 0.1
"""How long one transaction may take. On SQLite whoever else writes waits for it."""
FEWEST: Final = 20
SHORTEST_PAUSE_S: Final = 0.01


class Housekeeper:
    """Works off every chore now and then. Between two transactions it pauses for as long as the last one took, so that
    it takes at most half of a writer's time. Only `stop` ends it, after its transaction."""

    def __init__(self, sweeps: Sweeps, telemetry: Telemetry | None) -> None:
        self._sweeps = sweeps
        self._telemetry = telemetry
        self._stop = asyncio.Event()
        self._limit = TIDY_LIMIT
        self._outage = Outage(log, "housekeeping")

    def stop(self) -> None:
        self._stop.set()

    async def run(self) -> None:
        pause_s = TIDY_S * random.random()
        while not await happens_within(pause_s, self._stop):
            await self.tidy()
            pause_s = TIDY_S * random.uniform(0.75, 1.25)

    async def tidy(self) -> None:
        """Every chore until nothing is left of it. One that fails stops no other."""
        failed = False
        for chore in Chore:
            try:
                await self._work_off(chore)
            except Exception as error:  # noqa: BLE001  # whatever it was, the other chores go on
                failed = True
                await happens_within(self._outage.pause_after(error), self._stop)
        if not failed:
            self._outage.over()

    async def _work_off(self, chore: Chore) -> None:
        while not self._stop.is_set():
            limit, began = self._limit, time.monotonic()
            removed = await self._sweeps.tidy(chore, limit)
            took_s = time.monotonic() - began
            if removed and self._telemetry is not None:
                self._telemetry.housekept(chore, removed)
            if removed < limit:
                return
            self._limit = max(FEWEST, min(TIDY_LIMIT, round(limit * STEP_S / max(took_s, STEP_S / 2))))
            await happens_within(max(took_s, SHORTEST_PAUSE_S), self._stop)
