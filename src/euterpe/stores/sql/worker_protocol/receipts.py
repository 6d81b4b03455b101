"""Claims of plain jobs for HTTP workers that stand on receipts, and their completions (ADR 017, Postgres).

Every lease has a token of its own. The receipt keeps their hashes, so any process can check one, and puts them onto the
rows with the claims. The process that claimed knows them, too: what is completed under a token that it gave is one
write of the job's row. What it does not know goes by the full path in `store.py`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from hmac import compare_digest
from time import monotonic
from typing import Final, NamedTuple

from euterpe.model.claims.exchange import ClaimRequest
from euterpe.model.claims.outcome import Success
from euterpe.model.claims.worker_reports import RECEIPT_MARK, TokenReport, hash_token
from euterpe.model.job import Claim, JobRow, Lease
from euterpe.model.state import State
from euterpe.stores.sql.engine import Engine, LockTimeout
from euterpe.stores.sql.exchange.one_statement import FRONT, LOCK_WAIT_MS, RECEIPT
from euterpe.stores.sql.exchange.receipts import Receipts, ReceiptWatch
from euterpe.stores.sql.exchange.simple_jobs import is_simple_to_claim
from euterpe.stores.sql.jobs.effects import as_completed, insert_events
from euterpe.stores.sql.program import Program, Row, one
from euterpe.stores.sql.rows import jobs_from, neighbours_from, sort_by_urgency, taken_from
from euterpe.stores.sql.worker_protocol.tokens import token_of

BEFORE: Final = -4
"""How many numbers of the receipt stand before the first of a job's neighbours, and which number that one has."""
FIRST: Final = -2
TOKEN_BYTES: Final = 32
NO_OVERRUN_US: Final = 0
"""Nobody on this side can stop a handler over HTTP: its deadline itself bounds the lease."""


class HeldByToken(NamedTuple):
    """A claim on a receipt of this process."""

    job: JobRow
    token_hash: bytes


class TokenReceipts(Receipts):
    """Receipts for HTTP workers, with the tokens that were given out."""

    def __init__(self) -> None:
        super().__init__()
        self._held: dict[str, HeldByToken] = {}

    def hold(self, receipt: int, held: Mapping[str, HeldByToken], now: float) -> None:
        self._held.update(held)
        self.add(receipt, list(held), now)

    def completable(self, report: TokenReport) -> JobRow | None:
        """The job that it completes, if nothing but an event follows from that as far as its claim could tell."""
        held = self._held.get(report.job_id)
        if held is None or report.claim_version != held.job.claim_version:
            return None
        job = held.job
        if not is_simple_to_claim(job) or job.has_dependents or job.stages_json is not None:
            return None
        return job if compare_digest(held.token_hash, report.token_hash) else None

    def settled(self, job_ids: Iterable[str]) -> None:
        ids = list(job_ids)
        super().settled(ids)
        for job_id in ids:
            self._held.pop(job_id, None)

    def forget(self, receipts: Iterable[int]) -> None:
        super().forget(receipts)
        self._held = {job_id: held for job_id, held in self._held.items() if self.cover_all((job_id,))}


class ClaimedByReceipt(NamedTuple):
    """What a claim brought; None: not all jobs that are next were plain, and nothing was taken."""

    claims: list[Claim] | None
    has_chunks: bool
    receipt: int | None
    held: dict[str, HeldByToken]


class ReceiptPath:
    """Claims and completions by receipt on one engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._receipts = TokenReceipts()
        self._watch = ReceiptWatch(engine, self._receipts)

    async def claim(self, request: ClaimRequest, secret: bytes) -> tuple[list[Claim] | None, bool]:
        """For the one worker of the request. And whether chunks are left."""
        done = await self._engine.write_one(lambda: claim_for_receipt(request, secret))
        if done.receipt is not None:
            self._receipts.hold(done.receipt, done.held, monotonic())
            self._watch.begin()
        return done.claims, done.has_chunks

    async def complete(self, reports: Sequence[TokenReport]) -> dict[str, JobRow]:
        """What was written of these, which are on different jobs; by job."""
        known = {report.job_id: job for report in reports if (job := self._receipts.completable(report)) is not None}
        if not known:
            return {}
        ordered = sorted((report for report in reports if report.job_id in known), key=lambda report: report.job_id)
        have_callbacks = any(job.callback_url is not None for job in known.values())
        write = self._engine.write if have_callbacks else self._engine.write_one
        try:
            settled = await write(lambda: complete_by_receipt(ordered, known))
        except LockTimeout:
            return {}  # Somebody holds a row; the full path passes over it.
        self._receipts.settled(settled)
        return {job_id: known[job_id] for job_id in settled}

    async def close(self) -> None:
        await self._watch.close()


def receipt_tokens(secret: bytes, count: int) -> list[str]:
    """The tokens of a receipt, in the order of its numbers. Nobody can tell one from its neighbours: the secret of
    their claim is kept by nobody."""
    text = hashlib.shake_256(secret).hexdigest(TOKEN_BYTES * count)
    digits = 2 * TOKEN_BYTES
    return [RECEIPT_MARK + text[at : at + digits] for at in range(0, digits * count, digits)]


def claim_for_receipt(request: ClaimRequest, secret: bytes) -> Program[ClaimedByReceipt]:
    tokens = receipt_tokens(secret, request.total)
    hashes = [hash_token(token) for token in tokens]
    rows = yield one(
        "claim_for_receipt",
        queue=request.queues[0],
        types=None if request.types is None else list(request.types),
        worker_id=request.worker_id,
        worker_ids=[],
        secret=secret,
        token_hashes=b"".join(hashes),
        lease_ttl_us=request.lease_ttl_us,
        limit=request.limit,
        prefetch=request.prefetch,
        prefetch_types=list(request.prefetch_types),
        any=False,
    )
    is_plain, has_chunks = rows[0][FRONT - 2 : FRONT]
    if is_plain is False:
        return ClaimedByReceipt(None, has_chunks, None, {})
    of_chunks = [row for row in rows if row[RECEIPT] is not None]
    received = yield from _received(of_chunks, request)
    places = {row[FRONT + 1]: row[BEFORE] + row[FRONT] - row[FIRST] for row in of_chunks}
    on_rows = [
        taken_from(row, request.worker_id, request.lease_ttl_us, NO_OVERRUN_US)
        for row in rows
        if row[RECEIPT] is None and row[FRONT] is not None
    ]
    jobs = received + on_rows
    sort_by_urgency(jobs)
    claims = []
    for job in jobs:
        place = places.get(job.id)
        token = token_of(secret, job) if place is None else tokens[place]
        claims.append(Claim(job, Lease(job.id, job.claim_version, job.lease_expires_at or 0, token)))
    held = {job.id: HeldByToken(job, hashes[places[job.id]]) for job in received}
    return ClaimedByReceipt(claims, has_chunks, of_chunks[0][RECEIPT] if of_chunks else None, held)


def _received(of_chunks: Sequence[Row], request: ClaimRequest) -> Program[list[JobRow]]:
    try:
        return neighbours_from(of_chunks, request.worker_id, request.lease_ttl_us, NO_OVERRUN_US)
    except KeyError:
        # The first of some neighbours is gone: an older release ended it in its chunk, or somebody deleted its row.
        found = yield one("get_jobs", ids=[row[FRONT + 1] for row in of_chunks])
        return [job for job in jobs_from(found) if job.state is State.RUNNING]


def complete_by_receipt(reports: Sequence[TokenReport], jobs: Mapping[str, JobRow]) -> Program[list[str]]:
    """Those that were written. In the order of ids, as every statement that locks many jobs."""
    results = [r.outcome.result if isinstance(r.outcome, Success) else None for r in reports]
    uniform = results.count(results[0]) == len(results)
    ids = [r.job_id for r in reports]
    workers = [jobs[job_id].worker_id for job_id in ids]
    with_callbacks = [job_id for job_id in ids if jobs[job_id].callback_url is not None]
    ((count, written),) = yield one(
        "complete_by_receipt",
        ids=",".join(ids),
        started=",".join([str(jobs[job_id].started_at) for job_id in ids]),
        token_hashes=b"".join([r.token_hash for r in reports]),
        outcome_hashes=b"".join([r.outcome_hash for r in reports]),
        result=results[0] if uniform else None,
        results=[] if uniform else results,
        worker_id=workers[0],
        worker_ids=[] if workers.count(workers[0]) == len(workers) else workers,
        settling=len(ids),
        wait_ms=LOCK_WAIT_MS,
        with_callbacks=bool(with_callbacks),
    )
    settled: list[str] = ids if count == len(ids) else (written or [])
    if with_callbacks and (ends := set(with_callbacks).intersection(settled)):
        ((at,),) = yield one("completed_at", ids=[min(ends)])
        ended = zip(ids, results, strict=True)
        yield from insert_events([as_completed(jobs[job_id], result, at) for job_id, result in ended if job_id in ends])
    return settled
