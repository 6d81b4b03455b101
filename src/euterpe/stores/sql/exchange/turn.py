"""A worker's turn on Postgres: end what completed and claim the next, in one statement (`turn.sql`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from euterpe.model.claims.exchange import ClaimRequest
from euterpe.model.job import Claim, JobRow, Lease
from euterpe.stores.sql.exchange.plain import PlainCompletions
from euterpe.stores.sql.jobs.settle import ClaimKey
from euterpe.stores.sql.program import Program, Row, one
from euterpe.stores.sql.rows import sort_by_urgency, taken_from

FRONT: Final = 6
"""Columns of `turn.sql` in front of a job's."""
HELD: Final = 1
KEYS_DUE: Final = 2
"""Why a turn that came short may ask again."""
LOCK_WAIT_MS: Final = 50
"""How long a turn waits for a row that somebody holds. Two workers hold a row for milliseconds; whoever holds it longer
is somebody else. Much shorter than the server's `deadlock_timeout`."""


class TurnResult(msgspec.Struct, frozen=True):
    """What a turn did, and what it left."""

    claims: list[Claim]
    settled: set[ClaimKey] | None
    """Which were settled; None: all."""
    claim: int | None
    """The number of its row in `euterpe_running`."""
    again: bool
    """More may be there: another claim held a part of the line."""
    keys_are_due: bool
    """More may be there when jobs of concurrency keys are admitted."""
    at_telling: bool
    """The line ended at a job whose beginning is told to a callback."""


def turn(
    completions: PlainCompletions, request: ClaimRequest, over: Sequence[int] = (), *, may_tell: bool = False
) -> Program[TurnResult]:
    """`over` are claims whose jobs have all ended. `may_tell`: events follow in the same transaction."""
    rows = yield one("turn", **_settling(completions, over), **_claiming(request), may_tell=may_tell)
    return _turn_on(rows, request, len(completions))


def turn_around(request: ClaimRequest, over: Sequence[int] = ()) -> Program[TurnResult]:
    """Claim past every row that somebody holds; events follow in the same transaction."""
    claiming = _claiming(request) | {"prefetch": 0}
    yield one("scatter", **{name: claiming[name] for name in ("queues", "types", "limit", "prefetch")})
    rows = yield one("turn_around", **_settling(PlainCompletions(), over), **claiming)
    return _turn_on(rows, request, 0)


def _turn_on(rows: Sequence[Row], request: ClaimRequest, settling: int) -> TurnResult:
    count, ids, versions, claim, again, at_telling = rows[0][:FRONT]
    settled = set(zip(ids or (), versions or (), strict=True)) if count < settling else None
    jobs = _jobs_on(rows, request)
    sort_by_urgency(jobs)
    if len(request.queues) > 1:
        jobs.sort(key=lambda job: request.queues.index(job.queue))
    return TurnResult(claims_of(jobs), settled, claim, again == HELD, again == KEYS_DUE, bool(at_telling))


def in_order(claims: Iterable[Claim], request: ClaimRequest) -> list[Claim]:
    """The claims of several turns: a later one may bring a job that was stored before those of an earlier one."""
    place = {queue: place for place, queue in enumerate(request.queues)}
    return sorted(claims, key=lambda claim: (place[claim.job.queue], claim.job.priority, claim.job.seq))


def claims_of(jobs: Iterable[JobRow]) -> list[Claim]:
    return [Claim(job, Lease(job.id, job.claim_version, job.lease_expires_at or 0)) for job in jobs]


def _jobs_on(rows: Sequence[Row], request: ClaimRequest) -> list[JobRow]:
    worker_id, ttl_us, overrun_us = request.worker_id, request.lease_ttl_us, request.overrun_us
    return [
        taken_from(row, row[-1] or worker_id, ttl_us, overrun_us, key=row[-4], limit=row[-3])
        for row in rows
        if row[FRONT] is not None
    ]


def _settling(completions: PlainCompletions, over: Sequence[int]) -> dict[str, object]:
    # Lists as one text each: the driver looks at every element of an array three times, in Python.
    results = list(completions.results)
    uniform = bool(results) and results.count(results[0]) == len(results)
    return {
        "seqs": ",".join(map(str, completions.seqs)),
        "ids": ",".join(completions.ids),
        "claim_versions": ",".join(map(str, completions.claim_versions)),
        "outcome_hashes": b"".join(completions.outcome_hashes) or None,
        "settling": len(completions),
        "result": results[0] if uniform else None,
        "results": [] if uniform else results,
        "wait_ms": LOCK_WAIT_MS,
        "over": list(over),
    }


def _claiming(request: ClaimRequest) -> dict[str, object]:
    return {
        "queues": list(request.queues),
        "types": None if request.types is None else list(request.types),
        "other_than": list(request.other_than),
        "limit": request.limit,
        # A job that waits in a worker keeps a slot taken: one of a preferred queue that cannot wait would starve.
        "prefetch": request.prefetch if len(request.queues) == 1 else 0,
        "prefetch_types": list(request.prefetch_types),
        "worker_id": request.worker_id,
        "lease_ttl_us": request.lease_ttl_us,
        "overrun_us": request.overrun_us,
        "worker_ids": list(request.worker_ids),
        "request": request.number,
    }
