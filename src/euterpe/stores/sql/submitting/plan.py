"""Working out how each job of a submit starts: what it waits for, how urgent and how deep it is."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from euterpe.model.dependency import (
    Dependency,
    check_breadth,
    check_edges,
    depth_above,
    end_of_dependent,
    gravest,
    in_order,
    waits_for,
)
from euterpe.model.errors import DependencyLimit, EuterpeError, InvalidInput, StaleLease, UnknownDependency
from euterpe.model.job import JobRow
from euterpe.model.priority import inherit
from euterpe.model.state import TERMINAL, State
from euterpe.model.submitting.batch import Draft, Parent, Unit, as_stored
from euterpe.stores.sql.jobs.effects import dependency_error
from euterpe.stores.sql.program import Program, each, one
from euterpe.stores.sql.rows import jobs_from


class PlannedJob(msgspec.Struct, frozen=True):
    """A draft and how it starts. `fan_ins` are the pending jobs that will wait for this spawned one too."""

    draft: Draft
    state: State
    priority: int | None = None
    error: str | None = None
    pending: int = 0
    depth: int = 1
    has_dependents: bool = False
    parent_id: str | None = None
    edges: tuple[str, ...] = ()
    fan_ins: tuple[str, ...] = ()


class Known(msgspec.Struct, frozen=True):
    """A dependency as planning sees it, stored already or in the same unit."""

    id: str
    state: State
    priority: int
    depth: int
    requester_id: str


Plan = list[PlannedJob] | EuterpeError


def plan_units(units: Mapping[int, Unit], *, may_hold: bool = True) -> Program[dict[int, Plan]]:
    """A plan, or the error that rejects the unit. What is depended on is held until the transaction ends; in one that
    may not do that, because somebody else ends it, the sweep `watch_dependencies` does it later."""
    units = {i: _with_stored_ids(unit) for i, unit in units.items()}
    outside = {i: _outside_dependencies(unit) for i, unit in units.items()}
    wanted = set().union(*outside.values()) if outside else set()
    known, family = yield from hold(wanted, _fan_in_roots(units), may_hold=may_hold)
    now_us = yield from _clock_for(units)
    plans: dict[int, Plan] = {}
    waiting: dict[str, list[str]] = {}
    for i, unit in units.items():
        try:
            check_run_times(unit, now_us)
            parent, fan_ins = (yield from _hold_parent(unit.parent)) if unit.parent else (None, ())
            plan = _plan_unit(unit, known, family, parent, fan_ins)
        except EuterpeError as rejected:
            plans[i] = rejected
            continue
        plans[i] = plan
        waiting |= {job.draft.id: held for job in plan if job.pending and (held := _among(known, job.edges))}
    if waiting and may_hold:
        yield one("mark_has_dependents", ids=sorted({d for outside in waiting.values() for d in outside}))
    elif waiting:
        yield each(
            "insert_unwatched", job_id=list(waiting), depends_on=[" ".join(outside) for outside in waiting.values()]
        )
    return plans


def _clock_for(units: Mapping[int, Unit]) -> Program[int]:
    """The database's time, where a submission names a time of day."""
    if all(draft.submission.run_at is None for unit in units.values() for draft in unit.drafts):
        return 0
    ((now_us,),) = yield one("clock")
    return int(now_us)


def check_run_times(unit: Unit, now_us: int) -> None:
    """A job that is due only when its lifetime is over would end without ever having run."""
    for draft in unit.drafts:
        s = draft.submission
        if s.run_at is not None and s.run_at >= now_us + s.lifetime_us:
            raise InvalidInput("run_at", "lies beyond the lifetime: the job would end before it could run")


def _among(known: Mapping[str, Known], edges: tuple[str, ...]) -> list[str]:
    return [d for d in edges if d in known]


def _with_stored_ids(unit: Unit) -> Unit:
    """Dependencies as their ids are stored; what can be no id stays as it is, and is unknown later."""
    drafts = []
    for draft in unit.drafts:
        said = draft.submission.depends_on
        stored = tuple(as_stored(d) or d for d in said)
        if stored != said:
            draft = Draft(draft.id, msgspec.structs.replace(draft.submission, depends_on=stored))
        drafts.append(draft)
    return msgspec.structs.replace(unit, drafts=tuple(drafts))


def _outside_dependencies(unit: Unit) -> set[str]:
    own = {draft.id for draft in unit.drafts}
    return {d for draft in unit.drafts for d in draft.submission.depends_on if as_stored(d)} - own


def _fan_in_roots(units: Mapping[int, Unit]) -> set[str]:
    return {
        d
        for unit in units.values()
        for draft in unit.drafts
        if draft.submission.dependency is Dependency.FAN_IN
        for d in draft.submission.depends_on
    }


def hold(
    wanted: set[str], roots: set[str], *, may_hold: bool = True
) -> Program[tuple[dict[str, Known], dict[str, tuple[str, ...]]]]:
    """Lock the dependencies, and for fan-ins all that their parents spawned, until no new child can slip in."""
    known: dict[str, Known] = {}
    family: dict[str, tuple[str, ...]] = {}
    missing = set(wanted)
    while missing:
        rows = yield one("get_jobs_for_update" if may_hold else "get_jobs", ids=sorted(missing))
        for job in jobs_from(rows):
            known[job.id] = Known(job.id, job.state, job.priority, job.depth, job.requester_id)
        missing = set()
        for root in sorted(roots & known.keys()):
            spawned = yield one("spawned_by", ids=[root])
            family[root] = tuple(row[0] for row in spawned)
            missing |= set(family[root]) - known.keys()
    return known, family


def _hold_parent(parent: Parent) -> Program[tuple[JobRow, tuple[str, ...]]]:
    rows = yield one("hold_claim", id=parent.job_id, claim_version=parent.claim_version, in_time=parent.in_time)
    if not rows:
        raise StaleLease(parent.job_id, parent.claim_version)
    fan_ins = yield one("fan_ins_of", id=parent.job_id)
    return jobs_from(rows)[0], tuple(row[0] for row in fan_ins)


def _plan_unit(
    unit: Unit,
    outside: Mapping[str, Known],
    family: Mapping[str, tuple[str, ...]],
    parent: JobRow | None,
    fan_ins: tuple[str, ...],
) -> list[PlannedJob]:
    drafts = {draft.id: draft for draft in unit.drafts}
    known = dict(outside)
    needed = {d for draft in unit.drafts for d in draft.submission.depends_on}
    planned: dict[str, PlannedJob] = {}
    for draft_id in in_order({i: d.submission.depends_on for i, d in drafts.items()}):
        draft = drafts[draft_id]
        job = _plan_job(draft, known, family, parent, fan_ins, has_dependents=draft_id in needed)
        planned[draft_id] = job
        priority = draft.submission.priority if job.priority is None else job.priority
        known[draft_id] = Known(draft_id, job.state, priority, job.depth, draft.submission.requester_id)
    # Again, since a fan-in waits for all that its parents spawned, which nobody counted before.
    check_edges(sum(len(job.edges) + len(job.fan_ins) for job in planned.values()))
    return [planned[draft.id] for draft in unit.drafts]


def _plan_job(
    draft: Draft,
    known: Mapping[str, Known],
    family: Mapping[str, tuple[str, ...]],
    parent: JobRow | None,
    fan_ins: tuple[str, ...],
    *,
    has_dependents: bool,
) -> PlannedJob:
    s = draft.submission
    edges = _edges(draft, known, family)
    dependencies = [known[d] for d in edges]
    finished = [d for d in dependencies if d.state in TERMINAL]
    end = end_of_dependent(s.dependency, [d.state for d in finished])
    pending = waits_for(s.dependency, len(dependencies) - len(finished), len(finished))
    error = None
    if end is not None:
        culprit = gravest({d.id: d.state for d in finished})
        error, pending = dependency_error(culprit, known[culprit].state), 0
    return PlannedJob(
        draft,
        end or (State.PENDING if pending else State.SCHEDULED),
        priority=inherit(s.priority, (d.priority for d in dependencies)),
        error=error,
        pending=pending,
        depth=_depth(dependencies),
        has_dependents=has_dependents or bool(fan_ins),
        parent_id=parent.id if parent else None,
        edges=edges,
        fan_ins=fan_ins,
    )


def _edges(draft: Draft, known: Mapping[str, Known], family: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    s = draft.submission
    check_breadth(s.depends_on)
    for d in s.depends_on:
        if d not in known or known[d].requester_id != s.requester_id:
            raise UnknownDependency("depends_on", f"there is no job {d[:100]!r}")
    edges = dict.fromkeys(s.depends_on)
    if s.dependency is Dependency.FAN_IN:
        for d in s.depends_on:
            edges.update(dict.fromkeys(family.get(d, ())))
    return tuple(edges)


def _depth(dependencies: list[Known]) -> int:
    try:
        return depth_above(d.depth for d in dependencies)
    except DependencyLimit as too_deep:
        raise too_deep from None
