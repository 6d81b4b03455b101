"""The sweeps of Redis lists, and among them the reaper: what a lost worker's processing list holds is taken back.

Each move is one script that looks again before it moves, so any process may sweep at any time.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from random import Random
from typing import Final

import msgspec

from euterpe.model.bulk import BulkProgress
from euterpe.model.claims.heartbeat_turns import HeartbeatTurns
from euterpe.model.claims.outcome import Failed, Released, settle, taken_away
from euterpe.model.errors import JobNotFound, StoreUnavailable
from euterpe.model.failures.failure import LIFETIME_OVER, LOST_LEASE, TIMED_OUT
from euterpe.model.job import JobRow
from euterpe.model.retention import KEEP, Chore, Retention, Swept
from euterpe.model.state import TERMINAL, By, State
from euterpe.model.submitting.submission import IDEMPOTENCY_WINDOW_US
from euterpe.ports import Telemetry
from euterpe.stores.redis_lists.commands import (
    EXPIRE_KEYS,
    HGET,
    LOST,
    LRANGE,
    PROMOTE,
    PRUNE,
    PRUNE_TOMBSTONES,
    REAP_ENTRY,
    SCAN,
    SMEMBERS,
    TIME,
    ZRANGE_WITH_SCORES,
    ZRANGEBYSCORE,
    ZREM,
)
from euterpe.stores.redis_lists.entry import read_entry
from euterpe.stores.redis_lists.exchange import ListExchange
from euterpe.stores.redis_lists.operator import ListOperator, ended_of
from euterpe.stores.redis_lists.scripts import RedisScripts
from euterpe.stores.sql.jobs.ended_jobs import EndedBy, EndedJob, log_ended

log = logging.getLogger("euterpe.sweep")

BATCH: Final = 500
PAGE: Final = 100
"""COUNT of a SCAN."""
PASS_S: Final = 0.2
"""So long one pass of the reaper lasts; the next goes on from there."""
PAGE_PAUSE_S: Final = 0.005
"""Between two pages, half more or less, so that fleets do not keep step."""
_OVER: Final = {None, *(str(state).encode() for state in TERMINAL)}
LOOK_AGAIN_MS: Final = 2_000
"""A living worker's list is looked at so often at most, by all processes together."""


class ListSweeps:
    """Any process may run any of these at any time."""

    def __init__(
        self,
        scripts: RedisScripts,
        exchange: ListExchange,
        operator: ListOperator,
        rng: Random,
        telemetry: Callable[[], Telemetry | None],
    ) -> None:
        self.retention = KEEP
        self._scripts = scripts
        self._exchange = exchange
        self._operator = operator
        self._rng = rng
        self._telemetry = telemetry
        self._cursor = 0

    # --- promote --------------------------------------------------------------------------------------

    async def promote(self) -> list[str]:
        queues: list[str] = []
        while True:
            looked, found = await self._scripts.run(PROMOTE, self._exchange.now, BATCH)
            queues += [queue.decode() for queue in found]
            if looked < BATCH:
                return queues

    async def next_due_in_us(self) -> int | None:
        first = await self._scripts.read(ZRANGE_WITH_SCORES, f"{self._scripts.settings.prefix}:due", 0, 0, "WITHSCORES")
        if not first:
            return None
        # The score stands beside the member, or behind it where nobody has put them together.
        due = first[1] if isinstance(first[0], bytes) else first[0][1]
        assert not isinstance(due, tuple)
        return max(0, int(float(due)) - await self.now_us())

    async def now_us(self) -> int:
        if self._exchange.now:
            return int(self._exchange.now)
        seconds, micros = await self._scripts.read(TIME)
        return int(seconds) * 1_000_000 + int(micros)

    # --- recover --------------------------------------------------------------------------------------

    async def urgent(self) -> Swept:
        promoted = await self.promote()
        return msgspec.structs.replace(await self.recover(), promoted=promoted)

    async def recover(self, turns: HeartbeatTurns | None = None) -> Swept:
        return Swept([], await self.reclaim(turns), 0, await self.end_lifetimes(), 0, 0)

    async def reclaim(self, turns: HeartbeatTurns | None = None) -> int:
        """Take back what lost workers held; how many jobs that were."""
        until = time.monotonic() + PASS_S
        moved = 0
        async for worker_id in self._workers(until):
            if turns is not None and not turns.had():
                return moved
            try:
                moved += await self._reap_worker(worker_id, until)
            except StoreUnavailable as error:
                if error.code != "WRONGTYPE":
                    raise
                log.error(
                    "a key stands in the way of a lost worker's jobs", extra={"worker_id": worker_id}, exc_info=error
                )
        if moved and (telemetry := self._telemetry()) is not None:
            telemetry.reaper_moved(moved)
        return moved

    async def _workers(self, until: float) -> AsyncIterator[str]:
        """Those that claimed here, then whoever else has a processing list; a page, and more while there is time."""
        keys = self._scripts.settings
        seen: set[str] = set()
        for worker in await self._scripts.read(SMEMBERS, f"{keys.prefix}:workers"):
            seen.add(worker.decode())
            yield worker.decode()
        while True:
            cursor, page = await self._scripts.read(SCAN, self._cursor, "MATCH", keys.processing_glob, "COUNT", PAGE)
            self._cursor = int(cursor)
            for name in page:
                worker_id = keys.worker_of(name.decode(errors="replace"))
                if worker_id is not None and worker_id not in seen:
                    seen.add(worker_id)
                    yield worker_id
            if not self._cursor or time.monotonic() > until:
                return
            await asyncio.sleep(PAGE_PAUSE_S * random.uniform(0.5, 1.5))

    async def _reap_worker(self, worker_id: str, until: float) -> int:
        """A batch at least, and more while there is time; the next pass finds the rest in the same list."""
        again_ms = 0 if self._exchange.now else LOOK_AGAIN_MS
        _, ids, entries = await self._scripts.run(LOST, self._exchange.now, worker_id, again_ms)
        moved = 0
        for at in range(0, len(ids), BATCH):
            moved += await self._take_back([job_id.decode() for job_id in ids[at : at + BATCH]])
            if time.monotonic() > until:
                return moved
        for entry in entries:
            moved += await self._requeue(worker_id, entry)
            if time.monotonic() > until:
                return moved
        return moved

    async def _take_back(self, ids: Sequence[str]) -> int:
        """Retried while the budget lasts, else dead-lettered; in one step that looks once more for the heartbeat."""
        jobs = [job for job in await self._operator.get_many(ids) if job.state is State.RUNNING]
        settlements = [
            settle(job, Failed(TIMED_OUT if job.outlived_its_deadline else LOST_LEASE), self._rng, By.SWEEP)
            for job in jobs
        ]
        states = await self._exchange.settle_for_lost(settlements, jobs)
        ended_jobs = [
            ended_of(job, state, s.outcome, "timeout" if job.outlived_its_deadline else "lost_lease")
            for job, s, state in zip(jobs, settlements, states, strict=True)
            if state is not None
        ]
        self.report_ended(ended_jobs, EndedBy.SWEEP)
        return len(ended_jobs)

    async def _find(self, job_id: str) -> JobRow | None:
        try:
            return await self._operator.get(job_id, None)
        except JobNotFound:
            return None

    async def _requeue(self, worker_id: str, entry: bytes) -> int:
        """Another program's entry, or one that was moved by hand."""
        said = read_entry(entry)
        keys = self._scripts.settings
        target = "" if said is None else said.origin_queue or keys.named_list(said.priority or "") or ""
        if said is not None and said.retries >= self._exchange.foreign_attempts:
            target = ""
        what = (await self._scripts.run(REAP_ENTRY, worker_id, entry, target)).decode()
        if what in ("requeued", "dead_letter"):
            log.warning(
                "an entry of a lost worker was taken back",
                extra={"worker_id": worker_id, "job_id": "" if said is None else said.id, "state": what},
            )
            return 1
        return 0

    async def end_lifetimes(self) -> int:
        """Whatever is past its lifetime goes to the dead letters, running or not."""
        ended = 0
        key = f"{self._scripts.settings.prefix}:lifetimes"
        while True:
            now = await self.now_us()
            found = await self._scripts.read(ZRANGEBYSCORE, key, "-inf", now, "LIMIT", 0, BATCH)
            ended_jobs = []
            states = await self._scripts.read_all(
                HGET, [(self._scripts.settings.job(job_id.decode()), "state") for job_id in found]
            )
            # Jobs that completed in time, mostly.
            gone: list[bytes] = [job_id for job_id, state in zip(found, states, strict=True) if state in _OVER]
            for job_id in sorted(set(found) - set(gone)):
                job = await self._find(job_id.decode())
                if job is None or job.state in TERMINAL:
                    gone.append(job_id)
                elif await self._operator.take_away(job, taken_away(job, State.DEAD_LETTER, LIFETIME_OVER, By.SWEEP)):
                    ended_jobs.append(ended_of(job, State.DEAD_LETTER, LIFETIME_OVER.category, LIFETIME_OVER.code))
            if gone:
                await self._scripts.read(ZREM, key, *gone)
            self.report_ended(ended_jobs, EndedBy.SWEEP)
            ended += len(ended_jobs)
            if len(found) < BATCH or not (ended_jobs or gone):
                return ended

    def report_ended(self, ended_jobs: Sequence[EndedJob], by: EndedBy) -> None:
        """Metrics and log of ends that no worker reported."""
        log_ended(ended_jobs, by)
        telemetry = self._telemetry()
        if telemetry is None or not ended_jobs:
            return
        for (queue, state, category, had_failed), count in Counter(
            (e.queue, e.state, e.category, e.had_failed) for e in ended_jobs
        ).items():
            if had_failed:
                telemetry.dead_lettered(queue, count)
            else:
                telemetry.settled(queue, state, count, (), category)

    # --- tidy -----------------------------------------------------------------------------------------

    async def release_unbegun(self, worker_id: str, begun: Collection[tuple[str, int]]) -> int:
        """Refund what a worker that is gone had claimed and not begun. What it had begun waits for the reaper."""
        held = await self._scripts.read(LRANGE, self._scripts.settings.processing_list(worker_id), 0, -1)
        found = await self._operator.get_many([said.id for said in map(read_entry, held) if said is not None])
        now = await self.now_us()
        unbegun = [
            job
            for job in found
            if job.state is State.RUNNING
            and job.worker_id == worker_id
            and (job.lease_expires_at or 0) >= now
            and (job.id, job.claim_version) not in begun
        ]
        settlements = [settle(job, Released(), self._rng) for job in unbegun]
        states, _ = await self._exchange.run(settlements, unbegun, None) if unbegun else ([], [])
        return sum(state is not None for state in states)

    async def work_operations(self) -> BulkProgress:
        """There is nothing to search, so there is nothing to act on."""
        return BulkProgress()

    async def overdue_us(self) -> int:
        return 0

    async def tidy(self, chore: Chore, limit: int) -> int:
        """Keys and jobs; lists have no other kinds of rows."""
        match chore:
            case Chore.IDEMPOTENCY_KEYS:
                looked, gone = await self._scripts.run(EXPIRE_KEYS, self._exchange.now, limit)
                return limit if looked == limit and gone else int(gone)
            case Chore.JOBS:
                removed = 0
                for state, keep_us in self.retention.jobs_us.items():
                    went, _ = await self._scripts.run(PRUNE, self._exchange.now, state, keep_us, limit - removed)
                    removed += int(went)
                    if removed >= limit:
                        break
                return removed
            case Chore.TOMBSTONES:
                keep_us = max(self.retention.tombstones_us, IDEMPOTENCY_WINDOW_US)
                return int(await self._scripts.run(PRUNE_TOMBSTONES, self._exchange.now, keep_us, limit))
            case _:
                return 0

    async def prune(self, retention: Retention | None = None) -> int:
        """Remove all that retention no longer keeps, at once; returns how many jobs went."""
        usual, self.retention = self.retention, retention or self.retention
        jobs = 0
        try:
            while went := await self.tidy(Chore.JOBS, BATCH):
                jobs += went
            while await self.tidy(Chore.TOMBSTONES, BATCH):
                pass
        finally:
            self.retention = usual
        return jobs

    async def expire_keys(self) -> int:
        total = 0
        while True:
            looked, gone = await self._scripts.run(EXPIRE_KEYS, self._exchange.now, BATCH)
            total += int(gone)
            if looked < BATCH or not gone:
                return total
