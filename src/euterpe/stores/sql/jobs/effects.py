"""What a change of state brings with it, in the same transaction: its event, its dependents, its concurrency key.

Every path that moves a job (settle, sweep, cancel, lifetime, submit) ends here, so no end can strand a dependent
and no event can be missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
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
from euterpe.stores.sql.jobs.keys import admit
from euterpe.stores.sql.program import Each, Program, Row, each, one
from euterpe.stores.sql.rows import Moved, jobs_from, moved_from

KINDS: Final = frozenset(map(str, Dependency))
FEW_UNIFORM: Final = 4
"""For fewer events that differ in ids alone, a statement of their own is not worth it."""


def apply_effects(
    rows: Iterable[Row], *, ran: bool = False, waits_us: Mapping[str, int] | None = None
) -> Program[None]:
    """Tell, release and end what hangs on these moves; ends of dependents are followed in turn. `ran`: these jobs were
    running until now. `waits_us` is how long the rates of keys are to rest."""
    moves = moved_from(row for row in rows if row[2] or row[3] or row[5])
    keys = Counter(m.limit_key for m in moves if m.limit_key is not None)
    entered = yield from _insert_events_and_follow(moves)
    freed = {key: count if ran else 0 for key, count in keys.items()}
    # Last and all at once: nobody who holds a key may wait for a row, nor for a second round of keys.
    left = [] if ran else [(m.limit_key, m.id) for m in moves if m.limit_key is not None]
    yield from admit(dict.fromkeys(entered, 0) | freed, left=left, waits_us=waits_us)


def follow_completed(job_ids: Iterable[str]) -> Program[set[str]]:
    """Follow jobs that completed, of which nobody is told, on SQLite. Returns the keys of what became ready."""
    keys: set[str] = set()
    moves = yield from _resolve_dependents(dict.fromkeys(job_ids, State.COMPLETED), keys)
    return keys | (yield from _insert_events_and_follow(moves))


def _insert_events_and_follow(moves: Sequence[Moved]) -> Program[set[str]]:
    """Returns the concurrency keys of the dependents that became ready or ended."""
    keys: set[str] = set()
    while moves:
        yield from _insert_events_of(moves)
        ended = {m.id: m.state for m in moves if m.has_dependents and m.state in TERMINAL}
        moves = (yield from _resolve_dependents(ended, keys)) if ended else []
        keys |= {m.limit_key for m in moves if m.limit_key is not None}
    return keys


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


def _resolve_dependents(ended: Mapping[str, State], keys: set[str]) -> Program[list[Moved]]:
    """Count down what waits for these jobs; returns the dependents that moved, if anything may follow from it. Most
    wait for one job, which completed: they are released without an answer. The concurrency keys of those are added to
    `keys`."""
    rows = yield one("waiting_dependents", ids=list(ended))
    waiting: dict[str, tuple[str, int]] = {}
    ends: dict[str, list[str]] = {}
    with_callbacks: set[str] = set()
    numbers: dict[str, tuple[int, str | None]] = {}
    for depends_on, job_id, kind, pending, has_callback, *number in rows:
        waiting[job_id] = (kind, pending)
        if number:
            numbers[job_id] = (number[0], number[1])
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
        # SQLite goes by their numbers, and knows their keys before; Postgres goes by their ids.
        known = [numbers[job_id] for job_id in released if job_id in numbers]
        keys.update(key for _, key in known if key is not None)
        rows = yield one("release_dependents", ids=released, seqs=[seq for seq, _ in known])
        keys.update(row[0] for row in rows if row[0] is not None)
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
        return unreadable_dependency(job_id)
    bad_end = end_of_dependent(kind, [ended[i] for i in ended_ids])
    if bad_end is not None:
        check_move(State.PENDING, bad_end, By.DEPENDENCY)
        culprit = gravest({i: ended[i] for i in ended_ids})
        return job_id, 0, bad_end, dependency_error(culprit, ended[culprit])
    left = 0 if kind is Dependency.AFTER_ANY else pending - len(ended_ids)
    return job_id, max(left, 0), State.PENDING if left > 0 else State.SCHEDULED, None


def unreadable_dependency(job_id: str) -> tuple[str, int, State, str]:
    """The end of a job whose kind of dependency is unknown: it ends alone."""
    check_move(State.PENDING, State.DEAD_LETTER, By.DEPENDENCY)
    error = unprocessable("dependency cannot be read").as_error(0, retryable=False)
    return job_id, 0, State.DEAD_LETTER, msgspec.json.encode(error).decode()


def dependency_error(depends_on: str, end: State) -> str:
    """The error of a job that ended because of another."""
    category = Category.CANCELLED if end is State.CANCELLED else Category.PERMANENT
    failure = Failure(category, f"its dependency {depends_on} ended {end}", code="dependency_ended")
    return msgspec.json.encode(failure.as_error(0, retryable=False)).decode()
