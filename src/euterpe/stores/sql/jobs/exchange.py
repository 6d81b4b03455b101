"""A busy worker's turn: settle what is over and claim the next, with one commit for both.

The common turn, plain jobs that completed, is one statement on Postgres, one round trip instead of four, and a short
way of few statements on SQLite. Whatever these leave undone goes the general way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from operator import attrgetter
from time import monotonic
from typing import Final

import msgspec

from euterpe.model.claims.exchange import ClaimRequest
from euterpe.model.claims.outcome import Settlement
from euterpe.model.errors import CommitUnknown, StoreUnavailable
from euterpe.model.job import Claim, JobRow, Lease
from euterpe.model.state import State
from euterpe.stores.sql.engine import Engine, LockTimeout
from euterpe.stores.sql.jobs.claim import claim
from euterpe.stores.sql.jobs.ends import EndedBy, EndReports
from euterpe.stores.sql.jobs.fast_path import PlainLines
from euterpe.stores.sql.jobs.settle import HELD_WAIT_MS, LOCKED, SettledAs, complete, settle_held, settle_or_confirm
from euterpe.stores.sql.program import Program, one
from euterpe.stores.sql.rows import URGENCY, taken_from

Turn = tuple[list[SettledAs], list[Claim]]
"""What each settlement made of its job, and what was claimed."""
NOTHING: Final = ClaimRequest(worker_id="", limit=0)
BY_JOB: Final = attrgetter("job_id")
FRONT: Final = 4
"""Columns of `exchange.sql` in front of a job's."""
LOCK_WAIT_MS: Final = 50
"""How long the one statement waits for a row that somebody holds. Two workers' statements hold a row for milliseconds;
who holds it longer is somebody else, and the full path skips what they hold. Much shorter than the server's
`deadlock_timeout`: two statements that wait for each other come to this end, too."""
FULL_PATH_S: Final = 1.0
"""So long no turn is tried in one statement after the full path found rows that are held: whoever holds one may hold
many for long, and each try would cost LOCK_WAIT_MS for nothing."""


class Exchange:
    """Takes turns on one engine; remembers which queues lately had jobs that need more than the one statement."""

    def __init__(self, engine: Engine, ends: EndReports) -> None:
        self._engine = engine
        self._ends = ends
        self._lines = PlainLines()
        self._rows_are_held_until = 0.0

    async def take(
        self, settlements: Sequence[Settlement], jobs: Sequence[JobRow], request: ClaimRequest | None
    ) -> Turn:
        """`jobs` are those of the settlements, as they were claimed. A turn that claims waits for no row that somebody
        holds; one that only settles waits a moment."""
        states, claims = await self._take(settlements, jobs, request)
        if request is None and LOCKED in states:
            await self._settle_held(settlements, states)
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
                return await self._ends.write(lambda: settle_held(held, family, wait_ms), EndedBy.WORKER)
        # The first was held for all that time; the others may have been let go.
        return await self._ends.write(lambda: settle_or_confirm(held, family), EndedBy.WORKER)

    async def _take(
        self, settlements: Sequence[Settlement], jobs: Sequence[JobRow], request: ClaimRequest | None
    ) -> Turn:
        plain = all(s.state is State.COMPLETED and s.log is None for s in settlements) and nothing_follows(jobs)
        if not (plain and self._engine.family == "postgres" and self._may_claim_briefly(request)):
            return await self._take_all(settlements, jobs, request, plain=plain)
        if settlements and monotonic() < self._rows_are_held_until:
            return await self._take_all(settlements, jobs, request, plain=False)
        try:
            done = await self._engine.write_one(lambda: brief(settlements, request or NOTHING))
        except LockTimeout:
            states, claims = await self._take_all(settlements, jobs, request, plain=False)
            if LOCKED in states:
                self._rows_are_held_until = monotonic() + FULL_PATH_S
            return states, claims
        if not done.left and done.line_was_plain:
            return [s.state for s in settlements], done.claims
        if request is not None:
            if not done.line_was_plain:
                self._lines.was_not(request)
            # What is settled now may release what this worker can take at once.
            rest = request.after(len(done.claims))
            request = rest if rest.total else None
        states, claims = await self._take_all(done.left, jobs, request, plain=False)
        left = dict(zip((id(s) for s in done.left), states, strict=True))
        return [left.get(id(s), s.state) for s in settlements], done.claims + claims

    async def _take_all(
        self, settlements: Sequence[Settlement], jobs: Sequence[JobRow], request: ClaimRequest | None, *, plain: bool
    ) -> Turn:
        family = self._engine.family
        keyed = not plain and any(job.concurrency_key is not None for job in jobs)

        def program() -> Program[Turn]:
            briefly = plain and family == "sqlite" and (yield from complete_plain(settlements))
            states: list[SettledAs] = [s.state for s in settlements]
            if not briefly:
                states = yield from settle_or_confirm(settlements, family)
            claims = (yield from claim(request, family, may_wait=not keyed)) if request is not None else []
            return states, claims

        states, claims = await self._ends.write(program, EndedBy.WORKER)
        if request is not None:
            self._lines.saw(request, claims)
        return states, claims

    def _may_claim_briefly(self, request: ClaimRequest | None) -> bool:
        return request is None or self._lines.may_be(request)


class Brief(msgspec.Struct, frozen=True):
    """What the one statement did, and what it left."""

    claims: list[Claim]
    left: list[Settlement]
    line_was_plain: bool


def nothing_follows(jobs: Sequence[JobRow]) -> bool:
    """Plain jobs from whose end nothing follows, as far as their claims could tell: dependents may come at any time."""
    return all(
        job.callback_url is None and job.concurrency_key is None and not job.has_dependents and job.stages_json is None
        for job in jobs
    )


def brief(settlements: Sequence[Settlement], request: ClaimRequest) -> Program[Brief]:
    # In the order of ids, as heartbeats: two statements that lock the same rows in two orders wait for each other.
    ordered = sorted(settlements, key=BY_JOB)
    rows = yield one(
        "exchange",
        id=[s.job_id for s in ordered],
        claim_version=[s.claim_version for s in ordered],
        result=[s.result for s in ordered],
        queue=request.queues[0],
        types=None if request.types is None else list(request.types),
        limit=request.limit,
        prefetch=request.prefetch,
        prefetch_types=list(request.prefetch_types),
        worker_id=request.worker_id,
        lease_ttl_us=request.lease_ttl_us,
        wait_ms=LOCK_WAIT_MS,
    )
    settled, ids, versions, line_was_plain = rows[0][:FRONT]
    left: list[Settlement] = []
    if settled < len(settlements):
        done = set(zip(ids or (), versions or (), strict=True))
        left = [s for s in settlements if (s.job_id, s.claim_version) not in done]
    worker_id, ttl_us = request.worker_id, request.lease_ttl_us
    jobs = [taken_from(row[FRONT:], worker_id, ttl_us) for row in rows if row[FRONT] is not None]
    jobs.sort(key=URGENCY)
    claims = [Claim(job, Lease(job.id, job.claim_version, job.lease_expires_at or 0)) for job in jobs]
    return Brief(claims, left, line_was_plain is not False)


def complete_plain(settlements: Sequence[Settlement]) -> Program[bool]:
    """End plain jobs on SQLite; whether that was all of them. What it left, `settle_or_confirm` finds and confirms."""
    if not settlements:
        return True
    yield complete(settlements, plain=True)
    ((written,),) = yield one("changes")
    return bool(written == len(settlements))
