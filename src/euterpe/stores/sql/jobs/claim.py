"""Taking jobs: one statement claims for all free slots; keys over their concurrency limit are parked."""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec

from euterpe.model.claims.exchange import ClaimRequest
from euterpe.model.job import Claim, JobRow, Lease
from euterpe.stores.sql.jobs.effects import insert_events
from euterpe.stores.sql.jobs.rates import admit, release
from euterpe.stores.sql.program import Program, Row, each, one
from euterpe.stores.sql.rows import URGENCY, jobs_from, limit_key_of
from euterpe.stores.sql.statements import Family

PACKED_LIMIT: Final = 8_000_000
"""Jobs with more bytes than this in all are fetched row by row: SQLite has a limit for one value."""


def claim(request: ClaimRequest, family: Family, *, may_wait: bool = True) -> Program[list[Claim]]:
    """Jobs with their leases, and the events of those with a callback."""
    jobs = yield from take_jobs(request, family, may_wait=may_wait)
    if any(job.callback_url is not None for job in jobs):
        yield from insert_events(jobs)
    return [Claim(job, Lease(job.id, job.claim_version, job.lease_expires_at or 0)) for job in jobs]


def take_jobs(request: ClaimRequest, family: Family, *, may_wait: bool = True) -> Program[list[JobRow]]:
    """Queues in the worker's order of preference; inside each, priority, then submission order.

    `may_wait` is false in a transaction that may hold the locks of concurrency keys already.
    """
    if len(request.queues) > 1:
        # What waits in a worker keeps its slots taken: a job of a preferred queue that cannot wait would starve.
        request = msgspec.structs.replace(request, prefetch=0)
    taken: list[JobRow] = []
    held: set[str] = set()
    for queue in request.queues:
        # Again after a batch in which some were parked: the jobs behind them may be free to go.
        again = True
        while again and (rest := request.after(len(taken))).total > 0:
            take = _take if family == "postgres" else _take_in_steps
            rows = yield from take(rest, queue)
            # An UPDATE returns rows in any order.
            jobs = sorted(jobs_from(rows), key=URGENCY)
            again = len(jobs) == rest.total
            if any(job.concurrency_key is not None for job in jobs):
                busy = yield from _hold_keys(jobs, held, may_wait=may_wait and not held)
                jobs, went = yield from _within_limits(jobs, busy)
                again = (again and not busy) or went
            taken += jobs
    return taken


def _take(request: ClaimRequest, queue: str) -> Program[list[Row]]:
    rows = yield one(
        "claim",
        queue=queue,
        types=None if request.types is None else list(request.types),
        limit=request.limit,
        prefetch=request.prefetch,
        prefetch_types=list(request.prefetch_types),
        worker_id=request.worker_id,
        lease_ttl_us=request.lease_ttl_us,
    )
    return rows


def _take_in_steps(request: ClaimRequest, queue: str) -> Program[list[Row]]:
    """SQLite's one writer may look first and write then; in one statement, it would hand out row by row."""
    types = None if request.types is None else list(request.types)
    if request.prefetch:
        seqs, size = yield from _pick_ahead(request, queue)
    else:
        ((seqs, size),) = yield one("pick", queue=queue, types=types, limit=request.limit)
    if seqs == "[]":
        return []
    yield one("take", seqs=seqs, worker_id=request.worker_id, lease_ttl_us=request.lease_ttl_us)
    rows = yield one("taken" if size < PACKED_LIMIT else "taken_large", seqs=seqs)
    return rows


def _pick_ahead(request: ClaimRequest, queue: str) -> Program[tuple[str, int]]:
    """The front of the line, as JSON, and how large it is: up to the first behind the limit that cannot wait."""
    types = None if request.types is None else list(request.types)
    ((picked, size, cannot_wait),) = yield one(
        "pick_ahead", queue=queue, types=types, limit=request.total, prefetch_types=list(request.prefetch_types)
    )
    if cannot_wait != "[]":
        seqs, held_up = msgspec.json.decode(picked), set(msgspec.json.decode(cannot_wait))
        end = next((i for i in range(request.limit, len(seqs)) if seqs[i] in held_up), len(seqs))
        picked = msgspec.json.encode(seqs[:end]).decode()
    return picked, size


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
    admission = yield from admit(kept, keys)
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
