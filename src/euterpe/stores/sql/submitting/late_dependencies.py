"""Dependencies of jobs that were submitted inside a caller's transaction, watched after its commit.

Such a submit locks nobody's job: the caller may keep its transaction open for minutes, and heartbeats and settlements
of what it depends on must go on. So the end of a dependency may pass unseen until the rows it left are found here:
the dependencies are held for a moment, what already ended is counted, and the rest is marked, as a submit of our own
does. A job is never let go too early: it begins with all that had not ended when it was submitted.
"""

from __future__ import annotations

from collections.abc import Mapping

from euterpe.model.dependency import Dependency, end_of_dependent, gravest, waits_for
from euterpe.model.job import JobRow
from euterpe.model.state import TERMINAL, By, State, check_move
from euterpe.stores.sql.jobs.effects import apply_effects, dependency_error, unreadable_dependency
from euterpe.stores.sql.program import Program, each, one
from euterpe.stores.sql.rows import jobs_from
from euterpe.stores.sql.submitting.plan import hold


def watch_dependencies(limit: int) -> Program[int]:
    """Safe to run again: what is watched already is counted anew, with the same result."""
    rows = yield one("unwatched", limit=limit)
    if not rows:
        return 0
    asked: dict[str, set[str]] = {row[0]: set(row[1].split()) for row in rows}
    stored = yield one("get_jobs", ids=list(asked))
    waiting = [job for job in jobs_from(stored) if job.state is State.PENDING]
    if waiting:
        yield from _watch(waiting, asked)
    yield one("delete_unwatched", ids=list(asked))
    return len(rows)


def _watch(waiting: list[JobRow], asked: Mapping[str, set[str]]) -> Program[None]:
    edges = {job.id: set(asked[job.id]) for job in waiting}
    for job_id, depends_on in (yield one("dependencies_of", ids=list(edges))):
        edges[job_id].add(depends_on)
    roots = {d for job in waiting if job.dependency == Dependency.FAN_IN for d in asked[job.id]}
    known, family = yield from hold(set().union(*edges.values()), roots)
    states = {d: known[d].state for d in known}
    states |= yield from _ends_of_pruned({d for found in edges.values() for d in found} - known.keys())
    spawned = {
        job.id: {c for root in asked[job.id] for c in family.get(root, ())} - edges[job.id]
        for job in waiting
        if job.dependency == Dependency.FAN_IN
    }
    late = [(job_id, child) for job_id, children in spawned.items() for child in sorted(children)]
    if late:
        job_ids, children = [job_id for job_id, _ in late], [child for _, child in late]
        yield each("insert_dependency", job_id=job_ids, depends_on=children, position=[None] * len(late))
    open_ids = sorted({d for d in known if states[d] not in TERMINAL})
    if open_ids:
        yield one("mark_has_dependents", ids=open_ids)
    plan = [_plan(job, {d: states[d] for d in edges[job.id] | spawned.get(job.id, set())}) for job in waiting]
    moved = yield each(
        "resolve_dependent",
        id=[p[0] for p in plan],
        pending=[p[1] for p in plan],
        state=[p[2] for p in plan],
        error=[p[3] for p in plan],
    )
    # None of them ran, so none frees a concurrency key.
    yield from apply_effects(row for row in moved if row[1] != State.PENDING)


def _plan(job: JobRow, dependencies: Mapping[str, State]) -> tuple[str, int, State, str | None]:
    try:
        kind = Dependency(job.dependency or Dependency.AFTER)
    except ValueError:
        return unreadable_dependency(job.id)
    ended = {d: state for d, state in dependencies.items() if state in TERMINAL}
    bad_end = end_of_dependent(kind, list(ended.values()))
    if bad_end is not None:
        check_move(State.PENDING, bad_end, By.DEPENDENCY)
        culprit = gravest(ended)
        return job.id, 0, bad_end, dependency_error(culprit, ended[culprit])
    pending = waits_for(kind, len(dependencies) - len(ended), len(ended))
    return job.id, pending, State.PENDING if pending else State.SCHEDULED, None


def _ends_of_pruned(gone: set[str]) -> Program[dict[str, State]]:
    """Retention may have been faster. What left no tombstone either can only have been thrown away."""
    if not gone:
        return {}
    rows = yield one("ends_of_pruned", ids=sorted(gone))
    return dict.fromkeys(gone, State.DEAD_LETTER) | {row[0]: State(row[1]) for row in rows}
