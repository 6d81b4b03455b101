"""Keeping a claim alive and telling how far it got."""

from __future__ import annotations

from collections.abc import Sequence

from euterpe.model.job import Lease
from euterpe.ports import Advance, Beat
from euterpe.store.following import tell
from euterpe.store.program import Program, each
from euterpe.store.rows import jobs_from


def heartbeat(leases: Sequence[Lease], lease_ttl_us: int) -> Program[list[Beat]]:
    rows = yield each(
        "heartbeat",
        id=[lease.job_id for lease in leases],
        claim_version=[lease.claim_version for lease in leases],
        lease_ttl_us=[lease_ttl_us] * len(leases),
    )
    alive = {(row[0], row[1]): (row[2], bool(row[3])) for row in rows}
    beats = []
    for lease in leases:
        renewed = alive.get((lease.job_id, lease.claim_version))
        beats.append(Beat(lease, False) if renewed is None else Beat(lease, True, *renewed))
    return beats


def advance(news: Sequence[Advance], ordinals: Sequence[int | None]) -> Program[list[bool]]:
    rows = yield each(
        "advance",
        id=[n.claim.job.id for n in news],
        claim_version=[n.claim.job.claim_version for n in news],
        stage=[n.stage for n in news],
        stage_ordinal=list(ordinals),
        progress=[n.progress for n in news],
        progress_message=[n.message for n in news],
        checkpoint=[n.checkpoint for n in news],
    )
    jobs = {job.id: job for job in jobs_from(rows)}
    # A stage move is a status of its own at the edge; mere progress is not worth an event.
    yield from tell(jobs[n.claim.job.id] for n in news if n.stage is not None and n.claim.job.id in jobs)
    return [n.claim.job.id in jobs for n in news]
