"""A busy worker's turn: settle what is over and claim the next, with one commit for both.

The common turn, plain jobs that completed, is one statement on Postgres, one round trip instead of four, and a short
way of few statements on SQLite. Whatever these leave undone goes the general way.
"""

from __future__ import annotations

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
from euterpe.stores.sql.jobs.ends import EndedBy, EndReports
from euterpe.stores.sql.jobs.fast_path import Endings, PlainCompletions, PlainLines
from euterpe.stores.sql.jobs.settle import (
    HELD_WAIT_MS,
    LOCKED,
    ClaimKey,
    SettledAs,
    settle_held,
    settle_or_confirm,
)
from euterpe.stores.sql.program import Program, each, one
from euterpe.stores.sql.rows import URGENCY, taken_from

Turn = tuple[list[SettledAs], list[Claim]]
"""What each settlement made of its job, and what was claimed."""
NOTHING: Final = ClaimRequest(worker_id="", limit=0)
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

    async def take(self, endings: Endings, request: ClaimRequest | None) -> Turn:
        """A turn that claims waits for no row that somebody holds; one that only settles waits a moment."""
        states, claims = await self._take(endings, request)
        if request is None and LOCKED in states:
            await self._settle_held(endings.settlements, states)
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

    async def _take(self, endings: Endings, request: ClaimRequest | None) -> Turn:
        plain = endings.plain
        if plain is None or self._engine.family != "postgres" or not self._may_claim_briefly(request):
            return await self._take_all(endings, request, plain)
        if plain and monotonic() < self._rows_are_held_until:
            return await self._take_all(endings, request, None)
        try:
            done = await self._engine.write_one(lambda: brief(plain, request or NOTHING))
        except LockTimeout:
            states, claims = await self._take_all(endings, request, None)
            if LOCKED in states:
                self._rows_are_held_until = monotonic() + FULL_PATH_S
            return states, claims
        if done.settled is None and done.line_was_plain:
            return [State.COMPLETED] * len(endings), done.claims
        return await self._take_rest(endings, done, request)

    async def _take_rest(self, endings: Endings, done: Brief, request: ClaimRequest | None) -> Turn:
        """What the one statement left goes the full path."""
        if request is not None:
            if not done.line_was_plain:
                self._lines.was_not(request)
            # What is settled now may release what this worker can take at once.
            rest = request.after(len(done.claims))
            request = rest if rest.total else None
        states: list[SettledAs] = [State.COMPLETED] * len(endings)
        left: list[int] = []
        if done.settled is not None:
            settlements = endings.settlements
            left = [i for i, s in enumerate(settlements) if (s.job_id, s.claim_version) not in done.settled]
        found, claims = await self._write([endings.settlements[i] for i in left] if left else [], request)
        for i, state in zip(left, found, strict=True):
            states[i] = state
        return states, done.claims + claims

    async def _take_all(self, endings: Endings, request: ClaimRequest | None, plain: PlainCompletions | None) -> Turn:
        if plain is None or self._engine.family == "postgres":
            return await self._write(endings.settlements, request, keyed=endings.have_keys)

        def program() -> Program[Turn]:
            states: list[SettledAs] = [State.COMPLETED] * len(endings)
            if not (yield from complete_plain(plain)):
                states = yield from settle_or_confirm(endings.settlements, "sqlite")
            claims = (yield from claim(request, "sqlite")) if request is not None else []
            return states, claims

        return self._saw(request, await self._ends.write(program, EndedBy.WORKER))

    async def _write(
        self, settlements: Sequence[Settlement], request: ClaimRequest | None, *, keyed: bool = False
    ) -> Turn:
        family = self._engine.family

        def program() -> Program[Turn]:
            states = yield from settle_or_confirm(settlements, family)
            claims = (yield from claim(request, family, may_wait=not keyed)) if request is not None else []
            return states, claims

        return self._saw(request, await self._ends.write(program, EndedBy.WORKER))

    def _saw(self, request: ClaimRequest | None, turn: Turn) -> Turn:
        if request is not None:
            self._lines.saw(request, turn[1])
        return turn

    def _may_claim_briefly(self, request: ClaimRequest | None) -> bool:
        return request is None or self._lines.may_be(request)


class Brief(msgspec.Struct, frozen=True):
    """What the one statement did, and what it left."""

    claims: list[Claim]
    settled: set[ClaimKey] | None
    """Which were settled; None: all."""
    line_was_plain: bool


def brief(completions: PlainCompletions, request: ClaimRequest) -> Program[Brief]:
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
    )
    count, ids, versions, line_was_plain = rows[0][:FRONT]
    settled = set(zip(ids or (), versions or (), strict=True)) if count < len(completions) else None
    worker_id, ttl_us = request.worker_id, request.lease_ttl_us
    jobs = [taken_from(row[FRONT:], worker_id, ttl_us) for row in rows if row[FRONT] is not None]
    jobs.sort(key=URGENCY)
    claims = [Claim(job, Lease(job.id, job.claim_version, job.lease_expires_at or 0)) for job in jobs]
    return Brief(claims, settled, line_was_plain is not False)


def complete_plain(completions: PlainCompletions) -> Program[bool]:
    """End plain jobs on SQLite; whether that was all of them. What it left, `settle_or_confirm` finds and confirms."""
    if not completions:
        return True
    yield each(
        "complete",
        id=completions.ids,
        claim_version=completions.claim_versions,
        result=completions.results,
        plain=[True] * len(completions),
    )
    ((written,),) = yield one("changes")
    return bool(written == len(completions))
