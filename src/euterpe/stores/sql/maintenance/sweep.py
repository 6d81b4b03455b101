"""Maintenance passes. Each is a compare-and-set that any process may run at any time; none needs a leader."""

from __future__ import annotations

from collections.abc import Collection
from random import Random
from typing import Final

from euterpe.model.claims.heartbeat_turns import LONGEST_US, HeartbeatTurns, lease_length_us
from euterpe.model.claims.outcome import Failed, Released, exhausted, settle, taken_away
from euterpe.model.failures.failure import LIFETIME_OVER, LOST_LEASE, TIMED_OUT
from euterpe.model.retention import Retention
from euterpe.model.state import By, State
from euterpe.stores.sql.jobs import settle as jobs_settle
from euterpe.stores.sql.jobs.keys import admit
from euterpe.stores.sql.program import Program, each, one
from euterpe.stores.sql.rows import jobs_from
from euterpe.stores.sql.statements import Family

OLDEST: Final = 20
"""Ended jobs of a state that are looked at to tell how far behind housekeeping is."""


def promote(limit: int) -> Program[list[str]]:
    """Delayed and retrying jobs whose time has come; returns their queues, one entry a job."""
    rows = yield one("promote_due", limit=limit)
    yield from admit({row[1]: 0 for row in rows if row[1] is not None})
    return [row[0] for row in rows]


def dead_letter_spent(limit: int) -> Program[int]:
    """Due retries whose budget is gone."""
    rows = yield one("spent_retries", limit=limit)
    ended = yield from jobs_settle.end_waiting([(job, exhausted(job)) for job in jobs_from(rows)])
    return len(ended)


def reclaim(limit: int, family: Family, rng: Random, turns: HeartbeatTurns | None = None) -> Program[int]:
    """Running jobs whose lease ran out, with their worker or at their deadline: retried while the budget lasts, else
    dead-lettered. The statement may have waited for a lock, so `turns` is asked again behind it. Claims that have lost
    their last job go in the same transaction, so the next batch does not read them again."""
    longest_us = LONGEST_US if turns is None else turns.longest_us()
    if longest_us < 0:
        return 0
    rows = yield one("expired_leases", limit=limit, longest_us=longest_us)
    outcomes = [
        settle(job, Failed(TIMED_OUT if job.outlived_its_deadline else LOST_LEASE), rng, By.SWEEP)
        for job in jobs_from(rows)
        if turns is None or turns.had(lease_length_us(job.lease_expires_at, job.heartbeat_at))
    ]
    reclaimed = len((yield from jobs_settle.settle(outcomes, family)))
    if reclaimed and family == "postgres":
        yield from refresh_running(limit)
    return reclaimed


def release_unbegun(worker_id: str, begun: Collection[tuple[str, int]], family: Family, rng: Random) -> Program[int]:
    """Refund what a worker that is gone had claimed and not begun. What it had begun waits for the end of its lease."""
    rows = yield one("claims_of_worker", worker_id=worker_id)
    unbegun = [job for job in jobs_from(rows) if (job.id, job.claim_version) not in begun]
    return len((yield from jobs_settle.settle([settle(job, Released(), rng) for job in unbegun], family)))


def end_lifetimes(limit: int, family: Family) -> Program[int]:
    """Whatever is past its total lifetime goes to the dead letter, running or not."""
    waiting = yield one("over_lifetime", limit=limit)
    running = yield one("running_over_lifetime", limit=limit)
    jobs = jobs_from([*waiting, *running])
    pairs = [(job, taken_away(job, State.DEAD_LETTER, LIFETIME_OVER, By.SWEEP)) for job in jobs]
    return len((yield from jobs_settle.take_away(pairs, family)))


def refresh_running(limit: int) -> Program[int]:
    """Claims whose first lease is over, and whose jobs have ended or were renewed."""
    rows = yield one("refresh_running", limit=limit)
    return int(rows[0][0])


def prune(state: State, keep_us: int, limit: int, after: int = 0) -> Program[int]:
    """Remove ended jobs past retention, with all that belongs to them; a tombstone stays. `after`: see
    `prune_completed`."""
    rows = yield one("prunable", state=state, keep_us=keep_us, limit=limit, after=after)
    if rows:
        ids = [row[0] for row in rows]
        yield each("insert_tombstone", id=ids, requester_id=[r[1] for r in rows], state=[r[2] for r in rows])
        yield one("delete_attempts", ids=ids)
        yield one("delete_attempt_logs", ids=ids)
        yield one("delete_dependencies", ids=ids)
        yield one("delete_jobs", ids=ids)
    return len(rows)


def prune_completed(keep_us: int, limit: int, after: int) -> Program[tuple[int, int]]:
    """On Postgres completed jobs are in no index. They are looked for among the next jobs behind a number. Returns how
    many went, and where to go on; 0 behind the last that retention may not keep."""
    ends = yield one("end_of_page", after=after, limit=limit, keep_us=keep_us)
    removed = yield from prune(State.COMPLETED, keep_us, limit, after)
    if removed == limit:
        return removed, after
    return removed, ends[0][0] if ends else 0


def overdue(retention: Retention, after: int = 0) -> Program[int]:
    """How long ago the oldest ended job should have been removed; 0 if none should. `after`: see `prune_completed`."""
    longest_us = 0
    for state, keep_us in retention.jobs_us.items():
        rows = yield one("overdue", state=state, keep_us=keep_us, limit=OLDEST, after=after)
        longest_us = max(longest_us, rows[0][0] or 0)
    return longest_us


def prune_events(state: State, keep_us: int, limit: int) -> Program[int]:
    rows = yield one("prune_events", state=state, keep_us=keep_us, limit=limit)
    if rows:
        yield one("delete_deliveries", ids=[row[0] for row in rows])
    return len(rows)


def prune_tombstones(keep_us: int, limit: int) -> Program[int]:
    rows = yield one("prune_tombstones", keep_us=keep_us, limit=limit)
    return len(rows)


def prune_operations(keep_us: int, limit: int) -> Program[int]:
    rows = yield one("prune_operations", keep_us=keep_us, limit=limit)
    return len(rows)


def expire_keys(limit: int) -> Program[int]:
    rows = yield one("expire_keys", limit=limit)
    return len(rows)
