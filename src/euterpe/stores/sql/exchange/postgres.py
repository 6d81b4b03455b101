"""A worker's exchange on Postgres: settle the attempts that ended and claim the next jobs.

If nothing follows from what ended, a turn is one statement. Else it is one transaction: settle, effects, claim.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic
from typing import Final

from euterpe.model.claims.exchange import ClaimRequest
from euterpe.model.claims.outcome import Settlement
from euterpe.model.errors import CommitUnknown, StoreUnavailable
from euterpe.model.job import Claim
from euterpe.model.state import State
from euterpe.stores.sql.engine import Engine, LockTimeout
from euterpe.stores.sql.exchange.exchange import ExchangeResult
from euterpe.stores.sql.exchange.plain import PlainCompletions
from euterpe.stores.sql.exchange.running import RunningClaims
from euterpe.stores.sql.exchange.simple_jobs import SettleBatch
from euterpe.stores.sql.exchange.turn import TurnResult, in_order, turn, turn_around
from euterpe.stores.sql.jobs.effects import insert_events
from euterpe.stores.sql.jobs.ended_jobs import EndedBy, EndReporter
from euterpe.stores.sql.jobs.keys import admit_due
from euterpe.stores.sql.jobs.settle import HELD_WAIT_MS, LOCKED, SettledAs, settle_held, settle_or_confirm
from euterpe.stores.sql.program import Program

NOTHING: Final = ClaimRequest(worker_id="", limit=0)
AGAIN_AFTER_S: Final = (0.0, 0.001, 0.002, 0.004, 0.008, *[0.016] * 15)
"""Before a claim asks again because another claim held a part of the line. Those are done in a moment."""
KEYS_AT_ONCE: Final = 20
"""Keys whose jobs a claim that came short admits. The sweep admits those of the others."""
AROUND_S: Final = 1.0
"""How long turns go around held rows after one waited in vain: whoever holds one may hold many for long."""


class PostgresExchange:
    def __init__(self, engine: Engine, end_reporter: EndReporter) -> None:
        self._engine = engine
        self._end_reporter = end_reporter
        self._running = RunningClaims()
        self._around_until = 0.0

    async def run(self, batch: SettleBatch, request: ClaimRequest | None) -> ExchangeResult:
        """A turn that claims waits for no row that somebody holds; one that only settles waits a moment."""
        states, claims = await self._run(batch, request)
        if LOCKED in states:
            if request is None:
                await self._settle_held(batch.settlements, states)
            left = zip(batch.settlements, states, strict=True)
            self._running.settled([(s.job_id, s.claim_version) for s, state in left if state is not LOCKED])
        else:
            self._running.settled([(r.claim.job.id, r.claim.job.claim_version) for r in batch.finished])
        return states, claims

    async def close(self) -> None:
        """Claims whose jobs have ended are found by a sweep."""

    async def _run(self, batch: SettleBatch, request: ClaimRequest | None) -> ExchangeResult:
        """In one statement if nothing follows from what ended, but for those from which more follows than their claims
        could tell."""
        done = None if batch.plain is None else await self._try_turn(batch.plain, request or NOTHING)
        if done is None:
            return await self._write(batch.settlements, request)
        states: list[SettledAs] = [State.COMPLETED] * len(batch)
        rest = None if request is None else request.after(len(done.claims))
        if done.settled is None:
            return states, [] if rest is None else await self._claim_rest(done, rest, is_told=len(batch) > 0)
        left = [i for i, s in enumerate(batch.settlements) if (s.job_id, s.claim_version) not in done.settled]
        try:
            found, more = await self._write([batch.settlements[i] for i in left], rest)
        except CommitUnknown:
            raise
        except StoreUnavailable:
            found, more = [LOCKED] * len(left), []  # They are settled again; what is claimed must not be lost for it.
        for i, state in zip(left, found, strict=True):
            states[i] = state
        return states, done.claims if rest is None else in_order([*done.claims, *more], rest)

    async def _try_turn(self, plain: PlainCompletions, request: ClaimRequest) -> TurnResult | None:
        """None: somebody holds a row."""
        if monotonic() < self._around_until:
            return None
        try:
            return await self._turn(plain, request)
        except LockTimeout:
            self._around_until = monotonic() + AROUND_S
            return None

    async def _turn(self, plain: PlainCompletions, request: ClaimRequest) -> TurnResult:
        over = self._running.take_over()
        try:
            done = await self._engine.write_one(lambda: turn(plain, request, over))
        except BaseException:
            self._running.keep_over(over)
            raise
        self._running.add(done.claim, done.claims)
        return done

    async def _claim_rest(self, done: TurnResult, rest: ClaimRequest, *, is_told: bool) -> list[Claim]:
        """What the turn claimed, and more: ask again while another claim held a part of the line, keys have jobs to
        admit, or the next job tells when it begins. `is_told`: the caller is to hear what became of its reports."""
        claims = list(done.claims)
        for wait_s in AGAIN_AFTER_S:
            if rest.limit < 1 or not (done.again or done.keys_are_due or done.at_telling):
                break
            try:
                if done.at_telling:
                    _, more = await self._write([], rest)
                    return in_order([*claims, *more], rest)
                if done.keys_are_due and not await self._engine.write(lambda: admit_due(KEYS_AT_ONCE)):
                    break
                await asyncio.sleep(wait_s)
                done = await self._turn(PlainCompletions(), rest)
            except CommitUnknown:
                raise
            except StoreUnavailable:
                if not claims and not is_told:
                    raise
                break  # What is claimed and settled must not be lost for it.
            claims += done.claims
            rest = rest.after(len(done.claims))
        return claims if len(claims) == len(done.claims) else in_order(claims, rest)

    async def _write(self, settlements: Sequence[Settlement], request: ClaimRequest | None) -> ExchangeResult:
        """In one transaction, which goes around held rows once one was waited for in vain."""
        if monotonic() >= self._around_until:
            try:
                return await self._settle_and_claim(settlements, request)
            except LockTimeout:
                self._around_until = monotonic() + AROUND_S
        return await self._settle_and_claim(settlements, request)

    async def _settle_and_claim(
        self, settlements: Sequence[Settlement], request: ClaimRequest | None
    ) -> ExchangeResult:
        over, around = self._running.take_over(), monotonic() < self._around_until
        done = None
        try:
            states, done = await self._end_reporter.write(
                lambda: settle_and_claim(settlements, request, over, around=around), EndedBy.WORKER
            )
        finally:
            self._running.keep_over(over if done is None else ())
        if done is None or request is None:
            return states, []
        self._running.add(done.claim, done.claims)
        rest = request.after(len(done.claims))
        return states, await self._claim_rest(done, rest, is_told=len(settlements) > 0)

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
        if wait_ms > 0:
            with suppress(LockTimeout):
                return await self._end_reporter.write(lambda: settle_held(held, "postgres", wait_ms), EndedBy.WORKER)
        # The first was held for all that time; the others may have been let go.
        return await self._end_reporter.write(lambda: settle_or_confirm(held, "postgres"), EndedBy.WORKER)


def settle_and_claim(
    settlements: Sequence[Settlement], request: ClaimRequest | None, over: Sequence[int] = (), *, around: bool = False
) -> Program[tuple[list[SettledAs], TurnResult | None]]:
    """In one transaction: settle, effects, claim, events. `over` are claims whose jobs have all ended. `around`: past
    every row that somebody holds."""
    states = yield from settle_or_confirm(settlements, "postgres")
    if request is None or not request.is_answerable:
        return states, None
    done = yield from (turn_around(request, over) if around else turn(PlainCompletions(), request, over, may_tell=True))
    if any(claim.job.callback_url is not None for claim in done.claims):
        yield from insert_events(claim.job for claim in done.claims)
    return states, done
