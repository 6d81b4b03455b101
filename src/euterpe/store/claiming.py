"""Taking jobs: one statement claims for all free slots; keys over their concurrency limit are parked."""

from __future__ import annotations

import hashlib
import secrets
from collections import Counter

from euterpe.model.job import Claim, Job, Lease
from euterpe.ports import ClaimRequest
from euterpe.store.following import tell
from euterpe.store.program import Program, each, one
from euterpe.store.rows import jobs_from


def claim(request: ClaimRequest) -> Program[list[Claim]]:
    """Queues in the worker's order of preference; inside each, priority, then submission order."""
    taken: list[Job] = []
    for queue in request.queues:
        rows = yield one(
            "claim",
            queue=queue,
            types=None if request.types is None else list(request.types),
            limit=request.limit - len(taken),
            worker_id=request.worker_id,
            lease_ttl_us=request.lease_ttl_us,
        )
        # An UPDATE returns rows in any order.
        jobs = sorted(jobs_from(rows), key=lambda job: (job.priority, job.seq))
        if any(job.concurrency_key is not None for job in jobs):
            jobs = yield from _within_limits(jobs)
        taken += jobs
        if len(taken) >= request.limit:
            break
    if any(job.callback_url is not None for job in taken):
        yield from tell(taken)
    tokens = (yield from _seal(taken)) if request.with_tokens and taken else [None] * len(taken)
    return [
        Claim(job, Lease(job.id, job.claim_version, job.lease_expires_at or 0, token))
        for job, token in zip(taken, tokens, strict=True)
    ]


def _within_limits(jobs: list[Job]) -> Program[list[Job]]:
    """Park what is over its key's limit, the youngest first; a parked claim costs no attempt."""
    keys = sorted({job.concurrency_key for job in jobs if job.concurrency_key is not None})
    yield one("lock_keys", keys=keys)
    counted = yield one("running_by_key", keys=keys)
    running = Counter({row[0]: row[1] for row in counted})
    kept: list[Job] = []
    parked: list[Job] = []
    for job in reversed(jobs):
        key, limit = job.concurrency_key, job.concurrency_limit
        if key is not None and limit is not None and running[key] > limit:
            running[key] -= 1
            parked.append(job)
        else:
            kept.append(job)
    if parked:
        yield each("park", id=[j.id for j in parked], claim_version=[j.claim_version for j in parked])
    return kept[::-1]


def _seal(jobs: list[Job]) -> Program[list[str]]:
    tokens = [secrets.token_urlsafe(32) for _ in jobs]
    yield each(
        "seal_lease",
        id=[job.id for job in jobs],
        claim_version=[job.claim_version for job in jobs],
        token_hash=[hash_token(token) for token in tokens],
    )
    return tokens


def hash_token(token: str) -> bytes:
    """Only the hash of a lease token is stored; it has 256 random bits, so a plain digest is enough."""
    return hashlib.sha256(token.encode()).digest()
