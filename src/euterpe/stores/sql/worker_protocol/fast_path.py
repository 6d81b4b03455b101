"""The fast path of HTTP workers on Postgres: one statement completes simple jobs, one claims simple jobs.

What needs more (dependents, callbacks, concurrency keys, failures, replays) is left to the full path in `store.py`.
Where the fast path lately did nothing, the full path is taken at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from euterpe.model.claims.exchange import ClaimRequest
from euterpe.model.claims.outcome import Success
from euterpe.model.claims.worker_reports import Settled, TokenReply, TokenReport
from euterpe.model.job import Claim, Lease
from euterpe.stores.sql.engine import Engine
from euterpe.stores.sql.exchange.simple_jobs import FastPathQueues
from euterpe.stores.sql.jobs.claim import ask_until_free
from euterpe.stores.sql.program import Program, one
from euterpe.stores.sql.rows import job_from, sort_by_urgency
from euterpe.stores.sql.worker_protocol.receipts import ReceiptPath
from euterpe.stores.sql.worker_protocol.tokens import token_of


class WorkerProtocolFastPath:
    """The two statements, and whether they are worth a try."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._can = engine.family == "postgres"
        self._completions_are_simple = True
        self._queues = FastPathQueues()
        self._chunked: set[str] = set()
        self._receipts = ReceiptPath(engine)

    async def close(self) -> None:
        await self._receipts.close()

    async def claim_for(self, request: ClaimRequest, worker_ids: Sequence[str], secret: bytes) -> list[Claim] | None:
        """None: the full path has to be taken."""
        if not self._can or not self._queues.allows(request):
            return None
        (queue,) = request.queues
        if queue not in self._chunked:
            claims, has_chunks = await self._engine.write_one(lambda: claim_simple(request, worker_ids, secret))
            if not has_chunks:
                return self._unless_excluded(request, claims)
            self._chunked.add(queue)
        claims, has_chunks = await ask_until_free(
            lambda: self._claim_from_chunks(request, worker_ids, secret),
            lambda answer: answer[0] == [] and answer[1] and request.limit > 0,
        )
        if not has_chunks:
            self._chunked.discard(queue)
        return self._unless_excluded(request, claims)

    async def has_jobs_for_each(self, request: ClaimRequest) -> bool:
        """Whether the chunks of its queue have as many jobs as the request has places. Then each of several workers
        may claim apart, by a receipt of its own, and none takes what another one waits for."""
        if not self._can or not self._queues.allows(request) or request.queues[0] not in self._chunked:
            return False
        return await self._engine.read(lambda: count_in_chunks(request)) >= request.total

    async def _claim_from_chunks(
        self, request: ClaimRequest, worker_ids: Sequence[str], secret: bytes
    ) -> tuple[list[Claim] | None, bool]:
        """By a receipt where all places are of one worker: a receipt names its owner."""
        if request.by_receipt and worker_ids.count(worker_ids[0]) == len(worker_ids):
            return await self._receipts.claim(request, secret)
        return await self._engine.write_one(lambda: claim_simple(request, worker_ids, secret, from_chunks=True))

    def _unless_excluded(self, request: ClaimRequest, claims: list[Claim] | None) -> list[Claim] | None:
        if claims is None:
            self._queues.exclude(request)
        return claims

    def observe_claims(self, request: ClaimRequest, claims: Sequence[Claim]) -> None:
        """The full path brought these."""
        self._queues.observe(request, claims)

    async def complete(self, reports: Sequence[TokenReport]) -> dict[int, Settled]:
        """What the fast path wrote, by its place among the reports."""
        if not self._can:
            return {}
        first: dict[str, int] = {}
        for place, report in enumerate(reports):
            if isinstance(report.outcome, Success) and report.log is None:
                # Of two reports on one job the statement would take any; the other one goes by the full path.
                first.setdefault(report.job_id, place)
        settled = await self._complete_on_receipts([reports[place] for place in first.values()])
        rest = [reports[first[job_id]] for job_id in sorted(first) if job_id not in settled]
        if rest and self._completions_are_simple:
            on_rows = await self._engine.write_one(lambda: complete_simple(rest))
            self._completions_are_simple = bool(on_rows)
            settled |= on_rows
        return {first[job_id]: job for job_id, job in settled.items()}

    async def _complete_on_receipts(self, reports: Sequence[TokenReport]) -> dict[str, Settled]:
        completed = await self._receipts.complete(reports)
        return {
            job_id: Settled(job.queue, job.type, job.started_at, job.callback_url is not None)
            for job_id, job in completed.items()
        }

    def observe_replies(self, replies: Sequence[TokenReply]) -> None:
        """The full path brought these."""
        if any(reply.settled is not None and reply.settled.is_simple for reply in replies):
            self._completions_are_simple = True


def count_in_chunks(request: ClaimRequest) -> Program[int]:
    types = None if request.types is None else list(request.types)
    ((count,),) = yield one("chunk_jobs", queue=request.queues[0], types=types, total=request.total)
    return int(count)


def claim_simple(
    request: ClaimRequest, worker_ids: Sequence[str], secret: bytes, *, from_chunks: bool = False
) -> Program[tuple[list[Claim] | None, bool]]:
    """None: not all jobs that are next were simple, and nothing was taken. And whether the queue has chunks (ADR 017):
    those are taken by a statement of their own."""
    uniform = worker_ids.count(worker_ids[0]) == len(worker_ids)
    asked = {
        "queue": request.queues[0],
        "types": None if request.types is None else list(request.types),
        "worker_id": worker_ids[0],
        "worker_ids": [] if uniform else list(worker_ids),
        "secret": secret,
        "lease_ttl_us": request.lease_ttl_us,
        "limit": request.limit,
        "prefetch": request.prefetch,
        "prefetch_types": list(request.prefetch_types),
    }
    if from_chunks:
        rows = yield one("claim_for_chunks", **asked, any=False)
    else:
        rows = yield one("claim_for", **asked)
    is_plain, has_chunks = rows[0][:2]
    if is_plain is False:
        return None, has_chunks
    jobs = [job_from(row[2:]) for row in rows if row[2] is not None]
    sort_by_urgency(jobs)
    return [
        Claim(job, Lease(job.id, job.claim_version, job.lease_expires_at or 0, token_of(secret, job))) for job in jobs
    ], has_chunks


def complete_simple(reports: Sequence[TokenReport]) -> Program[dict[str, Settled]]:
    """Those that were written, by job; in the order of ids, as every statement that locks many jobs."""
    # Lists as one value each: the driver looks at every element of an array three times, in Python.
    results = [r.outcome.result if isinstance(r.outcome, Success) else None for r in reports]
    uniform = results.count(results[0]) == len(results)
    rows = yield one(
        "complete_by_token",
        ids=",".join([r.job_id for r in reports]),
        claim_versions=",".join([str(r.claim_version) for r in reports]),
        token_hashes=b"".join([r.token_hash for r in reports]),
        outcome_hashes=b"".join([r.outcome_hash for r in reports]),
        result=results[0] if uniform else None,
        results=[] if uniform else results,
    )
    return {row[0]: Settled(row[1], row[2], row[3]) for row in rows}
