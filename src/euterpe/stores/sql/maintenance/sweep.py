"""Maintenance passes. Each is a compare-and-set that any process may run at any time; none needs a leader."""

from __future__ import annotations

from collections.abc import Collection
from random import Random

from euterpe.model.claims.outcome import Failed, Released, exhausted, settle, taken_away
from euterpe.model.failures.failure import LIFETIME_OVER, LOST_LEASE, TIMED_OUT
from euterpe.model.state import By, State
from euterpe.model.submitting.submission import KEY_KEPT_AFTER_END_US
from euterpe.stores.sql.jobs import settle as jobs_settle
from euterpe.stores.sql.program import Program, each, one
from euterpe.stores.sql.rows import jobs_from
from euterpe.stores.sql.statements import Family


def promote(limit: int) -> Program[list[str]]:
    """Delayed and retrying jobs whose time has come; returns their queues, one entry a job."""
    rows = yield one("promote_due", limit=limit)
    return [row[0] for row in rows]


def dead_letter_spent(limit: int) -> Program[int]:
    """Due retries whose budget is gone."""
    rows = yield one("spent_retries", limit=limit)
    ended = yield from jobs_settle.end_waiting([(job, exhausted(job)) for job in jobs_from(rows)])
    return len(ended)


def reclaim(limit: int, family: Family, rng: Random) -> Program[int]:
    """Running jobs whose lease ran out, with their worker or at their deadline: retried while the budget lasts, else
    dead-lettered."""
    rows = yield one("expired_leases", limit=limit)
    outcomes = [
        settle(job, Failed(TIMED_OUT if job.outlived_its_deadline else LOST_LEASE), rng, By.SWEEP)
        for job in jobs_from(rows)
    ]
    return len((yield from jobs_settle.settle(outcomes, family)))


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


def unpark_idle(limit: int) -> Program[int]:
    """Safety net for keys with parked jobs and free slots: as many of each go on as its limit allows."""
    rows = yield one("free_keys", limit=limit)
    if not rows:
        return 0
    yield one("lock_keys", keys=[row[0] for row in rows])
    freed = yield each("unpark", limit_key=[row[0] for row in rows], limit=[row[1] for row in rows])
    return len(freed)


def prune(state: State, keep_us: int, limit: int) -> Program[int]:
    """Remove ended jobs past retention, with all that belongs to them; a tombstone stays."""
    rows = yield one("prunable", state=state, keep_us=keep_us, limit=limit)
    if rows:
        ids = [row[0] for row in rows]
        yield each("insert_tombstone", id=ids, requester_id=[r[1] for r in rows], state=[r[2] for r in rows])
        yield one("delete_attempts", ids=ids)
        yield one("delete_attempt_logs", ids=ids)
        yield one("delete_dependencies", ids=ids)
        yield one("delete_jobs", ids=ids)
    return len(rows)


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
    rows = yield one("expire_keys", after_end_us=KEY_KEPT_AFTER_END_US, limit=limit)
    return len(rows)
