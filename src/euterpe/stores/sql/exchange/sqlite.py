"""A worker's exchange on SQLite: one writer, so it may look first and write then, in a few statements of one commit."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from euterpe.model.claims.exchange import ClaimRequest
from euterpe.model.claims.outcome import Settlement
from euterpe.model.job import Claim
from euterpe.model.state import State
from euterpe.stores.sql.exchange.claimed_completions import (
    RowsSayMore,
    callback_completions,
    complete_linked,
    complete_simple,
    complete_with_callbacks,
    linked_completions,
)
from euterpe.stores.sql.exchange.exchange import ExchangeResult
from euterpe.stores.sql.exchange.simple_jobs import SettleBatch
from euterpe.stores.sql.jobs.claim import claim
from euterpe.stores.sql.jobs.ended_jobs import EndedBy, EndReporter
from euterpe.stores.sql.jobs.picking import Picked, pick, take
from euterpe.stores.sql.jobs.settle import SettledAs, settle_or_confirm
from euterpe.stores.sql.program import MakeProgram, Program

SMALL_CLAIM: Final = 100
"""A claim of more jobs may take milliseconds, for which nobody's event loop is to stand still."""


class SqliteExchange:
    def __init__(self, end_reporter: EndReporter) -> None:
        self._end_reporter = end_reporter

    async def run(self, batch: SettleBatch, request: ClaimRequest | None) -> ExchangeResult:
        simple = batch.simple
        if batch.is_over_http and (simple is None or simple.have_dependents or simple.with_callbacks):
            return await self._write(batch.settlements, request)  # The others know no hash of a report.
        if simple is None or simple.have_dependents:
            linked = linked_completions(batch.finished)
            if linked is None:
                return await self._write(batch.settlements, request)
            return await self._settle_by_claims(batch, request, partial(complete_linked, linked))
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
        return await self._write_in_steps(program, is_small=is_small)

    async def _settle_by_claims(
        self,
        batch: SettleBatch,
        request: ClaimRequest | None,
        settle: MakeProgram[None],
    ) -> ExchangeResult:
        """Falls back to the full path if a row changed after its claim."""

        def program() -> Program[tuple[list[SettledAs], Picked | list[Claim]]]:
            yield from settle()
            states: list[SettledAs] = [State.COMPLETED] * len(batch)
            return states, (yield from claim_in_steps(request)) if request is not None else []

        try:
            return await self._write_in_steps(program)
        except RowsSayMore:
            return await self._write(batch.settlements, request)

    async def _write_in_steps(
        self, program: MakeProgram[tuple[list[SettledAs], Picked | list[Claim]]], *, is_small: bool = False
    ) -> ExchangeResult:
        states, found = await self._end_reporter.write(program, EndedBy.WORKER, is_small=is_small)
        return states, found.claims() if isinstance(found, Picked) else found

    async def _write(self, settlements: Sequence[Settlement], request: ClaimRequest | None) -> ExchangeResult:
        def program() -> Program[ExchangeResult]:
            states = yield from settle_or_confirm(settlements, "sqlite")
            return states, [] if request is None else (yield from claim(request))

        return await self._end_reporter.write(program, EndedBy.WORKER)

    async def close(self) -> None:
        """Nothing is held."""


def claim_in_steps(request: ClaimRequest) -> Program[Picked | list[Claim]]:
    """Plain jobs come as they were picked: the writer thread has more to do than the event loop, which makes claims of
    them."""
    if len(request.queues) > 1:
        return (yield from claim(request))
    picked = yield from pick(request, request.queues[0])
    if picked.is_plain:
        yield from take(picked)
        return picked
    return (yield from claim(request, picked=picked))
