"""A worker's exchange with the store: settle the attempts that ended and claim the next jobs, in one commit.

The fast path, for simple jobs that completed, is one statement on Postgres (one round trip instead of four) and few
statements on SQLite. What it leaves undone goes by the full path.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic
from typing import Final

import msgspec

from euterpe.model.claims.exchange import ClaimRequest
from euterpe.model.claims.outcome import Settlement
from euterpe.model.errors import CommitUnknown, StoreUnavailable
from euterpe.model.job import Claim, Lease
from euterpe.model.state import State
from euterpe.stores.sql.engine import Engine, LockTimeout
from euterpe.stores.sql.jobs.claim import claim
from euterpe.stores.sql.jobs.ended_jobs import EndedBy, EndReporter
from euterpe.stores.sql.jobs.settle import (
    HELD_WAIT_MS,
    LOCKED,
    ClaimKey,
    SettledAs,
    settle_held,
    settle_or_confirm,
)
from euterpe.stores.sql.jobs.simple_jobs import FastPathQueues, SettleBatch, SimpleCompletions
from euterpe.stores.sql.program import Program, each, one
from euterpe.stores.sql.rows import URGENCY, taken_from

ExchangeResult = tuple[list[SettledAs], list[Claim]]
"""What each settlement made of its job, and what was claimed."""
NOTHING: Final = ClaimRequest(worker_id="", limit=0)
FRONT: Final = 6
"""Columns of `exchange.sql` in front of a job's."""
LOCK_WAIT_MS: Final = 50
"""How long the one statement waits for a row that somebody holds. Two workers' statements hold a row for milliseconds;
who holds it longer is somebody else, and the full path skips what they hold. Much shorter than the server's
`deadlock_timeout`: two statements that wait for each other come to this end, too."""
FULL_PATH_S: Final = 1.0
"""So long no turn is tried in one statement after the full path found rows that are held: whoever holds one may hold
many for long, and each try would cost LOCK_WAIT_MS for nothing."""


OVER_AT_ONCE: Final = 32
ON_ROWS_AFTER_S: Final = 0.3


class Exchange:
    """Exchanges on one engine; remembers which queues lately had jobs that need more than the one statement."""

    def __init__(self, engine: Engine, end_reporter: EndReporter) -> None:
        self._engine = engine
        self._end_reporter = end_reporter
        self._fast_path = FastPathQueues()
        self._rows_are_held_until = 0.0
        self._receipts = Receipts()
        self._watching: asyncio.Task[None] | None = None

    async def run(self, batch: SettleBatch, request: ClaimRequest | None) -> ExchangeResult:
        """A turn that claims waits for no row that somebody holds; one that only settles waits a moment."""
        states, claims = await self._run(batch, request)
        if request is None and LOCKED in states:
            await self._settle_held(batch.settlements, states)
        return states, claims

    async def _settle_held(self, settlements: Sequence[Settlement], states: list[SettledAs]) -> None:
        """Fill in the states of those whose rows are let go in time."""
        deadline = monotonic() + HELD_WAIT_MS / 1000
        while held := [i for i, state in enumerate(states) if state is LOCKED]:
            left_ms = math.ceil((deadline - monotonic()) * 1000)
            try:
                found = await self._settle_when_free([settlements[i] for i in held], left_ms)
            except CommitUnknown:
                raise
            except StoreUnavailable:
                return
            for i, state in zip(held, found, strict=True):
                states[i] = state
            if left_ms <= 0:
                return

    async def _settle_when_free(self, held: Sequence[Settlement], wait_ms: int) -> list[SettledAs]:
        family = self._engine.family
        if wait_ms > 0:
            with suppress(LockTimeout):
                return await self._end_reporter.write(lambda: settle_held(held, family, wait_ms), EndedBy.WORKER)
        # The first was held for all that time; the others may have been let go.
        return await self._end_reporter.write(lambda: settle_or_confirm(held, family), EndedBy.WORKER)

    async def _run(self, batch: SettleBatch, request: ClaimRequest | None) -> ExchangeResult:
        simple = batch.simple
        if simple is None or self._engine.family != "postgres" or not self._may_claim_fast(request):
            return await self._run_full_path(batch, request, simple)
        if simple and monotonic() < self._rows_are_held_until:
            return await self._run_full_path(batch, request, None)
        try:
            chunks = self._receipts.chunks
            done = await self._engine.write_one(lambda: fast_exchange(simple, request or NOTHING, chunks))
        except LockTimeout:
            states, claims = await self._run_full_path(batch, request, None)
            if LOCKED in states:
                self._rows_are_held_until = monotonic() + FULL_PATH_S
            return states, claims
        self._receipts.observe(simple, done, request)
        self._watch_receipts()
        if over := self._receipts.take_over():
            await self._engine.write_one(lambda: delete_receipts(over))
        if done.settled is None and done.was_simple:
            return [State.COMPLETED] * len(batch), done.claims
        return await self._run_rest(batch, done, request)

    def _watch_receipts(self) -> None:
        if self._receipts.are_open and (self._watching is None or self._watching.done()):
            self._watching = asyncio.get_running_loop().create_task(self._put_on_rows())

    async def _put_on_rows(self) -> None:
        """What runs longer than a moment shows as running wherever anybody looks."""
        while self._receipts.are_open:
            await asyncio.sleep(ON_ROWS_AFTER_S)
            slow = self._receipts.take_older(monotonic() - ON_ROWS_AFTER_S)
            if slow:
                with suppress(StoreUnavailable):
                    await self._engine.write(lambda slow=slow: put_on_rows(slow))  # type: ignore[misc]

    async def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            with suppress(asyncio.CancelledError):
                await self._watching

    async def _run_rest(self, batch: SettleBatch, done: FastPathResult, request: ClaimRequest | None) -> ExchangeResult:
        """What the one statement left goes the full path."""
        if request is not None:
            if not done.was_simple:
                self._fast_path.exclude(request)
            # What is settled now may release what this worker can take at once.
            rest = request.after(len(done.claims))
            request = rest if rest.total else None
        states: list[SettledAs] = [State.COMPLETED] * len(batch)
        left: list[int] = []
        if done.settled is not None:
            settlements = batch.settlements
            left = [i for i, s in enumerate(settlements) if (s.job_id, s.claim_version) not in done.settled]
        found, claims = await self._write([batch.settlements[i] for i in left] if left else [], request)
        for i, state in zip(left, found, strict=True):
            states[i] = state
        return states, done.claims + claims

    async def _run_full_path(
        self, batch: SettleBatch, request: ClaimRequest | None, simple: SimpleCompletions | None
    ) -> ExchangeResult:
        if simple is None or self._engine.family == "postgres":
            return await self._write(batch.settlements, request, keyed=batch.have_keys)

        def program() -> Program[ExchangeResult]:
            states: list[SettledAs] = [State.COMPLETED] * len(batch)
            if not (yield from complete_simple(simple)):
                states = yield from settle_or_confirm(batch.settlements, "sqlite")
            claims = (yield from claim(request, "sqlite")) if request is not None else []
            return states, claims

        return self._observe(request, await self._end_reporter.write(program, EndedBy.WORKER))

    async def _write(
        self, settlements: Sequence[Settlement], request: ClaimRequest | None, *, keyed: bool = False
    ) -> ExchangeResult:
        family = self._engine.family

        def program() -> Program[ExchangeResult]:
            states = yield from settle_or_confirm(settlements, family)
            claims = (yield from claim(request, family, may_wait=not keyed)) if request is not None else []
            return states, claims

        return self._observe(request, await self._end_reporter.write(program, EndedBy.WORKER))

    def _observe(self, request: ClaimRequest | None, exchanged: ExchangeResult) -> ExchangeResult:
        if request is not None:
            self._fast_path.observe(request, exchanged[1])
        return exchanged

    def _may_claim_fast(self, request: ClaimRequest | None) -> bool:
        return request is None or self._fast_path.allows(request)


class FastPathResult(msgspec.Struct, frozen=True):
    """What the one statement did, and what it left."""

    claims: list[Claim]
    settled: set[ClaimKey] | None
    """Which were settled; None: all."""
    was_simple: bool
    receipt: int | None = None
    chunks: int = 0
    covered: Sequence[str] = ()
    """The jobs of the receipt; the others were claimed onto their rows."""


def put_on_rows(receipts: Sequence[int]) -> Program[None]:
    yield one("sweep_receipts", receipts=list(receipts), worker_id=None, limit=len(receipts))


def delete_receipts(receipts: Sequence[int]) -> Program[None]:
    yield one("delete_receipts", receipts=list(receipts))


class Receipts:
    """The receipts of this store's claims: one whose jobs are all settled is deleted by the next exchange."""

    def __init__(self) -> None:
        self.chunks = 4
        self._of: dict[str, int] = {}
        self._left: dict[int, int] = {}
        self._since: dict[int, float] = {}
        self._over: list[int] = []

    @property
    def are_open(self) -> bool:
        return bool(self._left)

    def take_older(self, than: float) -> list[int]:
        """Receipts that were claimed before and still have jobs. From now on those are on their rows."""
        older = [receipt for receipt in self._left if self._since[receipt] < than]
        for receipt in older:
            del self._left[receipt], self._since[receipt]
        return older

    def take_over(self) -> list[int]:
        """Many at a time: a DELETE in each turn costs a small turn more than it removes. The sweep finds the rest."""
        if len(self._over) < OVER_AT_ONCE:
            return []
        over, self._over = self._over, []
        return over

    def observe(self, completions: SimpleCompletions, done: FastPathResult, request: ClaimRequest | None) -> None:
        if done.settled is None:
            for job_id in completions.ids:
                receipt = self._of.pop(job_id, None)
                if receipt in self._left:
                    self._left[receipt] -= 1
                    if not self._left[receipt]:
                        del self._left[receipt], self._since[receipt]
                        self._over.append(receipt)
        if done.receipt is not None:
            self._left[done.receipt] = len(done.covered)
            self._since[done.receipt] = monotonic()
            for job_id in done.covered:
                self._of[job_id] = done.receipt
        if request is not None and request.total:
            if done.chunks == self.chunks and len(done.claims) < request.total:
                self.chunks = min(2 * self.chunks, 1000)
            elif done.chunks:
                self.chunks = max(2, min(self.chunks, 2 * done.chunks))


def fast_exchange(
    completions: SimpleCompletions, request: ClaimRequest, chunks: int = 4
) -> Program[FastPathResult]:
    # Lists as one text each: the driver looks at every element of an array three times, in Python.
    results = list(completions.results)
    alike = bool(results) and results.count(results[0]) == len(results)
    rows = yield one(
        "exchange",
        ids=",".join(completions.ids),
        claim_versions=",".join(map(str, completions.claim_versions)),
        settling=len(completions),
        result=results[0] if alike else None,
        results=[] if alike else results,
        queue=request.queues[0],
        types=None if request.types is None else list(request.types),
        limit=request.limit,
        prefetch=request.prefetch,
        prefetch_types=list(request.prefetch_types),
        worker_id=request.worker_id,
        lease_ttl_us=request.lease_ttl_us,
        wait_ms=LOCK_WAIT_MS,
        started=",".join(map(str, completions.started)),
        chunks=chunks,
    )
    count, ids, versions, was_simple, receipt, used = rows[0][:FRONT]
    settled = set(zip(ids or (), versions or (), strict=True)) if count < len(completions) else None
    worker_id, ttl_us = request.worker_id, request.lease_ttl_us
    jobs = [taken_from(row[FRONT:-1], worker_id, ttl_us) for row in rows if row[FRONT] is not None]
    covered = [row[FRONT + 1] for row in rows if row[-1]]
    jobs.sort(key=URGENCY)
    claims = [Claim(job, Lease(job.id, job.claim_version, job.lease_expires_at or 0)) for job in jobs]
    return FastPathResult(claims, settled, was_simple is not False, receipt, used, covered)


def complete_simple(completions: SimpleCompletions) -> Program[bool]:
    """End plain jobs on SQLite; whether that was all of them. What it left, `settle_or_confirm` finds and confirms."""
    if not completions:
        return True
    yield each(
        "complete",
        id=completions.ids,
        claim_version=completions.claim_versions,
        result=completions.results,
        simple=[True] * len(completions),
    )
    ((written,),) = yield one("changes")
    return bool(written == len(completions))
