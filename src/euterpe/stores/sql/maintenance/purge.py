"""Throwing dead letters away by hand: the job and its attempts go, a tombstone stays."""

from __future__ import annotations

from collections.abc import Sequence

from euterpe.model.errors import IllegalTransition
from euterpe.model.state import State
from euterpe.stores.sql.program import Program, each, one
from euterpe.stores.sql.rows import jobs_from


def purge_dead(ids: Sequence[str]) -> Program[list[str]]:
    """Remove these jobs, all or none; returns the ids that were there. Only a dead letter may be thrown away."""
    jobs = jobs_from((yield one("get_jobs_for_update", ids=list(ids))))
    for job in jobs:
        if job.state is not State.DEAD_LETTER:
            raise IllegalTransition(job.state, "purged", f"job {job.id} is not a dead letter")
    gone = [job.id for job in jobs]
    if gone:
        yield each(
            "insert_tombstone",
            id=gone,
            requester_id=[job.requester_id for job in jobs],
            state=[job.state for job in jobs],
        )
        yield one("delete_attempts", ids=gone)
        yield one("delete_attempt_logs", ids=gone)
        yield one("delete_dependencies", ids=gone)
        yield one("delete_jobs", ids=gone)
    return gone
