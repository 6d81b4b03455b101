"""The sweeps as methods: bounded batches, repeated until a pass finds nothing more."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from functools import partial
from random import Random
from typing import Final

import msgspec

from euterpe.model.bulk import BulkProgress
from euterpe.model.claims.heartbeat_turns import HeartbeatTurns
from euterpe.model.retention import KEEP, Chore, Retention, Swept
from euterpe.model.state import State
from euterpe.model.submitting.submission import IDEMPOTENCY_WINDOW_US
from euterpe.stores.sql.bulk.operations import Operations
from euterpe.stores.sql.engine import Engine
from euterpe.stores.sql.jobs.ended_jobs import EndedBy, EndedJob, EndReporter, log_ended
from euterpe.stores.sql.jobs.keys import admit_due
from euterpe.stores.sql.maintenance import sweep, walks
from euterpe.stores.sql.maintenance.walks import WalkPlaces
from euterpe.stores.sql.outbox import events
from euterpe.stores.sql.program import Program, one
from euterpe.stores.sql.submitting import late_dependencies
from euterpe.stores.sql.submitting.unique import forget_unique
from euterpe.stores.sql.workers import forget_silent

log = logging.getLogger("euterpe.sweep")

BATCH: Final = 500
KEYS_AT_ONCE: Final = 100
"""Keys that a pass counts again. They are held meanwhile."""
PAGE: Final = 1000
"""Rows of a walk that a pass looks at."""
PAGES_AT_ONCE: Final = 20
"""Pages in which one go looks for completed jobs to remove."""
PROMOTED_AT_ONCE: Final = 20
"""Batches of due jobs in one go. A million that fall due together must not keep lost jobs waiting: the next go follows
at once, and recovery has its turn between."""


class SqlSweeps:
    """Any process may run any of these at any time."""

    def __init__(self, engine: Engine, rng: Random, end_reporter: EndReporter, operations: Operations) -> None:
        self._engine = engine
        self._rng = rng
        self._end_reporter = end_reporter
        self._operations = operations
        self._places = WalkPlaces()
        self._pruned_after = 0
        self.retention = KEEP

    async def promote(self) -> list[str]:
        """Queues of the jobs that became scheduled, one entry a job. There may be more that are due."""
        queues = await self.offer_tokens()
        for _ in range(PROMOTED_AT_ONCE):
            found = await self._engine.write(lambda: sweep.promote(BATCH))
            queues += found
            if len(found) < BATCH:
                break
        return queues

    async def offer_tokens(self) -> list[str]:
        """Jobs enter the line for which their keys' rates have tokens; their queues, one entry a job."""
        return await self._engine.write(lambda: admit_due(BATCH))

    async def reclaim(self, turns: HeartbeatTurns | None = None) -> int:
        if self._engine.family == "postgres":
            await self._all(lambda: sweep.refresh_running(BATCH))
        return await self._all_told(lambda: sweep.reclaim(BATCH, self._engine.family, self._rng, turns))

    async def release_unbegun(self, worker_id: str, begun: Collection[tuple[str, int]]) -> int:
        family = self._engine.family
        return await self._end_reporter.write(
            lambda: sweep.release_unbegun(worker_id, begun, family, self._rng), EndedBy.WORKER
        )

    async def reclaim_events(self, turns: HeartbeatTurns | None = None) -> int:
        return await self._all(lambda: events.reclaim_events(BATCH, turns))

    async def end_lifetimes(self) -> int:
        ended = await self._all_told(lambda: sweep.end_lifetimes(BATCH, self._engine.family))
        if self._engine.family == "postgres":
            ended += await self._walk_lines()
        return ended

    async def _walk_lines(self) -> int:
        """Lifetimes of what is ready: a page of the lines of keys, then one of the line. What ends in the line lets
        others in, which would be missed in the other order."""
        places, family = self._places, self._engine.family
        (of_keys, keyed), first = await self._end_reporter.write_quietly(
            lambda: walks.walk_key_lines(places.keyed, PAGE, family), EndedBy.SWEEP
        )
        (in_line, run), second = await self._end_reporter.write_quietly(
            lambda: walks.walk_line(places.run, PAGE, family), EndedBy.SWEEP
        )
        self._places = msgspec.structs.replace(self._places, run=run, keyed=keyed)
        log_ended([*first, *second], EndedBy.SWEEP)
        return in_line + of_keys

    async def adopt(self) -> int:
        """Jobs that are ready, and that a statement put into no line, among the next ones in the order of numbers."""
        if self._engine.family == "sqlite":
            return 0
        adopted = await self._engine.write(partial(walks.adopt, self._places.job, PAGE))
        self._places = msgspec.structs.replace(self._places, job=adopted.place)
        for job_id in adopted.job_ids:
            log.error("a job that is ready was in no line; it is there now", extra={"job_id": job_id})
        return len(adopted.job_ids)

    async def dead_letter_spent(self) -> int:
        return await self._all_told(lambda: sweep.dead_letter_spent(BATCH))

    async def watch_dependencies(self) -> int:
        """Only Postgres leaves any: on SQLite nobody else writes while a caller's transaction is open."""
        if self._engine.family == "sqlite":
            return 0
        return await self._all_told(lambda: late_dependencies.watch_dependencies(BATCH))

    async def unpark_idle(self) -> int:
        """The next keys in turn. However many there are, a pass looks at so many."""
        walk = partial(walks.walk_keys, self._places.key, KEYS_AT_ONCE, self._engine.family)
        count, key = await self._engine.write(walk)
        self._places = msgspec.structs.replace(self._places, key=key)
        return count

    async def urgent(self) -> Swept:
        """Everything at once: promote, then recover."""
        promoted = await self.promote()
        swept = await self.recover()
        if swept.failures:
            raise swept.failures[0]
        return msgspec.structs.replace(swept, promoted=promoted)

    async def recover(self, turns: HeartbeatTurns | None = None) -> Swept:
        """What recovery time depends on; run every few seconds. A part that fails stops no other part."""
        parts = (
            partial(self.reclaim, turns),
            self.dead_letter_spent,
            self.end_lifetimes,
            self.unpark_idle,
            partial(self.reclaim_events, turns),
            self.watch_dependencies,
            self.adopt,
        )
        counts, failures = [], []
        for part in parts:
            try:
                counts.append(await part())
            except Exception as error:  # noqa: BLE001  # told to the caller, who logs it
                counts.append(0)
                failures.append(error)
        reclaimed, dead_lettered, lifetimes, unparked, events_reclaimed, _, adopted = counts
        return Swept([], reclaimed, dead_lettered, lifetimes, unparked, events_reclaimed, tuple(failures), adopted)

    async def work_operations(self) -> BulkProgress:
        """Act on the next jobs of every operation that is under way."""
        return await self._operations.work()

    async def next_due_in_us(self) -> int | None:
        """How long until the next delayed or retrying job is due; None when there is none."""
        rows = await self._engine.read(_next_due)
        return None if rows is None else max(0, rows)

    async def tidy(self, chore: Chore, limit: int) -> int:
        removed = 0
        if chore is Chore.JOBS and self._engine.family == "postgres":
            removed = await self._prune_completed(limit)
        for step in self._steps(chore, self.retention):
            if removed >= limit:
                break
            removed += await self._engine.write(partial(step, limit - removed))
        return removed

    async def overdue_us(self) -> int:
        return await self._engine.read(lambda: sweep.overdue(self.retention, self._pruned_after))

    async def _prune_completed(self, limit: int) -> int:
        """The next ones behind those that the last go looked at. It ends behind a number of pages, found or not."""
        removed = 0
        for _ in range(PAGES_AT_ONCE):
            prune = partial(sweep.prune_completed, self.retention.completed_us, limit - removed, self._pruned_after)
            count, self._pruned_after = await self._engine.write(prune)
            removed += count
            if removed >= limit or self._pruned_after == 0:
                break
        return removed

    async def _prune_all_completed(self, keep_us: int) -> int:
        removed = after = 0
        while True:
            count, after = await self._engine.write(partial(sweep.prune_completed, keep_us, BATCH, after))
            removed += count
            if count < BATCH and after == 0:
                return removed

    async def prune(self, retention: Retention | None = None) -> int:
        """Remove all that retention no longer keeps, at once; returns how many jobs went."""
        removed = dict.fromkeys(Chore, 0)
        for chore in removed:
            if chore in (Chore.UNIQUE_KEYS, Chore.IDEMPOTENCY_KEYS):
                continue
            if chore is Chore.JOBS and self._engine.family == "postgres":
                removed[chore] += await self._prune_all_completed((retention or self.retention).completed_us)
            for step in self._steps(chore, retention or self.retention):
                removed[chore] += await self._all(partial(step, BATCH))
        return removed[Chore.JOBS]

    async def expire_keys(self) -> int:
        for step in self._steps(Chore.UNIQUE_KEYS, self.retention):
            await self._all(partial(step, BATCH))
        return await self._all(lambda: sweep.expire_keys(BATCH))

    def _steps(self, chore: Chore, retention: Retention) -> Sequence[Callable[[int], Program[int]]]:
        """What a chore consists of: programs that remove up to so many rows each."""
        match chore:
            case Chore.UNIQUE_KEYS:
                return (forget_unique,)
            case Chore.IDEMPOTENCY_KEYS:
                return (sweep.expire_keys,)
            case Chore.JOBS:
                in_no_index = (State.COMPLETED,) if self._engine.family == "postgres" else ()
                kept_us = retention.jobs_us.items()
                return [partial(sweep.prune, state, keep_us) for state, keep_us in kept_us if state not in in_no_index]
            case Chore.EVENTS:
                states = (State.COMPLETED, State.DEAD_LETTER)
                return [partial(sweep.prune_events, state, retention.events_us) for state in states]
            case Chore.TOMBSTONES:
                # The key of a pruned job is kept by its tombstone.
                return (partial(sweep.prune_tombstones, max(retention.tombstones_us, IDEMPOTENCY_WINDOW_US)),)
            case Chore.OPERATIONS:
                return (partial(sweep.prune_operations, retention.tombstones_us),)
            case Chore.WORKERS:
                return (lambda _limit: forget_silent(),)

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
