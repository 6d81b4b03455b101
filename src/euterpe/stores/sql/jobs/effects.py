"""What a change of state brings with it, in the same transaction: its event, its dependents, its concurrency key.

Every path that moves a job (settle, sweep, cancel, lifetime, submit) ends here, so no end can strand a dependent
and no event can be missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from euterpe.model.dependency import Dependency, end_of_dependent, gravest
from euterpe.model.events.callback_events import has_event_in
from euterpe.model.events.event import event_of, has_event
from euterpe.model.failures.failure import Category, Failure, unprocessable
from euterpe.model.job import JobRow
from euterpe.model.state import TERMINAL, By, State, check_move
from euterpe.model.submitting.batch import new_ids
from euterpe.stores.sql.program import Program, Row, each, one
from euterpe.stores.sql.rows import Moved, jobs_from, moved_from


def apply_effects(rows: Iterable[Row]) -> Program[None]:
    """Tell, release and end what hangs on these moves; ends of dependents are followed in turn."""
    moves = moved_from(row for row in rows if row[2] or row[3] or row[5])
    keys = [m.limit_key for m in moves if m.limit_key is not None]
    while moves:
        yield from _insert_events_of(moves)
        ended = {m.id: m.state for m in moves if m.has_dependents and m.state in TERMINAL}
        moves = (yield from _resolve_dependents(ended)) if ended else []
    # Last and all at once: nobody who holds a key's lock may wait for a row, nor for a second round of keys.
    yield from _free_keys(keys)


def insert_events(jobs: Iterable[JobRow]) -> Program[None]:
    """Insert the events of the states these jobs have just entered."""
    told = [job for job in jobs if has_event(job)]
    events = list(map(event_of, told, new_ids(len(told))))
    if events:
        yield each(
            "insert_event",
            id=[e.event_id for e in events],
            job_id=[e.job_id for e in events],
            requester_id=[e.requester_id for e in events],
            sequence=[e.sequence for e in events],
            type=[e.type for e in events],
            url=[e.url for e in events],
            origin=[e.origin for e in events],
            body=[e.body for e in events],
            at=[e.created_at for e in events],
        )


def _insert_events_of(moves: Sequence[Moved]) -> Program[None]:
    ids = [m.id for m in moves if m.has_callback and has_event_in(m.state, m.callback_events)]
    if ids:
        rows = yield one("callback_jobs", ids=ids)
        yield from insert_events(jobs_from(rows))


def _free_keys(keys: Sequence[str]) -> Program[None]:
    if keys:
        yield one("lock_keys", keys=keys)
        distinct = sorted(set(keys))
        yield each("unpark", limit_key=distinct, limit=[keys.count(key) for key in distinct])


def _resolve_dependents(ended: Mapping[str, State]) -> Program[list[Moved]]:
    """Count down what waits for these jobs; returns the dependents that moved."""
    rows = yield one("waiting_dependents", ids=list(ended))
    waiting: dict[str, tuple[str, int]] = {}
    ends: dict[str, list[str]] = {}
    for depends_on, job_id, kind, pending in rows:
        waiting[job_id] = (kind, pending)
        ends.setdefault(job_id, []).append(depends_on)
    if not waiting:
        return []
    plan = [_plan(job_id, kind, pending, ends[job_id], ended) for job_id, (kind, pending) in waiting.items()]
    moved = yield each(
        "resolve_dependent",
        id=[p[0] for p in plan],
        pending=[p[1] for p in plan],
        state=[p[2] for p in plan],
        error=[p[3] for p in plan],
    )
    return [m for m in moved_from(moved) if m.state is not State.PENDING]


def _plan(
    job_id: str, stored: str, pending: int, ended_ids: list[str], ended: Mapping[str, State]
) -> tuple[str, int, State, str | None]:
    try:
        kind = Dependency(stored)
    except ValueError:
        check_move(State.PENDING, State.DEAD_LETTER, By.DEPENDENCY)
        error = unprocessable("dependency cannot be read").as_error(0, retryable=False)
        return job_id, 0, State.DEAD_LETTER, msgspec.json.encode(error).decode()
    bad_end = end_of_dependent(kind, [ended[i] for i in ended_ids])
    if bad_end is not None:
        check_move(State.PENDING, bad_end, By.DEPENDENCY)
        culprit = gravest({i: ended[i] for i in ended_ids})
        return job_id, 0, bad_end, dependency_error(culprit, ended[culprit])
    left = 0 if kind is Dependency.AFTER_ANY else pending - len(ended_ids)
    return job_id, max(left, 0), State.PENDING if left > 0 else State.SCHEDULED, None


def dependency_error(depends_on: str, end: State) -> str:
    """The error of a job that ended because of another."""
    category = Category.CANCELLED if end is State.CANCELLED else Category.PERMANENT
    failure = Failure(category, f"its dependency {depends_on} ended {end}", code="dependency_ended")
    return msgspec.json.encode(failure.as_error(0, retryable=False)).decode()
