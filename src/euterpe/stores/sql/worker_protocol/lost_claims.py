"""Claims for HTTP workers whose commit may have happened, though its answer was lost.

No worker knows their tokens, so nobody would run these jobs before their leases are over, and each would have cost an
attempt. Their tokens tell them from what the same workers do run: they are made of the secret of that one claim.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from random import Random
from typing import Final, NamedTuple

from euterpe.model.claims.outcome import Released
from euterpe.model.claims.outcome import settle as decide
from euterpe.model.claims.worker_reports import hash_token
from euterpe.model.errors import EuterpeError
from euterpe.model.job import JobRow
from euterpe.stores.sql.jobs.ended_jobs import EndedBy, EndReporter
from euterpe.stores.sql.jobs.settle import settle
from euterpe.stores.sql.program import Program, each, one
from euterpe.stores.sql.rows import job_from, jobs_from
from euterpe.stores.sql.statements import Family
from euterpe.stores.sql.worker_protocol.receipts import receipt_tokens
from euterpe.stores.sql.worker_protocol.tokens import token_of

log = logging.getLogger("euterpe.api")

PAUSES_S: Final = (0.0, 0.3, 0.7, 1.0)
"""Before each look. Not one alone: the server may still be at the claim, or take no connection for a moment. Those who
asked wait for their error as long; they would only ask again."""


class LostClaim(NamedTuple):
    worker_ids: Sequence[str]
    secret: bytes
    """Of which its tokens are made."""
    by_receipt: int
    """How many leases it may have on a receipt."""


async def give_back_lost(end_reporter: EndReporter, lost: LostClaim, family: Family, rng: Random) -> None:
    """Released, uncharged, as far as the database can be reached. Else their leases run out."""
    count = 0
    for pause_s in PAUSES_S:
        await asyncio.sleep(pause_s)
        try:
            count += await end_reporter.write(lambda: release_lost(lost, family, rng), EndedBy.WORKER)
        except EuterpeError as error:
            log.debug("jobs of a lost claim could not be looked for", exc_info=error)
    if count:
        log.warning("%d jobs of a claim whose answer was lost were given back unbegun", count)


def release_lost(lost: LostClaim, family: Family, rng: Random) -> Program[int]:
    held: list[JobRow] = []
    for worker_id in sorted(set(lost.worker_ids)):
        # On Postgres the receipts of the worker go onto rows first.
        held += jobs_from((yield one("claims_of_worker", worker_id=worker_id)))
    if not held:
        return 0
    rows = yield each(
        "claim_by_token",
        id=[job.id for job in held],
        token_hash=[hash_token(token_of(lost.secret, job)) for job in held],
    )
    found = [job_from(list(row)[:-2]) for row in rows]
    if lost.by_receipt and family == "postgres":
        hashes = [hash_token(token) for token in receipt_tokens(lost.secret, lost.by_receipt)]
        found += jobs_from((yield one("claims_by_tokens", ids=[job.id for job in held], token_hashes=hashes)))
    found.sort(key=lambda job: job.id)
    return len((yield from settle([decide(job, Released(), rng) for job in found], family)))
