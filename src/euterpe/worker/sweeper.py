"""Sweeps in every worker, jittered, without a leader: each is a compare-and-set, so two at once do no harm."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from euterpe.model.claims.exchange import LEASE_TTL_US
from euterpe.model.claims.heartbeat_turns import HARMLESS, HeartbeatTurns
from euterpe.model.errors import StoreUnavailable
from euterpe.ports import OPERATIONS_CHANNEL, OUTBOX_CHANNEL, Sweeps, Telemetry, Wakeups
from euterpe.runtime.clocks import awake_or_not_s
from euterpe.runtime.outage import Outage
from euterpe.runtime.wait import happens_within
from euterpe.worker.housekeeper import Housekeeper
from euterpe.worker.settings import PROMOTE_S

T = TypeVar("T")
log = logging.getLogger("euterpe.sweep")

RECOVER_EVERY: Final = 3
SOONEST_S: Final = 0.001


class Sweeper:
    """Promotes due jobs on time and recovers lost ones soon. Housekeeping goes on beside it, and neither waits for the
    other. Only `stop` ends it, after its pass: to be cut off in the middle of a transaction would cost a connection."""

    def __init__(
        self,
        sweeps: Sweeps,
        wakeups: Wakeups,
        telemetry: Telemetry | None = None,
        interval_s: float = PROMOTE_S,
        lease_ttl_us: int = LEASE_TTL_US,
    ) -> None:
        """`interval_s`: between two looks for due jobs; lost and over-age ones are looked for every third time.
        `lease_ttl_us`: the usual lease of this process; a time without a write that could cost it is a break."""
        self._sweeps = sweeps
        self._housekeeper = Housekeeper(sweeps, telemetry)
        gap_us = max(round(2 * interval_s * 1e6), lease_ttl_us // HARMLESS)
        self._turns = HeartbeatTurns(lambda: round(awake_or_not_s() * 1e6), gap_us, lease_ttl_us)
        self._wakeups = wakeups
        self._telemetry = telemetry
        self._interval_s = interval_s
        self._recover_at = time.monotonic()
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
        self._housekeeper.stop()
        self._sooner.set()

    def _hear_of_operation(self) -> None:
        self._ordered = True
        self._sooner.set()

    async def run(self) -> None:
        unsubscribe = self._wakeups.subscribe(self._hear_of_operation, [OPERATIONS_CHANNEL])
        housekeeping = asyncio.get_running_loop().create_task(self._housekeeper.run())
        try:
            while not self._stopping:
                await self._sleep(await self._pass())
            await asyncio.wait({housekeeping})
        finally:
            unsubscribe()
            housekeeping.cancel()
            await asyncio.wait({housekeeping})

    async def _pass(self) -> float:
        """Returns how long the next one may wait. A part that fails stops no other part."""
        now = time.monotonic()
        failures: list[Exception] = []
        self._sooner.clear()
        await self._guarded(self._promote, failures)
        if now >= self._recover_at:
            # Up to that long and never more: it is part of the time in which lost jobs are promised back.
            self._recover_at = now + RECOVER_EVERY * self._interval_s * random.uniform(0.6, 1.0)
            await self._guarded(lambda: self._recover(failures), failures)
            self._operating = True  # Somebody may have ordered one.
        if self._operating or self._ordered:
            self._ordered = False
            await self._guarded(self._work_operations, failures)
        due_us: int | None = None
        if not (self._operating or self._ordered):
            due_us = await self._guarded(self._sweeps.next_due_in_us, failures)
        if failures:
            return max(self._interval_s, self._outage.pause_after(failures[0]))
        self._outage.over()
        if self._operating or self._ordered:
            return 0.0
        pause_s = min(self._interval_s * random.uniform(0.75, 1.25), max(0.0, self._recover_at - time.monotonic()))
        return pause_s if due_us is None else min(pause_s, due_us / 1e6)

    async def _guarded(self, part: Callable[[], Awaitable[T]], failures: list[Exception]) -> T | None:
        """A rescuer that stops is worse than one that complains."""
        try:
            return await part()
        except Exception as error:  # noqa: BLE001  # whatever it was, the other parts go on
            failures.append(error)
            return None

    async def _promote(self) -> None:
        try:
            promoted = await self._sweeps.promote()
        except StoreUnavailable:
            self._turns.failed()
            raise
        self._turns.wrote()
        if promoted:
            self._wakeups.announce(promoted)

    async def _recover(self, failures: list[Exception]) -> None:
        """Just after a write of ours, so that a long wait for the next one shows that no process could write."""
        recovered = await self._sweeps.recover(self._turns)
        failures += recovered.failures
        if recovered.reclaimed:
            log.warning("%d jobs lost their worker and were taken back", recovered.reclaimed)
            if self._telemetry is not None:
                self._telemetry.reclaimed(recovered.reclaimed)
        if recovered.adopted and self._telemetry is not None:
            self._telemetry.adopted(recovered.adopted)
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
    sweeps: Sweeps,
    wakeups: Wakeups,
    telemetry: Telemetry | None = None,
    interval_s: float = PROMOTE_S,
    lease_ttl_us: int = LEASE_TTL_US,
) -> None:
    """The sweeps alone, for a process that runs no jobs."""
    await Sweeper(sweeps, wakeups, telemetry, interval_s, lease_ttl_us).run()
