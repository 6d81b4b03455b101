"""Claims for HTTP workers whose commit may have happened, though its answer was lost.

No worker knows of these jobs, so nobody would run them before their leases are over, and each would have cost an
attempt. On Postgres the claim has the number of its request. On SQLite its jobs are those that these workers got since
then, and that this control plane did not hand out.
"""

from __future__ import annotations

import asyncio
import logging
from random import Random
from time import monotonic
from typing import Final

from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.outcome import Released
from euterpe.model.errors import EuterpeError
from euterpe.model.job import Claim, JobRow
from euterpe.stores.sql.engine import Engine
from euterpe.stores.sql.exchange.exchange import Exchange
from euterpe.stores.sql.exchange.simple_jobs import SettleBatch
from euterpe.stores.sql.exchange.turn import claims_of
from euterpe.stores.sql.program import Program, one
from euterpe.stores.sql.rows import jobs_from
from euterpe.stores.sql.worker_protocol.handed_out import HandedOut

log = logging.getLogger("euterpe.api")

PAUSES_S: Final = (0.0, 0.3, 0.7, 1.0)
"""Before each look. Not one alone: the server may still be at the claim, or take no connection for a moment. Those who
asked wait for their error as long; they would only ask again."""
CLOCKS_US: Final = 1_000_000
"""A claim may have begun so long before we say that it did: two clocks are compared on SQLite."""


class LostClaim:
    """A claim to look for until it is given back."""

    def __init__(self, engine: Engine, exchange: Exchange, handed_out: HandedOut, request: ClaimRequest) -> None:
        self._engine = engine
        self._exchange = exchange
        self._handed_out = handed_out
        self._request = request
        self._began = monotonic()
        self._found: dict[tuple[str, int], Claim] = {}

    async def give_back(self) -> None:
        """Release its jobs, uncharged, as far as the database can be reached. Else their leases run out."""
        for pause_s in PAUSES_S:
            await asyncio.sleep(pause_s)
            try:
                await self._look()
            except EuterpeError as error:
                log.debug("jobs of a lost claim could not be looked for", exc_info=error)
        if self._found:
            log.warning("%d jobs of a claim whose answer was lost were given back unbegun", len(self._found))

    async def _look(self) -> None:
        """What was found once stays the same claim: the fence refuses a second release of it."""
        elapsed_us = int((monotonic() - self._began) * 1_000_000) + CLOCKS_US
        for claim in claims_of(await self._engine.read(lambda: lost_jobs(self._request, elapsed_us))):
            is_new = claim.job.id not in {job_id for job_id, _ in self._found}
            if is_new and not self._handed_out.knows(claim.job.id, claim.job.claim_version):
                self._found[claim.job.id, claim.job.claim_version] = claim
        if self._found:
            reports = [Report(claim, Released()) for claim in self._found.values()]
            await self._exchange.run(SettleBatch(reports, Random()), None)


def lost_jobs(request: ClaimRequest, elapsed_us: int) -> Program[list[JobRow]]:
    worker_ids = sorted({request.worker_id, *request.worker_ids})
    rows = yield one("lost_claims", request=request.number, worker_ids=worker_ids, elapsed_us=elapsed_us)
    return jobs_from(rows)
