"""A claim on SQLite of jobs that need more than their row: keys, callbacks, several queues."""

from __future__ import annotations

import msgspec

from euterpe.model.claims.exchange import ClaimRequest
from euterpe.model.job import Claim, JobRow
from euterpe.stores.sql.jobs.effects import insert_events
from euterpe.stores.sql.jobs.picking import NONE, Picked, claims_of, pick, taken_jobs
from euterpe.stores.sql.program import Program


def claim(request: ClaimRequest, *, picked: Picked | None = None) -> Program[list[Claim]]:
    """Jobs with their leases, and the events of those with a callback."""
    jobs = yield from take_jobs(request, picked=picked)
    if any(job.callback_url is not None for job in jobs):
        yield from insert_events(jobs)
    return claims_of(jobs)


def take_jobs(request: ClaimRequest, *, picked: Picked | None = None) -> Program[list[JobRow]]:
    """Queues in the worker's order of preference; inside each, priority, then submission order. `picked` is what this
    request picked in this transaction."""
    if len(request.queues) > 1:
        # What waits in a worker keeps its slots taken: a job of a preferred queue that cannot wait would starve.
        request = msgspec.structs.replace(request, prefetch=0)
    taken: list[JobRow] = []
    for queue in request.queues:
        while (rest := request.after(len(taken))).total > 0:
            front = picked or (yield from pick(rest, queue))
            picked = None
            taken += yield from taken_jobs(front)
            if not front.is_cut or front.seqs == NONE:
                break
    return taken
