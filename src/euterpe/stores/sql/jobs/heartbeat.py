"""Heartbeats of claims, and their progress."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from euterpe.model.claims.exchange import HeartbeatReply, ProgressUpdate
from euterpe.model.job import JobRow, Lease
from euterpe.model.reading.readable import unreadable_columns
from euterpe.model.state import State, check_advance
from euterpe.model.submitting.submission import OVERRUN_US
from euterpe.stores.sql.jobs.effects import insert_events
from euterpe.stores.sql.program import Program, each, one
from euterpe.stores.sql.rows import jobs_from

HEARTBEAT_WAIT_MS: Final = 200
"""How long a heartbeat waits for a row that somebody holds, when all the others are renewed."""
HELD_AT_MOST: Final = 5
"""How many such rows one heartbeat waits for: the next round of all leases must not be late."""


def heartbeat(
    leases: Sequence[Lease], lease_ttl_us: int, overrun_us: int = OVERRUN_US
) -> Program[list[HeartbeatReply]]:
    """Renew leases. `overrun_us`: how long one may outlast the deadline of its attempt."""
    # In the order of ids, as settlements: two statements that lock the same rows in two orders wait for each other.
    ordered = sorted(leases, key=lambda lease: lease.job_id)
    rows = yield each(
        "heartbeat",
        id=[lease.job_id for lease in ordered],
        claim_version=[lease.claim_version for lease in ordered],
        lease_ttl_us=[lease_ttl_us] * len(ordered),
        overrun_us=[overrun_us] * len(ordered),
    )
    alive = {(row[0], row[1]): (row[2], bool(row[3]), bool(row[4])) for row in rows}
    beats = []
    for lease in leases:
        renewed = alive.get((lease.job_id, lease.claim_version))
        beats.append(HeartbeatReply(lease, False) if renewed is None else HeartbeatReply(lease, True, *renewed))
    return beats


def heartbeat_of_held(lease: Lease, lease_ttl_us: int) -> Program[HeartbeatReply]:
    """Renew a lease whose row somebody holds, if they let go in time; else the lock's timeout is raised."""
    yield one("bound_lock_waits", wait_ms=HEARTBEAT_WAIT_MS)
    yield one("await_rows", ids=[lease.job_id])
    (beat,) = yield from heartbeat([lease], lease_ttl_us)
    return beat


def check_leases(leases: Sequence[Lease]) -> Program[list[HeartbeatReply]]:
    """As a heartbeat answers, but nothing is renewed."""
    rows = yield one("check_leases", ids=[lease.job_id for lease in leases])
    held = {(row[0], row[1]): (row[2], bool(row[3]), False) for row in rows}
    return [
        HeartbeatReply(lease, False) if found is None else HeartbeatReply(lease, True, *found)
        for lease in leases
        for found in [held.get((lease.job_id, lease.claim_version))]
    ]


def update_progress(updates: Sequence[ProgressUpdate], ordinals: Sequence[int | None]) -> Program[list[bool]]:
    """Write news in order. A stage that would move back raises, and then nothing of the batch is written."""
    transitions = yield from _check_stages([n for n in updates if n.stage is not None])
    written = [False] * len(updates)
    for turn in _turns(updates):
        jobs = yield from _write_updates([updates[i] for i in turn], [ordinals[i] for i in turn])
        moved = []
        for i in turn:
            job = jobs.get(_key(updates[i]))
            written[i] = job is not None
            if job is not None and job.transitions > transitions.get(job.id, job.transitions):
                # A stage move is a status of its own at the edge; mere progress is not worth an event.
                moved.append(job)
                transitions[job.id] = job.transitions
        yield from insert_events(moved)
    return written


def _key(n: ProgressUpdate) -> tuple[str, int]:
    return n.claim.job.id, n.claim.job.claim_version


def _turns(updates: Sequence[ProgressUpdate]) -> list[list[int]]:
    """One statement changes a row once, so several news of one claim take several turns."""
    turns: list[list[int]] = []
    seen: Counter[tuple[str, int]] = Counter()
    for i, n in enumerate(updates):
        turn = seen[_key(n)]
        seen[_key(n)] += 1
        if turn == len(turns):
            turns.append([])
        turns[turn].append(i)
    return turns


def _check_stages(staged: Sequence[ProgressUpdate]) -> Program[dict[str, int]]:
    """Check stage moves against the rows and not against what the worker saw at its claim; returns how many
    transitions each job has had."""
    if not staged:
        return {}
    rows = yield one("get_jobs_for_update", ids=sorted({n.claim.job.id for n in staged}))
    jobs = {(job.id, job.claim_version): job for job in jobs_from(rows) if job.state is State.RUNNING}
    stages = {key: job.current_stage for key, job in jobs.items()}
    for n in staged:
        if n.stage is not None and (job := jobs.get(_key(n))) is not None:
            # Those that the claim saw were checked already; the row's may have been spoilt since.
            declared = n.claim.job.stages if "stages" in unreadable_columns(job) else job.stages
            check_advance(declared, stages[_key(n)], n.stage)
            stages[_key(n)] = n.stage
    return {job.id: job.transitions for job in jobs.values()}


def _write_updates(
    updates: Sequence[ProgressUpdate], ordinals: Sequence[int | None]
) -> Program[dict[tuple[str, int], JobRow]]:
    rows = yield each(
        "advance",
        id=[n.claim.job.id for n in updates],
        claim_version=[n.claim.job.claim_version for n in updates],
        stage=[n.stage for n in updates],
        stage_ordinal=list(ordinals),
        progress=[n.progress for n in updates],
        progress_message=[n.message for n in updates],
        checkpoint=[n.checkpoint for n in updates],
        waited_us=[n.waited_us for n in updates],
    )
    return {(job.id, job.claim_version): job for job in jobs_from(rows)}
