"""The fast path of HTTP workers on Postgres: one statement completes simple jobs, one claims simple jobs.

What needs more (dependents, callbacks, concurrency keys, failures, replays) is left to the full path in `store.py`.
Where the fast path lately did nothing, the full path is taken at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from uuid import UUID

from euterpe.model.claims.exchange import ClaimRequest
from euterpe.model.claims.outcome import Success
from euterpe.model.claims.worker_reports import Settled, TokenReply, TokenReport
from euterpe.model.job import Claim, JobRow, Lease
from euterpe.stores.sql.engine import Engine
from euterpe.stores.sql.jobs.simple_jobs import FastPathQueues
from euterpe.stores.sql.program import Program, each, one
from euterpe.stores.sql.rows import URGENCY, job_from


class WorkerProtocolFastPath:
    """The two statements, and whether they are worth a try."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._can = engine.family == "postgres"
        self._completions_are_simple = True
        self._queues = FastPathQueues()

    async def claim_for(self, request: ClaimRequest, worker_ids: Sequence[str], secret: bytes) -> list[Claim] | None:
        """None: the full path has to be taken."""
        if not self._can or not self._queues.allows(request):
            return None
        claims = await self._engine.write_one(lambda: claim_simple(request, worker_ids, secret))
        if claims is None:
            self._queues.exclude(request)
        return claims

    def observe_claims(self, request: ClaimRequest, claims: Sequence[Claim]) -> None:
        """The full path brought these."""
        self._queues.observe(request, claims)

    async def complete(self, reports: Sequence[TokenReport]) -> dict[int, Settled]:
        """What the fast path wrote, by its place among the reports."""
        if not self._can or not self._completions_are_simple:
            return {}
        first: dict[str, int] = {}
        for place, report in enumerate(reports):
            if isinstance(report.outcome, Success) and report.log is None:
                # Of two reports on one job the statement would take any; the other one goes by the full path.
                first.setdefault(report.job_id, place)
        if not first:
            return {}
        places = [first[job_id] for job_id in sorted(first)]
        settled = await self._engine.write_one(lambda: complete_simple([reports[place] for place in places]))
        self._completions_are_simple = bool(settled)
        return {first[job_id]: job for job_id, job in settled.items()}

    def observe_replies(self, replies: Sequence[TokenReply]) -> None:
        """The full path brought these."""
        if any(reply.settled is not None and reply.settled.is_simple for reply in replies):
            self._completions_are_simple = True


def claim_simple(request: ClaimRequest, worker_ids: Sequence[str], secret: bytes) -> Program[list[Claim] | None]:
    """None: not all jobs that are next were simple, and nothing was taken."""
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


def complete_simple(reports: Sequence[TokenReport]) -> Program[dict[str, Settled]]:
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
