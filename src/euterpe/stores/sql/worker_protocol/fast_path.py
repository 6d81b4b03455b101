"""The common traffic of HTTP workers on Postgres, one statement each: plain jobs that completed, plain jobs to run.

Whatever needs more (dependents, callbacks, concurrency keys, failures, replays) is left for the general programs of
`wire`. Where brief statements lately did nothing, the general way is taken at once.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from uuid import UUID

from euterpe.model.claims.exchange import ClaimRequest
from euterpe.model.claims.outcome import Success
from euterpe.model.claims.worker_reports import Settled, TokenReply, TokenReport
from euterpe.model.job import Claim, JobRow, Lease
from euterpe.stores.sql.engine import Engine
from euterpe.stores.sql.jobs.fast_path import PlainLines
from euterpe.stores.sql.program import Program, each, one
from euterpe.stores.sql.rows import URGENCY, job_from


class WorkerProtocolFastPath:
    """The brief statements, and where they pay."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._can = engine.family == "postgres"
        self._completions_are_plain = True
        self._lines = PlainLines()

    async def claim_for(self, request: ClaimRequest, worker_ids: Sequence[str]) -> list[Claim] | None:
        """None: the general way has to be taken."""
        if not self._can or not self._lines.may_be(request):
            return None
        claims = await self._engine.write_one(lambda: claim_plain(request, worker_ids))
        if claims is None:
            self._lines.was_not(request)
        return claims

    def saw_claims(self, request: ClaimRequest, claims: Sequence[Claim]) -> None:
        """The general way brought these."""
        self._lines.saw(request, claims)

    async def complete(self, reports: Sequence[TokenReport]) -> dict[int, Settled]:
        """What could be written briefly, by its place among the reports."""
        if not self._can or not self._completions_are_plain:
            return {}
        first: dict[str, int] = {}
        for place, report in enumerate(reports):
            if isinstance(report.outcome, Success) and report.log is None:
                # Of two reports on one job the statement would take any; the other one is a matter for the general way.
                first.setdefault(report.job_id, place)
        if not first:
            return {}
        places = [first[job_id] for job_id in sorted(first)]
        settled = await self._engine.write_one(lambda: complete_plain([reports[place] for place in places]))
        self._completions_are_plain = bool(settled)
        return {first[job_id]: job for job_id, job in settled.items()}

    def saw_ends(self, replies: Sequence[TokenReply]) -> None:
        """The general way brought these."""
        if any(reply.settled is not None and reply.settled.is_plain for reply in replies):
            self._completions_are_plain = True


def claim_plain(request: ClaimRequest, worker_ids: Sequence[str]) -> Program[list[Claim] | None]:
    """None: the line was not plain, and nothing was taken."""
    secret = secrets.token_bytes(32)
    rows = yield one(
        "claim_for",
        queue=request.queues[0],
        types=None if request.types is None else list(request.types),
        worker_ids=list(worker_ids),
        secret=secret,
        lease_ttl_us=request.lease_ttl_us,
    )
    if rows[0][0] is False:
        return None
    jobs = [job_from(row[1:]) for row in rows if row[1] is not None]
    jobs.sort(key=URGENCY)
    return [
        Claim(job, Lease(job.id, job.claim_version, job.lease_expires_at or 0, token_of(secret, job))) for job in jobs
    ]


def token_of(secret: bytes, job: JobRow) -> str:
    """A lease's own token, which nobody can tell from those of its neighbours: the secret of their claim is kept by
    nobody. `claim_for.sql` makes the same one, to store its hash."""
    named = UUID(job.id).bytes + job.claim_version.to_bytes(8, "big")
    return hashlib.sha256(secret + named).hexdigest()


def complete_plain(reports: Sequence[TokenReport]) -> Program[dict[str, Settled]]:
    """Those that were written, by job; in the order of ids, as every statement that locks many jobs."""
    rows = yield each(
        "complete_by_token",
        id=[r.job_id for r in reports],
        claim_version=[r.claim_version for r in reports],
        token_hash=[r.token_hash for r in reports],
        result=[r.outcome.result if isinstance(r.outcome, Success) else None for r in reports],
        outcome_hash=[r.outcome_hash for r in reports],
    )
    return {row[0]: Settled(row[1], row[2]) for row in rows}
