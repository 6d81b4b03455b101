"""Replaying a job with its place in the graph: behind what it waited for, and before what ended with it.

One transaction. Each replayed job has an idempotency key of its own, so that a second replay makes no second job, and a
job that depended on two dead ones finds the replay of the first when the second is replayed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from euterpe.model.dependency import MAX_EDGES, Dependency, in_order
from euterpe.model.errors import DependencyLimit, EuterpeError, IllegalTransition
from euterpe.model.job import JobRow
from euterpe.model.state import TERMINAL, State
from euterpe.model.submitting.batch import Draft, SubmitResult, Unit, new_ids
from euterpe.model.submitting.references import has_references
from euterpe.model.submitting.replay import replay_of
from euterpe.model.submitting.replayed import REPLAY_KEY, Replayed
from euterpe.model.submitting.submission import Submission, check, idempotency_scope
from euterpe.stores.sql.maintenance.operator import hold, schedule_again
from euterpe.stores.sql.program import Program, each, one
from euterpe.stores.sql.rows import jobs_from
from euterpe.stores.sql.submitting.submit import Answer, submit, submit_again

DEPENDENCY_ENDED: Final = "dependency_ended"


def replay(job_id: str, requester_id: str | None, payload_limit: int, key_window_us: int) -> Program[Replayed]:
    """IllegalTransition: it has not ended, or something that it waits for has ended badly and is not replayed yet."""
    job = yield from hold(job_id, requester_id)
    if job.state not in TERMINAL:
        raise IllegalTransition(job.state, State.SCHEDULED, "only an ended job can be replayed")
    return (yield from replay_held(job, payload_limit, key_window_us))


def replay_held(job: JobRow, payload_limit: int, key_window_us: int, *, as_itself: bool = True) -> Program[Replayed]:
    """The same for an ended job that this transaction holds. `as_itself`: a failed one with budget left goes on."""
    ended = yield from _ended_with(job)
    waits = yield from _waits(ended)
    made = yield from _made_before(ended)
    outside = yield from _outside(ended, waits)
    goes_on = as_itself and _may_run_as_itself(job) and job.id not in made
    stands_for = {job_id: submitted.job_id for job_id, submitted in made.items()}
    if goes_on:
        stands_for[job.id] = job.id
    drafts = _drafts(job, ended, waits, outside, stands_for)
    for draft in drafts:
        check(draft.submission, payload_limit)
    # Nothing is written before all is checked: an operation on many goes on in the same transaction after a refusal.
    again = (yield from schedule_again(job)) if goes_on else None
    stored = yield from _store(drafts, key_window_us)
    if again is not None:
        return Replayed(again, stored)
    return Replayed(made[job.id], stored) if job.id in made else Replayed(stored[0], stored[1:])


def _store(drafts: list[Draft], key_window_us: int) -> Program[list[SubmitResult]]:
    if not drafts:
        return []
    (answer,) = yield from submit_and_mark([Unit(tuple(drafts))], key_window_us)
    if isinstance(answer, EuterpeError):
        raise answer
    return answer


def _mark_replayed(replays: Iterable[tuple[str | None, str]]) -> Program[None]:
    """Each (ended job, the job that runs it again), in the transaction that stores the latter."""
    marks = sorted((old, new) for old, new in replays if old is not None)
    if marks:
        yield each("mark_replayed", id=[old for old, _ in marks], replayed_as=[new for _, new in marks])


def are_replays(units: Iterable[Unit]) -> bool:
    """Whether a job of these runs another one again."""
    for unit in units:  # As in `are_simple`: for every submit.
        for said in unit.said:
            if said.replay_of is not None:
                return True
    return False


def submit_and_mark(units: Sequence[Unit], key_window_us: int) -> Program[list[Answer]]:
    """Store units; what they replay is marked in the same transaction."""
    answers = yield from submit(units, key_window_us=key_window_us)
    yield from _mark_stored(units, answers)
    return answers


def submit_again_and_mark(units: Sequence[Unit], key_window_us: int) -> Program[list[Answer]]:
    """The same after a lost answer: the marks may have been lost with it."""
    answers = yield from submit_again(units, key_window_us=key_window_us)
    yield from _mark_stored(units, answers)
    return answers


def _mark_stored(units: Sequence[Unit], answers: Sequence[Answer]) -> Program[None]:
    if are_replays(units):
        stored = [
            (draft.submission.replay_of, submitted.job_id)
            for unit, answer in zip(units, answers, strict=True)
            if not isinstance(answer, EuterpeError)
            for draft, submitted in zip(unit.drafts, answer, strict=True)
        ]
        yield from _mark_replayed(stored)


def with_results(job: JobRow) -> Program[Submission]:
    """The replay of one job alone. It waits for nothing, unless its payload refers to results: those it needs."""
    replay = replay_of(job)
    if not has_references(job.payload):
        return replay
    waits = (yield from _waits({job.id: job}))[job.id]
    return msgspec.structs.replace(replay, depends_on=waits.ids, dependency=waits.kind)


def _may_run_as_itself(job: JobRow) -> bool:
    return job.state is State.FAILED and job.attempt_count < job.max_attempts and not ended_by_another(job)


def ended_by_another(job: JobRow) -> bool:
    """Whether it ended because a job that it waited for did."""
    error = job.error_document
    return job.state is not State.COMPLETED and error is not None and error.get("code") == DEPENDENCY_ENDED


def _ended_with(job: JobRow) -> Program[dict[str, JobRow]]:
    """The job, and all that ended because of it, directly or not."""
    ended = {job.id: job}
    edge = [job.id] if job.state is not State.COMPLETED else []
    while edge:
        rows = yield one("dependents_of", ids=edge)
        fresh = sorted({row[0] for row in rows} - ended.keys())
        found = jobs_from((yield one("get_jobs", ids=fresh))) if fresh else []
        edge = [dependent.id for dependent in found if ended_by_another(dependent)]
        ended |= {dependent.id: dependent for dependent in found if dependent.id in set(edge)}
        if len(ended) > MAX_EDGES:
            raise DependencyLimit("job_id", f"more than {MAX_EDGES} jobs ended with {job.id}; replay them in parts")
    return ended


class Waits(msgspec.Struct, frozen=True):
    """How a job waited, and for what, in the order in which it was said."""

    kind: Dependency
    ids: tuple[str, ...]


def _waits(jobs: Mapping[str, JobRow]) -> Program[dict[str, Waits]]:
    """A fan-in on a parent that is replayed waits for what that will spawn anew. On one that completed, it waits for
    the children that are there. Edges older than the column know no order."""
    named: dict[str, list[str]] = {job_id: [] for job_id in jobs}
    more: dict[str, list[str]] = {job_id: [] for job_id in jobs}
    for job_id, depends_on, position in (yield one("dependency_ids", ids=list(jobs))):
        (more if position is None else named)[job_id].append(depends_on)
    waits: dict[str, Waits] = {}
    for job_id, job in jobs.items():
        kind = Dependency.AFTER if job.dependency is None else Dependency(job.dependency)
        ids = named[job_id] or more[job_id]
        if kind is Dependency.FAN_IN and named[job_id] and not jobs.keys() & set(named[job_id]):
            kind, ids = Dependency.AFTER, [*named[job_id], *more[job_id]]
        waits[job_id] = Waits(kind, tuple(ids))
    return waits


def _made_before(ended: Mapping[str, JobRow]) -> Program[dict[str, SubmitResult]]:
    """The replays of these jobs that are remembered."""
    made: dict[str, SubmitResult] = {}
    for job in ended.values():
        submitted = yield from _replay_made_of(job)
        if submitted is not None:
            made[job.id] = submitted
    return made


def _replay_made_of(job: JobRow) -> Program[SubmitResult | None]:
    scope = idempotency_scope(job.requester_id, job.type)
    rows = yield one("existing_keys", scope=scope, key=f"{REPLAY_KEY}{job.id}")
    return SubmitResult.replay(bytes(rows[0][2])) if rows and rows[0][2] is not None else None


def _outside(ended: Mapping[str, JobRow], waits: Mapping[str, Waits]) -> Program[dict[str, str | None]]:
    """What these jobs wait for beside each other: the id that stands for it now; None where it ended badly and nothing
    replays it."""
    ids = sorted({d for waiting in waits.values() for d in waiting.ids} - ended.keys())
    stands_for: dict[str, str | None] = {}
    for job in jobs_from((yield one("get_jobs", ids=ids))) if ids else []:
        stands_for[job.id] = yield from _alive(job)
    return stands_for


def _alive(job: JobRow) -> Program[str | None]:
    """The job itself, or the latest of its replays, where that has not ended badly."""
    latest = job
    while latest.state in TERMINAL and latest.state is not State.COMPLETED:
        submitted = yield from _replay_made_of(latest)
        found = jobs_from((yield one("get_jobs", ids=[submitted.job_id]))) if submitted is not None else []
        if not found:
            return None
        (latest,) = found
    return latest.id


def _drafts(
    first: JobRow,
    ended: Mapping[str, JobRow],
    waits: Mapping[str, Waits],
    outside: Mapping[str, str | None],
    stands_for: dict[str, str],
) -> list[Draft]:
    """The first job, where it is not scheduled again as itself, then its dependents. One that also waits for another
    dead job stays dead until that one is replayed, and so does what is behind it."""
    drafts: list[Draft] = []
    for job_id in in_order({job_id: waits[job_id].ids for job_id in ended}):
        if job_id in stands_for:
            continue
        job, kind, ids = ended[job_id], waits[job_id].kind, waits[job_id].ids
        # What is in neither was pruned: nothing waits for it any more.
        now = {d: stands_for.get(d) if d in ended else outside[d] for d in ids if d in ended or d in outside}
        dead = next((d for d, replayed in now.items() if replayed is None), None)
        if dead is not None and kind is not Dependency.AFTER_ANY:
            if job_id == first.id:
                why = f"its dependency {dead} ended badly; replay that one, and this one runs behind it"
                raise IllegalTransition(job.state, State.SCHEDULED, why)
            continue
        (new_id,) = new_ids(1)
        stands_for[job_id] = new_id
        needed = tuple(replayed or d for d, replayed in now.items())
        if has_references(job.payload):
            # Results count by place: one that retention removed must be missed, not passed over.
            needed = tuple(now.get(d) or d for d in ids)
        submission = msgspec.structs.replace(
            replay_of(job), depends_on=needed, dependency=kind, idempotency_key=f"{REPLAY_KEY}{job_id}"
        )
        drafts.append(Draft(new_id, submission))
    return sorted(drafts, key=lambda draft: draft.submission.replay_of != first.id)
