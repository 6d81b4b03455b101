"""A worker's exchange with the store: settle the attempts that ended and claim the next jobs, in one commit.

The fast path, for simple jobs that completed, is one statement on Postgres (one round trip instead of four) and few
statements on SQLite. What it leaves undone goes by the full path.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property, partial
from random import Random
from time import monotonic
from typing import TYPE_CHECKING, Final

from euterpe.model.claims.exchange import ClaimRequest
from euterpe.model.claims.outcome import Settlement
from euterpe.model.errors import CommitUnknown, StoreUnavailable
from euterpe.model.job import Claim
from euterpe.model.state import State
from euterpe.stores.sql.engine import Engine, LockTimeout
from euterpe.stores.sql.exchange.claimed_completions import (
    RowsSayMore,
    callback_completions,
    complete_linked,
    complete_simple,
    complete_with_callbacks,
    linked_completions,
)
from euterpe.stores.sql.exchange.simple_jobs import FastPathQueues, SettleBatch, SimpleCompletions
from euterpe.stores.sql.jobs.claim import Claimed, ask_until_free, claim
from euterpe.stores.sql.jobs.ended_jobs import EndedBy, EndReporter
from euterpe.stores.sql.jobs.picking import Picked, pick, take, take_released
from euterpe.stores.sql.jobs.settle import (
    HELD_WAIT_MS,
    LOCKED,
    SettledAs,
    settle_held,
    settle_or_confirm,
)
from euterpe.stores.sql.program import MakeProgram, Program, one

if TYPE_CHECKING:  # Only Postgres has them.
    from euterpe.stores.sql.exchange.keyed_exchange import KeyedExchange
    from euterpe.stores.sql.exchange.one_statement import FastPathResult, OneStatement

ExchangeResult = tuple[list[SettledAs], list[Claim]]
"""What each settlement made of its job, and what was claimed."""
NOTHING: Final = ClaimRequest(worker_id="", limit=0)
NONE_CLAIMED: Final = Claimed([], is_held_up=False)
NO_REPORTS: Final = SettleBatch((), Random())
FULL_PATH_S: Final = 1.0
"""So long no turn is tried in one statement after the full path found rows that are held: whoever holds one may hold
many for long, and each try would cost LOCK_WAIT_MS for nothing."""
SMALL_CLAIM: Final = 100
"""A claim of more jobs may take milliseconds, for which nobody's event loop is to stand still."""


class Exchange:
    """Exchanges on one engine; remembers which queues lately had jobs that need more than the one statement."""

    def __init__(self, engine: Engine, end_reporter: EndReporter) -> None:
        self._engine = engine
        self._end_reporter = end_reporter
        self._fast_path = FastPathQueues()
        self._rows_are_held_until = 0.0

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
        if self._engine.family != "postgres":
            return await self._run_in_steps(batch, request, simple)
        if simple is None or not self._may_claim_fast(request):
            return await self._run_keyed(batch, request)
        if simple and monotonic() < self._rows_are_held_until:
            return await self._write(batch.settlements, request)
        if not self._one_statement.can_settle(simple, request or NOTHING):
            return await self._settle_in_full(batch, request)
        write = self._write_with_ends if simple.have_dependents else None
        try:
            done = await self._one_statement.run(simple, request or NOTHING, write)
        except LockTimeout:
            return await self._run_past_held_rows(batch, request)
        if done.is_all_of(request or NOTHING):
            return [State.COMPLETED] * len(batch), done.claims
        return await self._run_rest(batch, done, request)

    async def _run_keyed(self, batch: SettleBatch, request: ClaimRequest | None) -> ExchangeResult:
        """Jobs with concurrency keys take two statements, if nothing else is to be said of them."""
        keyed = None if monotonic() < self._rows_are_held_until else batch.keyed
        if keyed is None or not self._keyed.may_run(request) or self._one_statement.has_receipt_of(keyed.ids):
            return await self._write(batch.settlements, request, keyed=batch.have_keys)
        try:
            done = await self._keyed.run(keyed, request)
        except LockTimeout:
            return await self._run_past_held_rows(batch, request)
        if done.settled is None:
            return self._observe(request, ([State.COMPLETED] * len(batch), done.claims))
        return self._observe(request, await self._run_rest(batch, done, None))

    async def _run_past_held_rows(self, batch: SettleBatch, request: ClaimRequest | None) -> ExchangeResult:
        states, claims = await self._write(batch.settlements, request, keyed=batch.have_keys)
        if LOCKED in states:
            self._rows_are_held_until = monotonic() + FULL_PATH_S
        return states, claims

    async def _write_with_ends(self, exchange: MakeProgram[FastPathResult]) -> FastPathResult:
        """Dependents may end with what they waited for, and are counted."""
        return await self._end_reporter.write(exchange, EndedBy.WORKER)

    async def _settle_in_full(self, batch: SettleBatch, request: ClaimRequest | None) -> ExchangeResult:
        """The one statement only claims, in the transaction of the settle: by the full path, a claim of jobs that wait
        in chunks would put them onto their rows."""
        if request is None:
            return await self._write(batch.settlements, None)
        family, states = self._engine.family, list[SettledAs]()

        async def write(exchange: MakeProgram[FastPathResult]) -> FastPathResult:
            def program() -> Program[tuple[list[SettledAs], FastPathResult]]:
                settled = yield from settle_or_confirm(batch.settlements, family)
                return settled, (yield from exchange())

            states[:], done = await self._end_reporter.write(program, EndedBy.WORKER)
            return done

        done = await self._one_statement.run(SimpleCompletions(), request, write)
        if done.was_simple:
            return states, done.claims
        _, claims = await self._run_rest(NO_REPORTS, done, request)
        return states, claims

    @cached_property
    def _one_statement(self) -> OneStatement:
        from euterpe.stores.sql.exchange.one_statement import OneStatement

        return OneStatement(self._engine)

    @cached_property
    def _keyed(self) -> KeyedExchange:
        from euterpe.stores.sql.exchange.keyed_exchange import KeyedExchange

        return KeyedExchange(self._end_reporter)

    async def close(self) -> None:
        if "_one_statement" in self.__dict__:
            await self._one_statement.close()

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

    async def _run_in_steps(
        self, batch: SettleBatch, request: ClaimRequest | None, simple: SimpleCompletions | None
    ) -> ExchangeResult:
        """On SQLite."""
        if simple is None or simple.have_dependents:
            linked = linked_completions(batch.finished)
            if linked is None:
                return await self._write(batch.settlements, request, keyed=batch.have_keys)
            released = None if request is None or len(request.queues) > 1 else list[int]()
            return await self._settle_by_claims(batch, request, partial(complete_linked, linked, released), released)
        if simple.with_callbacks:
            with_callbacks = callback_completions(simple.with_callbacks)
            if with_callbacks is None:
                return await self._write(batch.settlements, request)
            return await self._settle_by_claims(
                batch, request, partial(complete_with_callbacks, with_callbacks, simple.without_callbacks())
            )

        def program() -> Program[tuple[list[SettledAs], Picked | list[Claim]]]:
            states: list[SettledAs] = [State.COMPLETED] * len(batch)
            if not (yield from complete_simple(simple)):
                states = yield from settle_or_confirm(batch.settlements, "sqlite")
            return states, (yield from claim_in_steps(request)) if request is not None else []

        # A worker without anything to settle has been idle: it claims what was just submitted.
        is_small = not simple and request is not None and request.total <= SMALL_CLAIM
        return await self._write_in_steps(program, request, is_small=is_small)

    async def _settle_by_claims(
        self,
        batch: SettleBatch,
        request: ClaimRequest | None,
        settle: MakeProgram[None],
        released: list[int] | None = None,
    ) -> ExchangeResult:
        """On SQLite; in full where rows say more than their claims. `released` is where `settle` puts what the claim is
        to let go."""

        def program() -> Program[tuple[list[SettledAs], Picked | list[Claim]]]:
            if released:
                released.clear()  # A program may run again.
            yield from settle()
            states: list[SettledAs] = [State.COMPLETED] * len(batch)
            return states, (yield from claim_in_steps(request, released or ())) if request is not None else []

        try:
            return await self._write_in_steps(program, request)
        except RowsSayMore:
            return await self._write(batch.settlements, request)

    async def _write_in_steps(
        self,
        program: MakeProgram[tuple[list[SettledAs], Picked | list[Claim]]],
        request: ClaimRequest | None,
        *,
        is_small: bool = False,
    ) -> ExchangeResult:
        states, found = await self._end_reporter.write(program, EndedBy.WORKER, is_small=is_small)
        return self._observe(request, (states, found.claims() if isinstance(found, Picked) else found))

    async def _write(
        self, settlements: Sequence[Settlement], request: ClaimRequest | None, *, keyed: bool = False
    ) -> ExchangeResult:
        family = self._engine.family

        def program() -> Program[tuple[list[SettledAs], Claimed]]:
            states = yield from settle_or_confirm(settlements, family)
            claimed = NONE_CLAIMED if request is None else (yield from claim(request, family, may_wait=not keyed))
            return states, claimed

        states, claimed = await self._end_reporter.write(program, EndedBy.WORKER)
        if request is not None and claimed.is_held_up:
            claimed = await ask_until_free(
                lambda: self._end_reporter.write(lambda: claim(request, family), EndedBy.WORKER),
                lambda found: found.is_held_up,
            )
        return self._observe(request, (states, claimed.claims))

    def _observe(self, request: ClaimRequest | None, exchanged: ExchangeResult) -> ExchangeResult:
        if request is not None and self._engine.family == "postgres":
            self._fast_path.observe(request, exchanged[1])
        return exchanged

    def _may_claim_fast(self, request: ClaimRequest | None) -> bool:
        return request is None or self._fast_path.allows(request)


def claim_in_steps(request: ClaimRequest, released: Sequence[int] = ()) -> Program[Picked | list[Claim]]:
    """On SQLite. Plain jobs come as they were picked: the writer thread has more to do than the event loop, which makes
    claims of them. `released` are jobs that this transaction is to let go; most are claimed at once."""
    if len(request.queues) > 1:
        return (yield from claim(request, "sqlite")).claims
    picked = yield from pick(request, request.queues[0], released)
    if picked.is_plain:
        yield from take_released(picked, released) if released else take(picked)
        return picked
    if not released:
        return (yield from claim(request, "sqlite", picked=picked)).claims
    yield one("release_dependents", seqs=list(released))
    return (yield from claim(request, "sqlite")).claims
