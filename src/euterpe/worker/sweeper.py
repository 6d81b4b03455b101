"""Sweeps in every worker, jittered, without a leader: each is a compare-and-set, so two at once do no harm."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from typing import Final

from euterpe.ports import OPERATIONS_CHANNEL, OUTBOX_CHANNEL, Sweeps, Telemetry, Wakeups
from euterpe.runtime.outage import Outage
from euterpe.runtime.wait import happens_within
from euterpe.worker.settings import PROMOTE_S

log = logging.getLogger("euterpe.sweep")

RECOVER_EVERY: Final = 3
TIDY_S: Final = 300.0
SOONEST_S: Final = 0.001


class Sweeper:
    """Promotes due jobs on time, recovers lost ones soon, tidies up now and then. Only `stop` ends it, after its pass:
    to be cut off in the middle of a transaction would cost a connection."""

    def __init__(
        self, sweeps: Sweeps, wakeups: Wakeups, telemetry: Telemetry | None = None, interval_s: float = PROMOTE_S
    ) -> None:
        """`interval_s`: between two looks for due jobs; lost and over-age ones are looked for every third time."""
        self._sweeps = sweeps
        self._wakeups = wakeups
        self._telemetry = telemetry
        self._interval_s = interval_s
        self._recover_at = time.monotonic()
        self._tidy_at = time.monotonic() + TIDY_S * random.random()
        self._next_at = 0.0
        self._operating = False
        self._ordered = False
        """Somebody has ordered an operation since the last look."""
        self._sooner = asyncio.Event()
        self._stopping = False
        self._outage = Outage(log, "the sweeper")

    def expect(self, due_in_us: int) -> None:
        """Something falls due then, and this process knows: do not oversleep it."""
        if time.monotonic() + due_in_us / 1e6 < self._next_at:
            self._sooner.set()

    def stop(self) -> None:
        self._stopping = True
        self._sooner.set()

    def _hear_of_operation(self) -> None:
        self._ordered = True
        self._sooner.set()

    async def run(self) -> None:
        unsubscribe = self._wakeups.subscribe(self._hear_of_operation, [OPERATIONS_CHANNEL])
        try:
            await self._run()
        finally:
            unsubscribe()

    async def _run(self) -> None:
        while not self._stopping:
            try:
                pause_s = await self._pass()
            except Exception as error:  # noqa: BLE001  # a rescuer that stops is worse than one that complains
                pause_s = max(self._interval_s, self._outage.pause_after(error))
            else:
                self._outage.over()
            await self._sleep(pause_s)

    async def _pass(self) -> float:
        """Returns how long the next one may wait."""
        sweeps = self._sweeps
        now = time.monotonic()
        if now >= self._recover_at:
            # Up to that long and never more: it is part of the time in which lost jobs are promised back.
            self._recover_at = now + RECOVER_EVERY * self._interval_s * random.uniform(0.6, 1.0)
            await self._recover()
            self._operating = True  # Somebody may have ordered one.
        self._sooner.clear()
        if promoted := await sweeps.promote():
            self._wakeups.announce(promoted)
        if now >= self._tidy_at:
            self._tidy_at = now + TIDY_S * random.uniform(0.75, 1.25)
            # Keys first: what is pruned holds its key for another day.
            await sweeps.expire_keys()
            await sweeps.prune()
        if self._operating or self._ordered:
            self._ordered = False
            await self._work_operations()
        if self._operating or self._ordered:
            return 0.0
        due_us = await sweeps.next_due_in_us()
        pause_s = min(self._interval_s * random.uniform(0.75, 1.25), max(0.0, self._recover_at - time.monotonic()))
        return pause_s if due_us is None else min(pause_s, due_us / 1e6)

    async def _recover(self) -> None:
        recovered = await self._sweeps.recover()
        if recovered.reclaimed:
            log.warning("%d jobs lost their worker and were taken back", recovered.reclaimed)
            if self._telemetry is not None:
                self._telemetry.reclaimed(recovered.reclaimed)
        if recovered.events_reclaimed and self._telemetry is not None:
            self._telemetry.outbox_attempts("lost", recovered.events_reclaimed)
        if recovered.reclaimed or recovered.dead_lettered or recovered.lifetimes or recovered.events_reclaimed:
            self._wakeups.announce([OUTBOX_CHANNEL])  # what a sweep ends may have a callback

    async def _work_operations(self) -> None:
        worked = await self._sweeps.work_operations()
        self._operating = worked.more
        if worked.done:
            self._wakeups.announce([*dict.fromkeys(worked.queues), OUTBOX_CHANNEL])

    async def _sleep(self, pause_s: float) -> None:
        if self._stopping:
            return
        pause_s = max(pause_s, SOONEST_S)
        self._next_at = time.monotonic() + pause_s
        await happens_within(pause_s, self._sooner)


async def sweep_forever(
    sweeps: Sweeps, wakeups: Wakeups, telemetry: Telemetry | None = None, interval_s: float = PROMOTE_S
) -> None:
    """The sweeps alone, for a process that runs no jobs."""
    await Sweeper(sweeps, wakeups, telemetry, interval_s).run()
