"""Ending attempts: batches of settlements, each fenced by id and claim version, with all that follows."""

from __future__ import annotations

from collections.abc import Sequence

from euterpe.model.job import Job
from euterpe.model.outcome import Settlement
from euterpe.model.state import State
from euterpe.store.dialect import Family
from euterpe.store.following import follow
from euterpe.store.program import Program, Row, each, one


def settle(
    settlements: Sequence[Settlement],
    family: Family,
    hashes: Sequence[bytes | None] = (),
    moved: list[Row] | None = None,
) -> Program[set[str]]:
    """Write them; returns the ids whose claim still owned the job. The others were stale and changed nothing."""
    if not settlements:
        return set()
    outcome_hashes = list(hashes) or [None] * len(settlements)
    rows = yield each(
        "settle",
        id=[s.job_id for s in settlements],
        claim_version=[s.claim_version for s in settlements],
        state=[s.state for s in settlements],
        outcome=[s.outcome for s in settlements],
        result=[s.result for s in settlements],
        error=[s.error for s in settlements],
        delay_us=[s.delay_us for s in settlements],
        refund=[int(s.refund) for s in settlements],
        take_away=[int(s.take_away) for s in settlements],
        outcome_hash=outcome_hashes,
    )
    accepted = {row[0] for row in rows}
    if moved is not None:
        moved += rows
    if family == "sqlite":
        # Postgres closes the attempts inside the settle statement; SQLite allows no insert in a CTE.
        yield from _close_attempts(settlements, outcome_hashes, accepted)
    yield from follow(rows)
    return accepted


def settle_or_confirm(settlements: Sequence[Settlement], family: Family) -> Program[dict[str, State]]:
    """Settle; what bounced but was closed by this very attempt before (a lost answer) counts as settled.

    Returns the state each accepted job has now."""
    if not settlements:
        return {}
    rows: list[Row] = []
    accepted = yield from settle(settlements, family, moved=rows)
    states = {row[0]: State(row[1]) for row in rows}
    for s in settlements:
        if s.job_id not in accepted:
            closed = yield one("closed_attempt", id=s.job_id, claim_version=s.claim_version)
            if closed and closed[0][0] == s.outcome:
                states[s.job_id] = State(closed[0][1])
    return states


def _close_attempts(
    settlements: Sequence[Settlement], hashes: Sequence[bytes | None], accepted: set[str]
) -> Program[None]:
    closed = [(s, h) for s, h in zip(settlements, hashes, strict=True) if s.job_id in accepted]
    if closed:
        yield each(
            "close_attempt",
            id=[s.job_id for s, _ in closed],
            claim_version=[s.claim_version for s, _ in closed],
            refund=[int(s.refund) for s, _ in closed],
            outcome=[s.outcome for s, _ in closed],
            error=[s.error for s, _ in closed],
            outcome_hash=[h for _, h in closed],
        )


def end_waiting(pairs: Sequence[tuple[Job, Settlement]]) -> Program[set[str]]:
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
    )
    yield from follow(rows)
    return {row[0] for row in rows}


def take_away(pairs: Sequence[tuple[Job, Settlement]], family: Family) -> Program[set[str]]:
    """End jobs wherever they are: running ones are fenced off, waiting ones simply end."""
    running = [s for job, s in pairs if job.state is State.RUNNING]
    waiting = [(job, s) for job, s in pairs if job.state is not State.RUNNING]
    ended = yield from settle(running, family)
    return ended | (yield from end_waiting(waiting))
