"""Ending attempts: batches of settlements, each fenced by id and claim version, with all that follows."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final

import msgspec

from euterpe.model.claims.outcome import Settlement, stages_unfinished
from euterpe.model.errors import IllegalTransition, StaleLease
from euterpe.model.job import JobRow, Lease
from euterpe.model.state import State
from euterpe.stores.sql.jobs.attempt_logs import keep_logs
from euterpe.stores.sql.jobs.effects import apply_effects
from euterpe.stores.sql.jobs.rates import rate_waits_us
from euterpe.stores.sql.program import Each, Program, Row, Statement, each, one
from euterpe.stores.sql.rows import jobs_from
from euterpe.stores.sql.statements import Family

ClaimKey = tuple[str, int]
"""job_id and claim_version: what fences, and what an answer belongs to."""


class Follows(Enum):
    """What may follow from a completion. Jobs from which more follows by now are left out of the statement."""

    ANYTHING = 0
    NOTHING = 1
    RELEASES = 2
    """Dependents are looked for next. An event is not."""


class Locked(Enum):
    """A row that somebody holds, so that it could be neither settled nor said to be stale."""

    LOCKED = "locked"


LOCKED: Final = Locked.LOCKED
SettledAs = State | Locked | None
"""What a settlement made of its job; None: it was stale."""
HELD_WAIT_MS: Final = 1000
"""How long a settle waits for rows that somebody holds, when all the others are settled."""
UNIQUE_KEY: Final = 10
"""The column of `settle.sql`."""


def settle(
    settlements: Sequence[Settlement],
    family: Family,
    moved: list[Row] | None = None,
    *,
    in_full: bool = False,
) -> Program[set[str]]:
    """Write them; returns the ids whose claim still owned the job. The others were stale, or their rows are held by
    somebody (`claims_held` tells), and changed nothing. `in_full`: by the statement for every end."""
    if not settlements:
        return set()
    all_completed = all(s.state is State.COMPLETED for s in settlements)
    if in_full or not all_completed or settlements[0].outcome_hash is not None:
        rows = yield _settle_any(settlements)
        if any(row[UNIQUE_KEY] is not None for row in rows):
            from euterpe.stores.sql.jobs.superseded import end_superseded

            rows = yield from end_superseded(rows)
    elif family == "sqlite":
        # One writer may look first and write then; in one statement, SQLite would answer row by row.
        rows = yield _completing([s.job_id for s in settlements], [s.claim_version for s in settlements])
        if rows:
            yield _complete_held(settlements, rows)
    else:
        rows = yield each(
            "settle_completed",
            id=[s.job_id for s in settlements],
            claim_version=[s.claim_version for s in settlements],
            result=[s.result for s in settlements],
        )
    if moved is not None:
        moved += rows
    if family == "sqlite" and not all_completed:
        # Postgres closes the attempts inside the settle statement; SQLite allows no insert in a CTE.
        yield from _close_attempts(settlements, {(row[0], row[6]) for row in rows})
    yield from keep_logs(settlements, rows)
    waits_us = None if all_completed else rate_waits_us(settlements, {row[0]: row[5] for row in rows if row[5]})
    yield from apply_effects(rows, ran=True, waits_us=waits_us)
    return {row[0] for row in rows}


def _completing(ids: Sequence[str], claim_versions: Sequence[int]) -> Statement:
    version = claim_versions[0]
    if claim_versions.count(version) == len(ids):
        return one("completing_uniform", ids=list(ids), claim_version=version)
    return each("completing", id=ids, claim_version=claim_versions)


def _complete_held(settlements: Sequence[Settlement], rows: Sequence[Row]) -> Statement:
    """Those that `completing` found; the statement asks for their claims once more."""
    seqs = {row[0]: row[7] for row in rows}
    held = [s for s in settlements if s.job_id in seqs]
    return complete(
        [seqs[s.job_id] for s in held],
        [s.job_id for s in held],
        [s.claim_version for s in held],
        [s.result for s in held],
        follows=Follows.ANYTHING,
    )


def complete(
    seqs: Sequence[int],
    ids: Sequence[str],
    claim_versions: Sequence[int],
    results: Sequence[bytes | None],
    follows: Follows,
    outcome_hashes: Sequence[bytes | None] = (),
) -> Statement:
    """End jobs that completed, on SQLite."""
    simple = follows.value
    hashes = outcome_hashes or [None] * len(ids)
    version, result, outcome_hash = claim_versions[0], results[0], hashes[0]
    if not are_uniform(claim_versions, results):
        return each(
            "complete",
            seq=seqs,
            id=ids,
            claim_version=claim_versions,
            result=results,
            outcome_hash=hashes,
            simple=[simple] * len(ids),
        )
    return one(
        "complete_uniform",
        seqs=list(seqs),
        ids=list(ids),
        claim_version=version,
        result=result,
        outcome_hash=outcome_hash,
        simple=simple,
    )


def are_uniform(claim_versions: Sequence[int], results: Sequence[bytes | None]) -> bool:
    return claim_versions.count(claim_versions[0]) == results.count(results[0]) == len(results)


def _settle_any(settlements: Sequence[Settlement]) -> Each:
    return each(
        "settle",
        id=[s.job_id for s in settlements],
        claim_version=[s.claim_version for s in settlements],
        state=[s.state for s in settlements],
        outcome=[s.outcome for s in settlements],
        result=[s.result for s in settlements],
        error=[s.error for s in settlements],
        delay_us=[s.delay_us for s in settlements],
        refund=[s.refund for s in settlements],
        release=[int(s.is_release) for s in settlements],
        take_away=[int(s.take_away) for s in settlements],
        outcome_hash=[s.outcome_hash for s in settlements],
        fingerprint=[s.fingerprint for s in settlements],
        in_time=[s.in_time for s in settlements],
    )


def settle_or_confirm(settlements: Sequence[Settlement], family: Family) -> Program[list[SettledAs]]:
    """Settle; what bounced but was closed by this very attempt before (a lost answer) counts as settled.

    Returns what each of them made of its job, in order. One batch may hold two claims of a job,
    when a worker lost it and took it again, so the answers go by claim and not by job."""
    if not settlements:
        return []
    first: dict[ClaimKey, Settlement] = {}
    # In the order of ids, as heartbeats: two statements that lock the same rows in two orders wait for each other.
    for s in sorted(settlements, key=lambda s: s.job_id):
        first.setdefault((s.job_id, s.claim_version), s)
    rows: list[Row] = []
    yield from settle((yield from _walked_to_the_end(list(first.values()))), family, moved=rows)
    moved = {(row[0], row[6]): State(row[1]) for row in rows}
    # One look at all that are left: somebody may hold hundreds of rows, and to confirm takes a round trip each.
    left = [s for claim, s in first.items() if claim not in moved]
    held = (yield from claims_held(left)) if left and family == "postgres" else set()
    states: list[SettledAs] = []
    for s in settlements:
        claim = (s.job_id, s.claim_version)
        if claim in held:
            states.append(LOCKED)
        elif claim in moved and first[claim] is s:
            states.append(moved[claim])
        else:
            states.append((yield from _confirmed(s)))
    return states


def settle_held(settlements: Sequence[Settlement], family: Family, wait_ms: int) -> Program[list[SettledAs]]:
    """Wait for the first row that somebody holds, then settle it with all the others that are free by then: who holds
    one often holds many. Nothing else is held during the wait. Raises the lock's timeout if the row is not let go."""
    yield from await_row(settlements[0].job_id, wait_ms)
    return (yield from settle_or_confirm(settlements, family))


def complete_joined(s: Settlement, family: Family) -> Program[None]:
    """Complete a job inside a transaction that its handler opened. Its row is waited for: a heartbeat holds it for
    milliseconds, and the transaction's own limits bound the wait. Raises StaleLease when nothing of it is ours."""
    yield one("await_rows", ids=[s.job_id])
    (decided,) = yield from _walked_to_the_end([s])
    if decided.state is not State.COMPLETED:
        raise IllegalTransition("running", "completed", f"it is not in its last stage, {s.last_stage!r}")
    moved = yield from settle([s], family, in_full=True)
    if not moved and (yield from _confirmed(s)) is None:
        raise StaleLease(s.job_id, s.claim_version)


def completed_claims(leases: Sequence[Lease]) -> Program[set[ClaimKey]]:
    """Which of these attempts have completed their jobs."""
    rows = yield each(
        "completed_claims",
        id=[lease.job_id for lease in leases],
        claim_version=[lease.claim_version for lease in leases],
    )
    return {(row[0], row[1]) for row in rows}


def await_row(job_id: str, wait_ms: int = HELD_WAIT_MS) -> Program[None]:
    yield one("bound_lock_waits", wait_ms=wait_ms)
    yield one("await_rows", ids=[job_id])


def claims_held(settlements: Sequence[Settlement]) -> Program[set[ClaimKey]]:
    """Which of these could not be settled only because somebody holds their rows."""
    rows = yield each(
        "claims_held",
        id=[s.job_id for s in settlements],
        claim_version=[s.claim_version for s in settlements],
        in_time=[s.in_time for s in settlements],
    )
    return {(row[0], row[1]) for row in rows}


def _walked_to_the_end(settlements: list[Settlement]) -> Program[list[Settlement]]:
    """What completed, but not from the last of its declared stages, has failed. The row tells where it is, and
    only its own claim moves it on, so it need not be held."""
    if all(s.last_stage is None for s in settlements):
        return settlements
    rows = yield one("get_jobs", ids=[s.job_id for s in settlements if s.last_stage is not None])
    jobs = {(job.id, job.claim_version): job for job in jobs_from(rows)}
    decided = []
    for s in settlements:
        job = jobs.get((s.job_id, s.claim_version))
        if job is not None and s.last_stage is not None and job.current_stage != s.last_stage:
            decided.append(msgspec.structs.replace(stages_unfinished(job, s.last_stage), log=s.log))
        else:
            decided.append(s)
    return decided


def first_answer(job_id: str, claim_version: int, outcome_hash: bytes) -> Program[State | None]:
    """What this very report of an HTTP worker made of its job before; None: it never did."""
    closed = yield one("closed_attempt", id=job_id, claim_version=claim_version)
    if not closed or closed[0][1] is None or bytes(closed[0][1]) != outcome_hash:
        return None
    return State(closed[0][0])


def _confirmed(s: Settlement) -> Program[State | None]:
    if s.outcome_hash is not None:
        return (yield from first_answer(s.job_id, s.claim_version, s.outcome_hash))
    closed = yield one(
        "confirmed_attempt", id=s.job_id, claim_version=s.claim_version, outcome=s.outcome, error=s.error
    )
    return State(closed[0][0]) if closed else None


def _close_attempts(settlements: Sequence[Settlement], accepted: set[ClaimKey]) -> Program[None]:
    closed = [s for s in settlements if s.state is not State.COMPLETED and (s.job_id, s.claim_version) in accepted]
    if closed:
        yield each(
            "close_attempt",
            id=[s.job_id for s in closed],
            claim_version=[s.claim_version for s in closed],
            refund=[s.refund for s in closed],
            outcome=[s.outcome for s in closed],
            error=[s.error for s in closed],
            outcome_hash=[s.outcome_hash for s in closed],
        )


def end_waiting(pairs: Sequence[tuple[JobRow, Settlement]]) -> Program[set[str]]:
    """End jobs that are not running: compare-and-set on the version and state that were seen."""
    if not pairs:
        return set()
    rows: list[Row] = yield each(
        "end_waiting",
        id=[job.id for job, _ in pairs],
        claim_version=[job.claim_version for job, _ in pairs],
        from_state=[job.state for job, _ in pairs],
        state=[s.state for _, s in pairs],
        error=[s.error for _, s in pairs],
        fingerprint=[s.fingerprint for _, s in pairs],
    )
    yield from apply_effects(rows)
    return {row[0] for row in rows}


def take_away(pairs: Sequence[tuple[JobRow, Settlement]], family: Family) -> Program[set[str]]:
    """End jobs wherever they are: running ones are fenced off, waiting ones simply end."""
    running = [s for job, s in pairs if job.state is State.RUNNING]
    waiting = [(job, s) for job, s in pairs if job.state is not State.RUNNING]
    ended = yield from settle(running, family)
    return ended | (yield from end_waiting(waiting))
