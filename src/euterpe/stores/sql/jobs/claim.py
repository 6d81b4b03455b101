"""Taking jobs: one statement claims for all free slots; keys over their concurrency limit are parked."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple, TypeVar

import msgspec

from euterpe.model.claims.exchange import ClaimRequest
from euterpe.model.job import Claim, JobRow
from euterpe.stores.sql.jobs.effects import insert_events
from euterpe.stores.sql.jobs.picking import Picked, claims_of, pick, taken_jobs
from euterpe.stores.sql.jobs.rates import admit, release
from euterpe.stores.sql.program import Program, Row, each, one
from euterpe.stores.sql.rows import job_from, limit_key_of, sort_by_urgency
from euterpe.stores.sql.statements import Family

Answer = TypeVar("Answer")
CHUNK_WAITS_S: Final = (0.001, 0.002, 0.004, 0.008, *[0.016] * 15)
"""All chunks were held by other claims (ADR 017). Those are done in a moment, and the queue is not empty."""


class Taken(NamedTuple):
    jobs: list[JobRow]
    is_held_up: bool
    """There are none, because others hold the chunks that come next."""


class Claimed(NamedTuple):
    claims: list[Claim]
    is_held_up: bool


async def ask_until_free(ask: Callable[[], Awaitable[Answer]], is_held_up: Callable[[Answer], bool]) -> Answer:
    """In transactions of their own: what was settled before must not wait, nor hold its rows meanwhile."""
    answer = await ask()
    for wait_s in CHUNK_WAITS_S:
        if not is_held_up(answer):
            break
        await asyncio.sleep(wait_s)
        answer = await ask()
    return answer


def claim(
    request: ClaimRequest, family: Family, *, may_wait: bool = True, picked: Picked | None = None
) -> Program[Claimed]:
    """Jobs with their leases, and the events of those with a callback."""
    jobs, is_held_up = yield from take_jobs(request, family, may_wait=may_wait, picked=picked)
    if any(job.callback_url is not None for job in jobs):
        yield from insert_events(jobs)
    return Claimed(claims_of(jobs), is_held_up)


def take_jobs(
    request: ClaimRequest, family: Family, *, may_wait: bool = True, picked: Picked | None = None
) -> Program[Taken]:
    """Queues in the worker's order of preference; inside each, priority, then submission order.

    `may_wait` is false in a transaction that may hold the locks of concurrency keys already. `picked` is what this
    request picked in this transaction, on SQLite.
    """
    if len(request.queues) > 1:
        # What waits in a worker keeps its slots taken: a job of a preferred queue that cannot wait would starve.
        request = msgspec.structs.replace(request, prefetch=0)
    taken: list[JobRow] = []
    held: set[str] = set()
    is_held_up = False
    for queue in request.queues:
        # Again after a batch in which some were parked: the jobs behind them may be free to go.
        again = True
        while again and (rest := request.after(len(taken))).total > 0:
            if family == "postgres":
                jobs, chunks_are_held = yield from _take(rest, queue)
                is_held_up |= chunks_are_held
            else:
                jobs = yield from taken_jobs(picked or (yield from pick(rest, queue)))
                picked = None
            again = len(jobs) == rest.total
            if any(job.concurrency_key is not None for job in jobs):
                busy = yield from _hold_keys(jobs, held, may_wait=may_wait and not held)
                jobs, went = yield from _within_limits(jobs, busy)
                again = (again and not busy) or went
            taken += jobs
    return Taken(taken, is_held_up and not taken)


def _take(request: ClaimRequest, queue: str) -> Program[Taken]:
    asked = {
        "queue": queue,
        "types": None if request.types is None else list(request.types),
        "limit": request.limit,
        "prefetch": request.prefetch,
        "prefetch_types": list(request.prefetch_types),
        "worker_id": request.worker_id,
        "lease_ttl_us": request.lease_ttl_us,
    }
    rows = yield one("claim", **asked)
    has_chunks, jobs = rows[0][0], _jobs_behind(rows)
    while has_chunks and (not jobs or len(jobs) < request.limit):
        # Again while it comes short of free slots: chunks are interleaved, and a short answer means an empty queue.
        rest = request.after(len(jobs))
        rows = yield one("claim_chunks", **{**asked, "limit": rest.limit, "prefetch": rest.prefetch}, any=True)
        more = _jobs_behind(rows)
        jobs += more
        if not more:
            break
        has_chunks = rows[0][0]
    sort_by_urgency(jobs)  # An UPDATE returns rows in any order.
    return Taken(jobs, has_chunks and not jobs and request.limit > 0)


def _jobs_behind(rows: Sequence[Row]) -> list[JobRow]:
    """Behind the column that tells whether there are chunks."""
    return [job_from(row[1:]) for row in rows if row[1] is not None]


def _hold_keys(jobs: list[JobRow], held: set[str], *, may_wait: bool) -> Program[set[str]]:
    """Lock the keys of these jobs; returns those that are busy. Only the first round waits: who waits for a key while
    holding another can wait for ever."""
    wanted = {key for job in jobs if (key := limit_key_of(job)) is not None} - held
    if wanted:
        locked = yield one("lock_keys" if may_wait else "try_lock_keys", keys=sorted(wanted))
        held |= {row[0] for row in locked}
    return wanted - held


def _within_limits(jobs: list[JobRow], busy: set[str]) -> Program[tuple[list[JobRow], bool]]:
    """Park what is over its key's limit, the youngest first, or over its rate, and leave alone what is busy; none of it
    costs an attempt. Also whether parked jobs of these keys may be claimed instead."""
    keys = sorted({key for job in jobs if (key := limit_key_of(job)) is not None} - busy)
    counted = (yield one("running_by_key", keys=keys)) if keys else []
    running = Counter({row[0]: row[1] for row in counted})
    kept: list[JobRow] = []
    parked: list[JobRow] = []
    for job in reversed(jobs):
        key, limit = limit_key_of(job), job.concurrency_limit
        if key in busy:
            parked.append(job)
        elif key is not None and limit is not None and running[key] > limit:
            running[key] -= 1
            parked.append(job)
        else:
            kept.append(job)
    kept.reverse()
    admission = yield from admit(kept, [row[0] for row in counted if row[2]])
    if admission.over:
        over = {job.id for job in admission.over}
        kept = [job for job in kept if job.id not in over]
        parked += admission.over
    if parked:
        yield each(
            "park",
            id=[j.id for j in parked],
            claim_version=[j.claim_version for j in parked],
            parked=[int(limit_key_of(j) not in busy) for j in parked],
        )
        full = {key for j in parked if (key := limit_key_of(j)) is not None} - busy
        if full:
            yield each("park_rest", limit_key=sorted(full))
    return kept, (yield from release(admission))
