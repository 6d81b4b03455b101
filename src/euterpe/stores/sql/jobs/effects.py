"""What a change of state brings with it, in the same transaction: its event, its dependents, its concurrency key.

Every path that moves a job (settle, sweep, cancel, lifetime, submit) ends here, so no end can strand a dependent
and no event can be missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from euterpe.model.dependency import Dependency, end_of_dependent, gravest
from euterpe.model.events.callback_events import has_event_in
from euterpe.model.events.event import event_of, has_event
from euterpe.model.events.uniform_events import event_of_many, told_of
from euterpe.model.failures.failure import Category, Failure, unprocessable
from euterpe.model.job import JobRow
from euterpe.model.state import TERMINAL, By, State, check_move
from euterpe.model.submitting.batch import new_ids
from euterpe.stores.sql.program import Each, Program, Row, each, one
from euterpe.stores.sql.rows import Moved, jobs_from, moved_from

KINDS: Final = frozenset(map(str, Dependency))
FEW_UNIFORM: Final = 4
"""For fewer events that differ in ids alone, a statement of their own is not worth it."""
Release = Callable[[Sequence[str]], Program[bool]]
"""Releases what waited for these completed jobs alone; whether nobody else waits for one of them."""


def apply_effects(rows: Iterable[Row], release: Release | None = None) -> Program[None]:
    """Tell, release and end what hangs on these moves; ends of dependents are followed in turn. `release` comes first,
    where somebody has a way of their own for the usual dependents."""
    moves = moved_from(row for row in rows if row[2] or row[3] or row[5])
    keys = Counter(m.limit_key for m in moves if m.limit_key is not None)
    yield from _insert_events_and_follow(moves, release)
    # Last and all at once: nobody who holds a key's lock may wait for a row, nor for a second round of keys.
    if keys:
        yield one("lock_keys", keys=sorted(keys))
        yield from free_locked_keys(keys)


def follow_completed(job_ids: Iterable[str], postponed: list[int] | None) -> Program[None]:
    """`apply_effects` for jobs that completed, of which nobody is told and that hold no key, on SQLite. What waited for
    them alone is let go, or its numbers are `postponed`: then the caller lets it go, in the same transaction."""
    moves = yield from _resolve_dependents(dict.fromkeys(job_ids, State.COMPLETED), postponed)
    yield from _insert_events_and_follow(moves, None)


def _insert_events_and_follow(moves: Sequence[Moved], release: Release | None) -> Program[None]:
    while moves:
        yield from _insert_events_of(moves)
        ended = {m.id: m.state for m in moves if m.has_dependents and m.state in TERMINAL}
        moves = (yield from _follow(ended, release)) if ended else []


def insert_events(jobs: Iterable[JobRow]) -> Program[None]:
    """Insert the events of the states these jobs have just entered."""
    uniform: dict[tuple[object, ...], list[JobRow]] = {}
    for job in jobs:
        if has_event(job):
            uniform.setdefault(told_of(job), []).append(job)
    rest: list[JobRow] = []
    for of_one_kind in uniform.values():
        if not (yield from _insert_uniform(of_one_kind[0], [job.id for job in of_one_kind])):
            rest += of_one_kind
    if rest:
        yield _insert_each(rest)


Completions = list[tuple[JobRow, bytes | None]]
"""Jobs as they were claimed, with their results."""


def group_uniform(with_callbacks: Iterable[tuple[JobRow, bytes | None]]) -> list[Completions]:
    """Those whose events differ in ids alone stand together."""
    uniform: dict[tuple[object, ...], Completions] = {}
    for completion in with_callbacks:
        uniform.setdefault((completion[1], told_of(completion[0])), []).append(completion)
    return list(uniform.values())


def insert_completions(with_callbacks: Iterable[Completions], at: int) -> Program[None]:
    """Insert the events of jobs that nobody but their claims has touched, and that have just completed. `told` as
    `group_uniform` has sorted them."""
    rest: list[JobRow] = []
    for uniform in with_callbacks:
        if not (yield from _insert_uniform(as_completed(*uniform[0], at), [job.id for job, _ in uniform])):
            rest += [as_completed(job, result, at) for job, result in uniform]
    if rest:
        yield _insert_each(rest)


def _insert_uniform(job: JobRow, job_ids: Sequence[str]) -> Program[bool]:
    """The events of all these jobs, of which `job` is one and the others differ in their ids; whether it was done."""
    if len(job_ids) < FEW_UNIFORM or (shared := event_of_many(job)) is None:
        return False
    event = shared.event
    yield one(
        "insert_uniform_events",
        ids=",".join(new_ids(len(job_ids))),
        job_ids=",".join(job_ids),
        requester_id=event.requester_id,
        sequence=event.sequence,
        type=event.type,
        url=event.url,
        origin=event.origin,
        at=event.created_at,
        before_event=shared.before_event,
        before_job=shared.before_job,
        **dict(zip(("piece_a", "piece_b", "piece_c"), shared.after_job, strict=True)),
    )
    return True


def _insert_each(jobs: Sequence[JobRow]) -> Each:
    events = list(map(event_of, jobs, new_ids(len(jobs))))
    return each(
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


def as_completed(job: JobRow, result: bytes | None, at: int) -> JobRow:
    """The row of a claimed job that nobody but its claim has touched, once that has completed it."""
    return msgspec.structs.replace(
        job,
        state=State.COMPLETED,
        result=result,
        error=None,
        lease_expires_at=None,
        completed_at=at,
        updated_at=at,
        transitions=job.transitions + 1,
    )


def _insert_events_of(moves: Sequence[Moved]) -> Program[None]:
    ids = [m.id for m in moves if m.has_callback and has_event_in(m.state, m.callback_events)]
    if ids:
        rows = yield one("callback_jobs", ids=ids)
        yield from insert_events(jobs_from(rows))


def free_locked_keys(freed: Mapping[str, int]) -> Program[None]:
    """So many jobs of these keys, whose locks are held where there are any, have ended: as many parked ones may go."""
    # One look for all: few keys have parked jobs, and a turn may free a hundred keys.
    yield from unpark(freed, [row[0] for row in (yield one("parked_keys", keys=sorted(freed)))])


def unpark(freed: Mapping[str, int], full: Iterable[str]) -> Program[None]:
    """`full`: which of these keys have parked jobs."""
    if names := sorted(full):
        yield each("unpark", limit_key=names, limit=[freed[name] for name in names])


def _follow(ended: Mapping[str, State], release: Release | None) -> Program[list[Moved]]:
    completed = [job_id for job_id, state in ended.items() if state is State.COMPLETED]
    if release is not None and completed and (yield from release(completed)) and len(completed) == len(ended):
        return []
    return (yield from _resolve_dependents(ended))


def _resolve_dependents(ended: Mapping[str, State], postponed: list[int] | None = None) -> Program[list[Moved]]:
    """Count down what waits for these jobs; returns the dependents that moved, if anything may follow from it. Most
    wait for one job, which completed: they are released without an answer, or by the caller (`postponed`)."""
    rows = yield one("waiting_dependents", ids=list(ended))
    waiting: dict[str, tuple[str, int]] = {}
    ends: dict[str, list[str]] = {}
    with_callbacks: set[str] = set()
    numbers: dict[str, list[int]] = {}
    for depends_on, job_id, kind, pending, has_callback, *number in rows:
        waiting[job_id] = (kind, pending)
        numbers[job_id] = number
        ends.setdefault(job_id, []).append(depends_on)
        if has_callback:
            with_callbacks.add(job_id)
    completed = {job_id for job_id, state in ended.items() if state is State.COMPLETED}
    released = [
        job_id
        for job_id, (kind, pending) in waiting.items()
        if pending == len(ends[job_id])
        and kind in KINDS
        and job_id not in with_callbacks
        and completed.issuperset(ends[job_id])
    ]
    if released:
        # SQLite goes by their numbers, Postgres by their ids.
        seqs = [seq for job_id in released for seq in numbers[job_id]]
        if postponed is None:
            yield one("release_dependents", ids=released, seqs=seqs)
        else:
            postponed += seqs
        for job_id in released:
            del waiting[job_id]
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
