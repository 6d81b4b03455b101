"""Attempts that complete their jobs inside their handlers' own transactions.

The worker does not see such a commit. When the handler is over it asks the database: what is committed is not settled
again, and what is not committed is settled the ordinary way.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any, Final

from euterpe.model.claims.exchange import (
    COMPLETED,
    LEASE_TTL_US,
    ClaimRequest,
    HeartbeatReply,
    ProgressUpdate,
    Report,
    SettleResult,
)
from euterpe.model.claims.outcome import Failed, Outcome, Success
from euterpe.model.errors import StoreUnavailable
from euterpe.model.failures.failure import Category, Failure
from euterpe.model.job import Claim, Lease
from euterpe.ports import CallerCompletions, Claims
from euterpe.worker.handling.handlers import Handlers, encode_result

log = logging.getLogger("euterpe.worker")

ASK_AGAIN_S: Final = 0.5
NOT_AWAITED: Final = Failure(
    Category.PERMANENT, "ctx.complete() was not awaited, so nothing was completed; await it", "completion_not_awaited"
)
NOT_COMMITTED: Final = Failure(
    Category.TEMPORARY,
    "ctx.complete() ran, but its transaction was not committed before the handler returned; commit it, or raise",
    "completion_not_committed",
)


class HandlerCompletion:
    """A completion on a connection. Await it in a coroutine; in a plain `def` it is through when the call returns."""

    __slots__ = ("_run",)

    def __init__(self, run: Callable[[], Awaitable[None]] | None = None) -> None:
        self._run = run

    def __await__(self) -> Generator[Any, None, None]:
        run, self._run = self._run, None
        if run is not None:
            yield from run().__await__()


class _Begun:
    """What one attempt told of its completion."""

    __slots__ = ("ran", "result")

    def __init__(self) -> None:
        self.ran = False
        self.result: bytes | None = None


class HandlerCompletions:
    """The completions of one worker, and its claims: what a handler has committed is not settled again."""

    def __init__(self, claims: Claims, store: CallerCompletions, handlers: Handlers, result_limit: int) -> None:
        self._claims = claims
        self._store = store
        self._handlers = handlers
        self._result_limit = result_limit
        self.begun: dict[str, _Begun] = {}
        """By attempt: handlers that have called `ctx.complete` and are not over."""
        self._committed: set[str] = set()

    # --- the handler's side ---------------------------------------------------------------------------

    def begin(
        self, claim: Claim, connection: object, value: object, before: Callable[[], Awaitable[None]], log: str | None
    ) -> HandlerCompletion:
        """From a coroutine: it runs when it is awaited, after `before`. `log`: what it logged until now."""
        begun, result = self._begin(claim, value)

        async def run() -> None:
            await before()
            begun.ran, begun.result = True, result
            await self._store.complete_on(Report(claim, Success(result), log=log), connection)

        return HandlerCompletion(run)

    def run(self, claim: Claim, connection: object, value: object, log: str | None) -> HandlerCompletion:
        """From a plain `def`: at once, on its thread."""
        begun, result = self._begin(claim, value)
        begun.ran, begun.result = True, result
        self._store.complete_on_sync(Report(claim, Success(result), log=log), connection)
        return HandlerCompletion()

    def _begin(self, claim: Claim, value: object) -> tuple[_Begun, bytes]:
        result = encode_result(self._handlers[claim.job.type], value, self._result_limit)
        return self.begun.setdefault(claim.lease.attempt_id, _Begun()), result

    # --- the worker's side ----------------------------------------------------------------------------

    async def outcome_of(self, claim: Claim, outcome: Outcome | None) -> Outcome | None:
        """What became of an attempt whose handler is over: Success if its completion is committed, whatever the
        handler did afterwards. While the database is away it is asked again."""
        begun = self.begun.pop(claim.lease.attempt_id, None)
        if begun is None or outcome is None:
            return outcome
        if not begun.ran:
            return Failed(NOT_AWAITED) if isinstance(outcome, Success) else outcome
        try:
            if await self._is_committed(claim):
                self._committed.add(claim.lease.attempt_id)
                return Success(begun.result)
        except asyncio.CancelledError:
            log.info("it is not known whether a handler committed its completion; the fence decides")
        return Failed(NOT_COMMITTED) if isinstance(outcome, Success) else outcome

    async def _is_committed(self, claim: Claim) -> bool:
        while True:
            try:
                return (await self._store.completed([claim]))[0]
            except StoreUnavailable:
                await asyncio.sleep(ASK_AGAIN_S)

    # --- Claims ---------------------------------------------------------------------------------------

    async def claim(self, request: ClaimRequest) -> list[Claim]:
        return await self._claims.claim(request)

    async def heartbeat(self, leases: Sequence[Lease], lease_ttl_us: int = LEASE_TTL_US) -> list[HeartbeatReply]:
        return await self._claims.heartbeat(leases, lease_ttl_us)

    async def check_leases(self, leases: Sequence[Lease]) -> list[HeartbeatReply]:
        return await self._claims.check_leases(leases)

    async def update_progress(self, updates: Sequence[ProgressUpdate]) -> list[bool]:
        return await self._claims.update_progress(updates)

    async def settle(self, finished: Sequence[Report]) -> list[SettleResult]:
        if not self._committed:
            return await self._claims.settle(finished)
        rest = [f for f in finished if f.claim.lease.attempt_id not in self._committed]
        return self._with_committed(finished, await self._claims.settle(rest) if rest else [])

    async def exchange(
        self, finished: Sequence[Report], request: ClaimRequest | None
    ) -> tuple[list[SettleResult], list[Claim]]:
        if not self._committed:
            return await self._claims.exchange(finished, request)
        rest = [f for f in finished if f.claim.lease.attempt_id not in self._committed]
        verdicts, claims = await self._claims.exchange(rest, request) if rest or request is not None else ([], [])
        return self._with_committed(finished, verdicts), claims

    def _with_committed(self, finished: Sequence[Report], verdicts: Sequence[SettleResult]) -> list[SettleResult]:
        left = iter(verdicts)
        names = [f.claim.lease.attempt_id for f in finished]
        answers = [COMPLETED if name in self._committed else next(left) for name in names]
        self._committed.difference_update(names)
        return answers
