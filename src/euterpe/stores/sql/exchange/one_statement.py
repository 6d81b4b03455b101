"""The fast path of a worker's exchange on Postgres: simple jobs are settled and claimed by one statement.

By `exchange`, or by `exchange_chunks` where a queue has chunks or a completed job runs under a receipt (ADR 017).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from time import monotonic
from typing import Final

import msgspec

from euterpe.model.claims.exchange import ClaimRequest
from euterpe.model.job import Claim, JobRow, Lease
from euterpe.model.state import State
from euterpe.stores.sql.engine import Engine
from euterpe.stores.sql.exchange.receipts import Receipts, ReceiptWatch
from euterpe.stores.sql.exchange.simple_jobs import SimpleCompletions
from euterpe.stores.sql.jobs.claim import CHUNK_WAITS_S
from euterpe.stores.sql.jobs.effects import KINDS, apply_effects, group_uniform, insert_completions
from euterpe.stores.sql.jobs.settle import ClaimKey
from euterpe.stores.sql.program import Program, Row, one
from euterpe.stores.sql.rows import jobs_from, neighbours_from, sort_by_urgency, taken_from

FRONT: Final = 5
"""Columns of `exchange.sql` in front of a job's; `exchange_chunks.sql` has three more behind it."""
RECEIPT: Final = -3
LOCK_WAIT_MS: Final = 50
"""How long the one statement waits for a row that somebody holds. Two workers' statements hold a row for milliseconds;
who holds it longer is somebody else, and the full path skips what they hold. Much shorter than the server's
`deadlock_timeout`: two statements that wait for each other come to this end, too."""
TRIES_FOR_MORE: Final = 4
"""A claim that has found jobs asks no more often for those that its slots are free for."""


Write = Callable[[Callable[[], Program["FastPathResult"]]], Awaitable["FastPathResult"]]
"""What runs an exchange: an engine's `write` or `write_one`, or one that adds more to its transaction."""


class OneStatement:
    """Exchanges of simple jobs on one engine; remembers which queues have chunks, and the receipts of its claims."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._chunked: set[str] = set()
        self._receipts = Receipts()
        self._watch = ReceiptWatch(engine, self._receipts)

    def can_settle(self, simple: SimpleCompletions, request: ClaimRequest) -> bool:
        """Whether it can settle them, as far as can be told. Of jobs with a callback only those under receipts: of
        others, the rows may say more than their claims. Jobs with dependents only where there are no chunks."""
        if simple.have_dependents:
            return request.queues[0] not in self._chunked and not self._receipts.cover_any(simple.ids)
        return not simple.with_callbacks or self._receipts.cover_all(job.id for job, _ in simple.with_callbacks)

    def has_receipt_of(self, ids: Sequence[str]) -> bool:
        """Whether one of them is not on its row."""
        return self._receipts.cover_any(ids)

    async def run(self, simple: SimpleCompletions, request: ClaimRequest, write: Write | None = None) -> FastPathResult:
        """By the statement that knows chunks and receipts only where there are any: it costs a small exchange more.

        `write` runs the exchange in a transaction of the caller's making."""
        write = write or (self._engine.write if simple.with_callbacks else self._engine.write_one)
        queue = request.queues[0]
        if queue not in self._chunked and not self._receipts.cover_any(simple.ids):
            exchange = releasing_exchange if simple.have_dependents else fast_exchange
            done = await write(lambda: exchange(simple, request))
            if not done.has_chunks:
                return done
            self._chunked.add(queue)
            return done.with_claims_of(await self._claim_chunks(request))
        done = await self._exchange_chunks(simple, request, write)
        if done.comes_short_of(request):
            done = done.with_claims_of(await self._claim_chunks(request.after(len(done.claims))))
        return done

    async def _claim_chunks(self, request: ClaimRequest) -> FastPathResult:
        """Again while chunks are there and too few were taken: somebody else held them, or chunks are interleaved."""
        more = done = await self._exchange_chunks(SimpleCompletions(), request)
        for tries, wait_s in enumerate(CHUNK_WAITS_S):
            if not done.comes_short_of(request) or (done.claims and (not more.claims or tries >= TRIES_FOR_MORE)):
                break
            if not done.claims:
                await asyncio.sleep(wait_s)
            more = await self._exchange_chunks(SimpleCompletions(), request.after(len(done.claims)))
            done = done.with_claims_of(more)
        return done

    async def _exchange_chunks(
        self, simple: SimpleCompletions, request: ClaimRequest, write: Write | None = None
    ) -> FastPathResult:
        done = await (write or self._engine.write_one)(lambda: exchange_chunks(simple, request))
        if done.settled is None:
            self._receipts.settled(simple.ids)
        else:
            self._receipts.settled(job_id for job_id, _ in done.settled)
        if done.receipt is not None:
            self._receipts.add(done.receipt, done.received, monotonic())
            self._watch.begin()
        if request.total and not done.has_chunks:
            self._chunked.discard(request.queues[0])
        return done

    async def close(self) -> None:
        await self._watch.close()


class FastPathResult(msgspec.Struct, frozen=True):
    """What the one statement did, and what it left."""

    claims: list[Claim]
    settled: set[ClaimKey] | None
    """Which were settled; None: all."""
    was_simple: bool
    has_chunks: bool = False
    """Chunks that may be claimed are left in the queue."""
    receipt: int | None = None
    received: Sequence[str] = ()
    """The jobs of the receipt; the other claims are on their rows."""
    released_later: bool = False
    """Jobs may have been released after the line was looked at."""

    def is_all_of(self, request: ClaimRequest) -> bool:
        """Nothing is left to settle, nor to claim."""
        is_left = self.released_later and len(self.claims) < request.total
        return self.settled is None and self.was_simple and not is_left

    def comes_short_of(self, request: ClaimRequest) -> bool:
        return self.has_chunks and self.was_simple and len(self.claims) < request.limit

    def with_claims_of(self, more: FastPathResult) -> FastPathResult:
        return FastPathResult(self.claims + more.claims, self.settled, more.was_simple, more.has_chunks)


def fast_exchange(completions: SimpleCompletions, request: ClaimRequest) -> Program[FastPathResult]:
    rows = yield one("exchange", **exchange_parameters(completions, request))
    return _result(rows[0], _jobs_on(rows, request), completions)


def exchange_chunks(completions: SimpleCompletions, request: ClaimRequest) -> Program[FastPathResult]:
    """For a queue with chunks, or completions of jobs under receipts."""
    rows = yield one(
        "exchange_chunks",
        **exchange_parameters(completions, request),
        started=",".join(map(str, completions.started)),
        settled_by=completions.worker_id,
        any=False,
        with_callbacks=",".join(job.id for job, _ in completions.with_callbacks),
    )
    try:
        received = neighbours_from(rows, request.worker_id, request.lease_ttl_us)
    except KeyError:
        # The first of some neighbours is gone: an older release ended it in its chunk, or somebody deleted its row.
        found = yield one("get_jobs", ids=[row[FRONT + 1] for row in rows if row[RECEIPT] is not None])
        received = [job for job in jobs_from(found) if job.state is State.RUNNING]
    on_rows = [row for row in rows if row[RECEIPT] is None] if len(received) < len(rows) else []
    receipt = next((row[RECEIPT] for row in rows if row[RECEIPT] is not None), None)
    done = _result(rows[0], [*received, *_jobs_on(on_rows, request)], completions)
    if completions.with_callbacks:
        yield from _tell(completions.with_callbacks, done)
    return msgspec.structs.replace(done, receipt=receipt, received=[job.id for job in received])


def releasing_exchange(completions: SimpleCompletions, request: ClaimRequest) -> Program[FastPathResult]:
    """For completions of jobs with dependents: what is released is in the line when the next are claimed. Two
    statements, in a transaction: the second sees whatever was stored before the first held the rows."""
    ((count, ids, versions, ended),) = yield one("settle_plain", **exchange_parameters(completions, request))
    settled = set(zip(ids or (), versions or (), strict=True)) if count < len(completions) else None
    claimed = FastPathResult([], None, was_simple=True)

    def release(completed: Sequence[str]) -> Program[bool]:
        nonlocal claimed
        asked = claim_parameters(request)
        rows = yield one("release_and_claim", ids=",".join(completed), kinds=sorted(KINDS), **asked)
        claimed = _result(rows[0], _released_jobs(rows, request), SimpleCompletions())
        are_left = bool(rows[0][0])
        claimed = msgspec.structs.replace(claimed, released_later=are_left)
        return not are_left

    if ended:
        yield from apply_effects([(job_id, State.COMPLETED, True, False, None, None) for job_id in ended], release)
    else:
        yield from release(())
    return msgspec.structs.replace(claimed, settled=settled)


def _released_jobs(rows: list[Row], request: ClaimRequest) -> list[JobRow]:
    """What a job depends on comes along if it was released just now."""
    jobs = _jobs_on(rows, request)
    known = [row[-1] for row in rows] if jobs else []
    return [
        job if ids is None else msgspec.structs.replace(job, depends_on=tuple(ids))
        for job, ids in zip(jobs, known, strict=True)
    ]


def _tell(with_callbacks: Sequence[tuple[JobRow, bytes | None]], done: FastPathResult) -> Program[None]:
    """Insert the events of the jobs that were just settled. What was not goes the full path, with its event."""
    # Once for a job, however often it was reported.
    ends = {
        job.id: (job, result)
        for job, result in with_callbacks
        if done.settled is None or _claim_of(job) in done.settled
    }
    if not ends:
        return
    ended = list(ends.values())
    # A statement has one moment: what it claimed began when what it settled ended.
    at = done.claims[0].job.started_at if done.claims else None
    if at is None:
        ((at,),) = yield one("completed_at", ids=[ended[0][0].id])
    yield from insert_completions(group_uniform(ended), at)


def _claim_of(job: JobRow) -> ClaimKey:
    return job.id, job.claim_version


def exchange_parameters(completions: SimpleCompletions, request: ClaimRequest) -> dict[str, object]:
    # Lists as one text each: the driver looks at every element of an array three times, in Python.
    results = list(completions.results)
    uniform = bool(results) and results.count(results[0]) == len(results)
    return {
        "ids": ",".join(completions.ids),
        "claim_versions": ",".join(map(str, completions.claim_versions)),
        "settling": len(completions),
        "result": results[0] if uniform else None,
        "results": [] if uniform else results,
        "wait_ms": LOCK_WAIT_MS,
        **claim_parameters(request),
    }


def claim_parameters(request: ClaimRequest) -> dict[str, object]:
    return {
        "queue": request.queues[0],
        "types": None if request.types is None else list(request.types),
        "limit": request.limit,
        "prefetch": request.prefetch,
        "prefetch_types": list(request.prefetch_types),
        "worker_id": request.worker_id,
        "lease_ttl_us": request.lease_ttl_us,
    }


def _jobs_on(rows: list[Row], request: ClaimRequest) -> list[JobRow]:
    worker_id, ttl_us = request.worker_id, request.lease_ttl_us
    return [taken_from(row, worker_id, ttl_us) for row in rows if row[FRONT] is not None]


def _result(row: Row, jobs: list[JobRow], completions: SimpleCompletions) -> FastPathResult:
    """`row`: any of them. `jobs`: what was claimed."""
    count, ids, versions, was_simple, has_chunks = row[:FRONT]
    settled = set(zip(ids or (), versions or (), strict=True)) if count < len(completions) else None
    sort_by_urgency(jobs)
    claims = [Claim(job, Lease(job.id, job.claim_version, job.lease_expires_at or 0)) for job in jobs]
    return FastPathResult(claims, settled, was_simple is not False, has_chunks)
