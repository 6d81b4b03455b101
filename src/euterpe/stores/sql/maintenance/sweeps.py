"""The sweeps as methods: bounded batches, repeated until a pass finds nothing more."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from random import Random
from typing import Final

import msgspec

from euterpe.model.bulk import BulkProgress
from euterpe.model.retention import KEEP, Retention, Swept
from euterpe.model.state import State
from euterpe.model.submitting.submission import KEY_KEPT_AFTER_END_US
from euterpe.stores.sql.bulk.operations import Operations
from euterpe.stores.sql.engine import Engine
from euterpe.stores.sql.jobs import rates
from euterpe.stores.sql.jobs.ended_jobs import EndedBy, EndedJob, EndReporter, log_ended
from euterpe.stores.sql.maintenance import sweep
from euterpe.stores.sql.outbox import events
from euterpe.stores.sql.program import Program, one
from euterpe.stores.sql.submitting import late_dependencies
from euterpe.stores.sql.submitting.unique import forget_unique
from euterpe.stores.sql.workers import forget_silent

BATCH: Final = 500


class SqlSweeps:
    """Any process may run any of these at any time."""

    def __init__(self, engine: Engine, rng: Random, end_reporter: EndReporter, operations: Operations) -> None:
        self._engine = engine
        self._rng = rng
        self._end_reporter = end_reporter
        self._operations = operations
        self.retention = KEEP

    async def promote(self) -> list[str]:
        """Queues of the jobs that became scheduled, one entry a job."""
        queues = await self.offer_tokens()
        while True:
            found = await self._engine.write(lambda: sweep.promote(BATCH))
            queues += found
            if len(found) < BATCH:
                return queues

    async def offer_tokens(self) -> list[str]:
        """Parked jobs go on for which their keys' rates have tokens; their queues, one entry a job."""
        due = await self._engine.read(rates.due_rates)
        return await self._engine.write(lambda: rates.offer_tokens(due)) if due else []

    async def reclaim(self) -> int:
        return await self._all_told(lambda: sweep.reclaim(BATCH, self._engine.family, self._rng))

    async def release_unbegun(self, worker_id: str, begun: Collection[tuple[str, int]]) -> int:
        family = self._engine.family
        return await self._end_reporter.write(
            lambda: sweep.release_unbegun(worker_id, begun, family, self._rng), EndedBy.WORKER
        )

    async def reclaim_events(self) -> int:
        return await self._all(lambda: events.reclaim_events(BATCH))

    async def end_lifetimes(self) -> int:
        return await self._all_told(lambda: sweep.end_lifetimes(BATCH, self._engine.family))

    async def dead_letter_spent(self) -> int:
        return await self._all_told(lambda: sweep.dead_letter_spent(BATCH))

    async def watch_dependencies(self) -> int:
        """Only Postgres leaves any: on SQLite nobody else writes while a caller's transaction is open."""
        if self._engine.family == "sqlite":
            return 0
        return await self._all_told(lambda: late_dependencies.watch_dependencies(BATCH))

    async def unpark_idle(self) -> int:
        return await self._all(lambda: sweep.unpark_idle(BATCH))

    async def urgent(self) -> Swept:
        """Everything at once: promote, then recover."""
        promoted = await self.promote()
        return msgspec.structs.replace(await self.recover(), promoted=promoted)

    async def recover(self) -> Swept:
        """What recovery time depends on; run every few seconds."""
        await self.watch_dependencies()
        return Swept(
            [],
            await self.reclaim(),
            await self.dead_letter_spent(),
            await self.end_lifetimes(),
            await self.unpark_idle(),
            await self.reclaim_events(),
        )

    async def work_operations(self) -> BulkProgress:
        """Act on the next jobs of every operation that is under way."""
        return await self._operations.work()

    async def next_due_in_us(self) -> int | None:
        """How long until the next delayed or retrying job is due; None when there is none."""
        rows = await self._engine.read(_next_due)
        return None if rows is None else max(0, rows)

    async def prune(self, retention: Retention | None = None) -> int:
        """Remove what retention no longer keeps; returns how many jobs went."""
        retention = retention or self.retention
        jobs = 0
        for state, keep_us in retention.jobs_us.items():
            jobs += await self._all(partial(sweep.prune, state, keep_us, BATCH))
        for state in (State.COMPLETED, State.DEAD_LETTER):
            await self._all(partial(sweep.prune_events, state, retention.events_us, BATCH))
        # The key of a pruned job is kept by its tombstone.
        keep_us = max(retention.tombstones_us, KEY_KEPT_AFTER_END_US)
        await self._all(lambda: sweep.prune_tombstones(keep_us, BATCH))
        await self._all(lambda: sweep.prune_operations(retention.tombstones_us, BATCH))
        await self._engine.write(forget_silent)
        return jobs

    async def expire_keys(self) -> int:
        await self._all(lambda: forget_unique(BATCH))
        return await self._all(lambda: sweep.expire_keys(BATCH))

    async def _all_told(self, make: Callable[[], Program[int]]) -> int:
        """For sweeps that end jobs. However many batches it takes, the log gets a few lines and a number."""
        ended: list[EndedJob] = []
        total = 0
        try:
            while True:
                count, found = await self._end_reporter.write_quietly(make, EndedBy.SWEEP)
                ended += found
                total += count
                if count < BATCH:
                    return total
        finally:
            log_ended(ended, EndedBy.SWEEP)

    async def _all(self, make: Callable[[], Program[int]]) -> int:
        total = 0
        while True:
            count = await self._engine.write(make)
            total += count
            if count < BATCH:
                return total


def _next_due() -> Program[int | None]:
    rows = yield one("next_due")
    due, now = rows[0]
    return None if due is None else due - now
