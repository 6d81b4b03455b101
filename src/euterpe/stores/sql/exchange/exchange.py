"""What both engines' exchanges promise."""

from __future__ import annotations

from typing import Protocol

from euterpe.model.claims.exchange import ClaimRequest
from euterpe.model.job import Claim
from euterpe.stores.sql.exchange.simple_jobs import SettleBatch
from euterpe.stores.sql.jobs.settle import SettledAs

ExchangeResult = tuple[list[SettledAs], list[Claim]]
"""What each settlement made of its job, and what was claimed."""


class Exchange(Protocol):
    """Settle attempts that ended and claim the next jobs, for workers in the process and over HTTP."""

    async def run(self, batch: SettleBatch, request: ClaimRequest | None) -> ExchangeResult: ...

    async def close(self) -> None: ...
