"""Storing jobs: any number of all-or-nothing units in one transaction, each accepted or rejected on its own.

The order inside the transaction is the protocol: the idempotency key is taken first, dependencies are held, then
jobs, edges and events are written, and last the answer that every replay of the key will get.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from euterpe.model.errors import CommitUnknown, EuterpeError, IdempotencyConflict, InvalidInput
from euterpe.model.priority import PRIORITY_NAMES
from euterpe.model.reading.document import rfc3339
from euterpe.model.state import TERMINAL, State
from euterpe.model.submitting.batch import AS_SAID, Draft, SubmitResult, Unit
from euterpe.model.submitting.submission import (
    IDEMPOTENCY_WINDOW_US,
    Submission,
    batch_scope,
    idempotency_scope,
    request_hash,
)
from euterpe.stores.sql.jobs.effects import apply_effects
from euterpe.stores.sql.jobs.keys import admit, admit_after_commit
from euterpe.stores.sql.program import Program, each, one
from euterpe.stores.sql.rows import limit_key
from euterpe.stores.sql.statements import Family
from euterpe.stores.sql.submitting.plan import PlannedJob, plan_units
from euterpe.stores.sql.submitting.uniform_batch import insert_uniform, uniform_statement
from euterpe.stores.sql.submitting.unique import find_unique, kept_for, unique_keys

Key = tuple[str, str]
Answer = list[SubmitResult] | EuterpeError
Replays = dict[int, dict[str, SubmitResult]]


class KeyClaim(msgspec.Struct, frozen=True):
    """One idempotency key a unit asks for."""

    key: Key
    request_hash: bytes
    job_id: str
    draft: Draft | None
    """The submission it covers; None when it covers the whole unit."""
    window_us: int


def are_simple(units: Iterable[Unit]) -> bool:
    """No key, dependency, parent or time of day to look at: the whole transaction is one insert."""
    for unit in units:  # Not `all(...)`: a generator costs more than what it looks at.
        if unit.key is not None or unit.parent is not None:
            return False
        for s in unit.said:
            if s.depends_on or s.run_at is not None:
                return False
            if s.idempotency_key is not None or s.unique_key is not None or s.concurrency_key is not None:
                return False
    return True


def submit_simple(units: Sequence[Unit], family: Family, channel: str | None = None) -> Program[list[Answer]]:
    """The one-statement case, without a transaction around it. With a channel, the commit of a lone job notifies."""
    drafts = units[0].drafts if len(units) == 1 else [draft for unit in units for draft in unit.drafts]
    statement = uniform_statement(units, drafts, family, channel)
    if statement is None:
        stored = yield from _insert([PlannedJob(draft, State.SCHEDULED) for draft in drafts])
        return [[stored[draft.id] for draft in unit.drafts] for unit in units]
    state, created_at = yield from insert_uniform(statement)
    first = _submit_result(drafts[0], None, state, created_at)
    if len(drafts) == 1:
        return [[first]]
    return [[msgspec.structs.replace(first, job_id=draft.id) for draft in unit.drafts] for unit in units]


def submit(
    units: Sequence[Unit], *, may_hold: bool = True, key_window_us: int = IDEMPOTENCY_WINDOW_US
) -> Program[list[Answer]]:
    """Store units; an answer each, in order: its answers, or the error that rejected it.

    `may_hold` is false in a transaction that may stay open for long: it must not lock jobs that others work on.
    `key_window_us` is for submissions that name no window of their own."""
    answers: dict[int, Answer] = {}
    replays: Replays = {}
    claims = {i: key_claims(unit, key_window_us) for i, unit in enumerate(units)}
    for i, wanted in claims.items():
        if len({c.key for c in wanted}) < len(wanted):
            answers[i] = InvalidInput("idempotency_key", "the same key stands twice in one batch")
    uniques = {i: [key for key, _ in unique_keys(unit)] for i, unit in enumerate(units)}
    for i, named in uniques.items():
        if len(set(named)) < len(named):
            answers[i] = InvalidInput("unique_key", "the same key stands twice in one batch")
    waiting = [i for i in claims if i not in answers]
    while waiting:
        # Two units with one key cannot both be first: the later one goes round again and finds the key taken.
        now, waiting = _first_of_each_key(waiting, claims, uniques)
        yield from _take_keys({i: claims[i] for i in now}, answers, replays)
        fresh = [i for i in now if i not in answers]
        if any(uniques[i] for i in fresh):
            yield from find_unique({i: units[i] for i in fresh}, replays)
        yield from _store(fresh, units, claims, answers, replays, may_hold=may_hold)
        yield from _replay_taken({i: claims[i] for i in waiting}, answers, replays)
        waiting = [i for i in waiting if i not in answers]
    return [answers[i] for i in range(len(units))]


def submit_joined(
    unit: Unit, family: Family, channel: str | None = None, *, key_window_us: int = IDEMPOTENCY_WINDOW_US
) -> Program[list[SubmitResult]]:
    """One unit in a transaction that others will end: a rejection is raised, so that its traces are rolled back."""
    # SQLite has one writer: as long as the caller's transaction is open, nobody else can end a job.
    may_hold = family == "sqlite"
    if are_simple([unit]):
        (answer,) = yield from submit_simple([unit], family)
    else:
        (answer,) = yield from submit([unit], may_hold=may_hold, key_window_us=key_window_us)
    if isinstance(answer, EuterpeError):
        raise answer
    ready = {submitted.queue for submitted in answer if submitted.state == State.SCHEDULED and not submitted.replayed}
    if channel is not None and ready:
        yield one("announce", channel=channel, queues=sorted(ready))
    return answer


def submit_again(units: Sequence[Unit], *, key_window_us: int = IDEMPOTENCY_WINDOW_US) -> Program[list[Answer]]:
    """After a lost answer: what is stored already is answered from its rows, the rest is stored now."""
    rows = yield one("existing_ids", ids=[draft.id for unit in units for draft in unit.drafts])
    stored = {row[0]: _StoredRow(row[1], row[2], row[3]) for row in rows}
    answers: dict[int, Answer] = {}
    for i, unit in enumerate(units):
        if any(draft.id in stored for draft in unit.drafts):
            answers[i] = yield from _answer_stored(unit, stored)
    rest = [i for i in range(len(units)) if i not in answers]
    again = yield from submit([units[i] for i in rest], key_window_us=key_window_us)
    answers.update(zip(rest, again, strict=True))
    return [answers[i] for i in range(len(units))]


class _StoredRow(NamedTuple):
    priority: int
    state: str
    created_at: int


def _answer_stored(unit: Unit, stored: Mapping[str, _StoredRow]) -> Program[Answer]:
    """A unit is stored whole. A key has kept the answer word for word; without one the row tells. A draft without a
    row was answered by the job that had its unique key."""
    kept: dict[str | None, bytes] = {}
    for claim in key_claims(unit):
        known = yield one("existing_keys", scope=claim.key[0], key=claim.key[1])
        kept[claim.draft.id if claim.draft is not None else None] = bytes(known[0][2])
    if None in kept:
        return msgspec.json.decode(kept[None], type=list[SubmitResult])
    submit_results = []
    for draft in unit.drafts:
        if draft.id in kept:
            # What is not there under its own id was stored long ago, and only replayed.
            replayed = draft.id not in stored
            submit_results.append(msgspec.structs.replace(SubmitResult.replay(kept[draft.id]), replayed=replayed))
        elif draft.id in stored:
            submit_results.append(_submit_result(draft, *stored[draft.id]))
        else:
            kept_job = yield from kept_for(draft)
            if kept_job is None:
                return CommitUnknown(
                    "the batch is stored, but which job was kept for a unique key is not known any more"
                )
            submit_results.append(kept_job)
    return submit_results


def key_claims(unit: Unit, window_us: int = IDEMPOTENCY_WINDOW_US) -> list[KeyClaim]:
    claims = [_unit_key_claim(unit, window_us)] if unit.key is not None else []
    for draft in unit.drafts:
        s = draft.submission
        if s.idempotency_key is not None:
            key = (idempotency_scope(s.requester_id, s.type), s.idempotency_key)
            claims.append(KeyClaim(key, request_hash(s), draft.id, draft, _window_us(s, window_us)))
    return claims


def _window_us(submission: Submission, default_us: int) -> int:
    return default_us if submission.idempotency_window_us is None else submission.idempotency_window_us


def _unit_key_claim(unit: Unit, window_us: int) -> KeyClaim:
    assert unit.key is not None
    position = {draft.id: f"#{i}" for i, draft in enumerate(unit.drafts)}
    said = hashlib.sha256()
    for d in unit.drafts:
        said.update(request_hash(d.submission, tuple(position.get(i, i) for i in d.submission.depends_on)))
    first = unit.drafts[0]
    scope = batch_scope(first.submission.requester_id)
    longest_us = max(_window_us(draft.submission, window_us) for draft in unit.drafts)
    return KeyClaim((scope, unit.key), said.digest(), first.id, None, longest_us)


def _first_of_each_key(
    indexes: list[int], claims: dict[int, list[KeyClaim]], uniques: dict[int, list[Key]]
) -> tuple[list[int], list[int]]:
    seen: set[tuple[bool, Key]] = set()
    now: list[int] = []
    later: list[int] = []
    for i in indexes:
        keys = {(False, claim.key) for claim in claims[i]} | {(True, key) for key in uniques[i]}
        (later if keys & seen else now).append(i)
        seen |= keys
    return now, later


def _take_keys(claims: dict[int, list[KeyClaim]], answers: dict[int, Answer], replays: Replays) -> Program[None]:
    wanted = sorted({c.key: c for i in claims for c in claims[i]}.items())
    if not wanted:
        return
    rows = yield each(
        "insert_key",
        scope=[key[0] for key, _ in wanted],
        key=[key[1] for key, _ in wanted],
        request_hash=[c.request_hash for _, c in wanted],
        job_id=[c.job_id for _, c in wanted],
        window_us=[c.window_us for _, c in wanted],
    )
    ours = {(row[0], row[1]) for row in rows}
    if len(ours) < len(wanted):
        held = {i: [c for c in cs if c.key not in ours] for i, cs in claims.items()}
        yield from _replay_taken({i: cs for i, cs in held.items() if cs}, answers, replays)
        # A unit that was answered from one key gives back the others it had just taken.
        yield from _give_back([c for i in answers if i in claims for c in claims[i] if c.key in ours])


def _replay_taken(claims: dict[int, list[KeyClaim]], answers: dict[int, Answer], replays: Replays) -> Program[None]:
    """Answer from keys that are taken: the stored answer for the same request, a conflict for another one."""
    stored: dict[Key, tuple[bytes, str, bytes | None]] = {}
    for scope, key in sorted({c.key for cs in claims.values() for c in cs}):
        for row in (yield one("existing_keys", scope=scope, key=key)):
            stored[(scope, key)] = (bytes(row[0]), row[1], row[2])
    for i, wanted in claims.items():
        known = [(c, stored[c.key]) for c in wanted if c.key in stored]
        conflict = next((c for c, (digest, _, _) in known if digest != c.request_hash), None)
        if conflict is not None:
            answers[i] = IdempotencyConflict(conflict.key[1], stored[conflict.key][1])
            continue
        for claim, (_, job_id, response) in known:
            if claim.draft is None:
                answers[i] = _batch_replay(claim, response)
                break
            replay = SubmitResult.replay(response) if response else (yield from _replay_from_row(claim.draft, job_id))
            replays.setdefault(i, {})[claim.draft.id] = replay


def stored_answer(unit: Unit) -> Program[list[SubmitResult] | None]:
    """What the idempotency keys of this unit have kept; None if not all of it is stored. Raises IdempotencyConflict."""
    answers, replays = dict[int, Answer](), Replays()
    yield from _replay_taken({0: key_claims(unit)}, answers, replays)
    answer = answers.get(0)
    if isinstance(answer, EuterpeError):
        raise answer
    kept = replays.get(0, {})
    if answer is None and all(draft.id in kept for draft in unit.drafts):
        return [kept[draft.id] for draft in unit.drafts]
    return answer


def _batch_replay(claim: KeyClaim, response: bytes | None) -> Answer:
    if response is None:
        return InvalidInput(
            "idempotency_key",
            f"{claim.key[1]!r} was taken by a batch that was cut off before its answer was stored; look for the jobs "
            "that it left, and submit the batch under another key",
        )
    submit_results = msgspec.json.decode(response, type=list[SubmitResult])
    return [msgspec.structs.replace(submitted, replayed=True) for submitted in submit_results]


def _replay_from_row(draft: Draft, job_id: str) -> Program[SubmitResult]:
    """Its submit was cut off after the job was stored and before the answer was."""
    ((_, priority, state, created_at),) = yield one("existing_ids", ids=[job_id])
    submitted = _submit_result(Draft(job_id, draft.submission), priority, state, created_at)
    return msgspec.structs.replace(submitted, replayed=True)


def _give_back(claims: Sequence[KeyClaim]) -> Program[None]:
    if claims:
        yield each("delete_key", scope=[c.key[0] for c in claims], key=[c.key[1] for c in claims])


def _store(
    fresh: Sequence[int],
    units: Sequence[Unit],
    claims: dict[int, list[KeyClaim]],
    answers: dict[int, Answer],
    replays: Replays,
    *,
    may_hold: bool,
) -> Program[None]:
    left = {i: _without(units[i], replays.get(i, {})) for i in fresh}
    plans = yield from plan_units(left, may_hold=may_hold)
    planned: list[PlannedJob] = []
    for i, plan in plans.items():
        if isinstance(plan, EuterpeError):
            answers[i] = plan
            yield from _give_back([c for c in claims[i] if c.draft is None or c.draft.id not in replays.get(i, {})])
        else:
            planned += plan
    stored = yield from _insert(planned)
    yield from _insert_edges(planned)
    yield from _follow_ended(planned)
    keys = {_limit_key(job) for job in planned if job.draft.submission.concurrency_key is not None}
    yield from admit(dict.fromkeys(keys, 0)) if may_hold else admit_after_commit(keys)
    responses: list[tuple[Key, str, bytes]] = []
    for i in plans.keys() - answers.keys():
        known = stored | replays.get(i, {})
        submit_results = [known[draft.id] for draft in units[i].drafts]
        answers[i] = submit_results
        for c in claims[i]:
            if c.draft is None:
                # The first job may be one that was stored long ago under its own key.
                responses.append((c.key, submit_results[0].job_id, msgspec.json.encode(submit_results)))
            elif c.job_id in stored:
                responses.append((c.key, c.job_id, stored[c.job_id].response))
    if responses:
        yield each(
            "store_response",
            scope=[key[0] for key, _, _ in responses],
            key=[key[1] for key, _, _ in responses],
            job_id=[job_id for _, job_id, _ in responses],
            response=[response for _, _, response in responses],
        )


def _limit_key(job: PlannedJob) -> str:
    s = job.draft.submission
    return limit_key(s.requester_id, s.concurrency_key or "")


def _without(unit: Unit, replayed: dict[str, SubmitResult]) -> Unit:
    """What is left to store of a unit; edges to a replayed job point to the one that was stored before."""
    if not replayed:
        return unit
    drafts = []
    for draft in unit.drafts:
        if draft.id not in replayed:
            s = draft.submission
            depends_on = tuple(replayed[d].job_id if d in replayed else d for d in s.depends_on)
            drafts.append(Draft(draft.id, msgspec.structs.replace(s, depends_on=depends_on)))
    return msgspec.structs.replace(unit, drafts=tuple(drafts))


def _insert(planned: Sequence[PlannedJob]) -> Program[dict[str, SubmitResult]]:
    if not planned:
        return {}
    rows = yield each("insert_job", **_columns(planned))
    stored: dict[str, SubmitResult] = {}
    for job, (job_id, state, created_at) in zip(planned, rows, strict=True):
        stored[job_id] = _submit_result(job.draft, job.priority, state, created_at)
    return stored


def _follow_ended(planned: Sequence[PlannedJob]) -> Program[None]:
    """Jobs that ended at once, by a dependency's end: their events, and the fan-ins that wait for them. Dependents in
    the same unit were planned with that end in mind."""
    moved = []
    for job in planned:
        if job.state in TERMINAL:
            s = job.draft.submission
            told = s.callback_url is not None
            moved.append((job.draft.id, job.state, bool(job.fan_ins), told, s.callback_events, None))
    yield from apply_effects(moved)


def _submit_result(draft: Draft, priority: int | None, state: str, created_at: int) -> SubmitResult:
    s = draft.submission
    return SubmitResult(
        job_id=draft.id,
        type=s.type,
        queue=s.queue,
        state=state,
        priority=PRIORITY_NAMES[s.priority if priority is None else priority],
        created_at=rfc3339(created_at) or "",
        correlation_id=s.correlation_id,
        expected_us=s.expected_us,
    )


def _columns(planned: Sequence[PlannedJob]) -> dict[str, Sequence[object]]:
    submissions = [job.draft.submission for job in planned]
    columns: dict[str, Sequence[object]] = {
        "id": [job.draft.id for job in planned],
        "state": [job.state for job in planned],
        "priority": [
            s.priority if job.priority is None else job.priority for job, s in zip(planned, submissions, strict=True)
        ],
        "stages": [s.stages_json for s in submissions],
        "retry_policy": [s.retry_json for s in submissions],
        "tags": [s.tags_json for s in submissions],
        "error": [job.error for job in planned],
        "dependency": [s.dependency if s.depends_on else None for s in submissions],
        "pending_dependencies": [job.pending for job in planned],
        "depth": [job.depth for job in planned],
        "has_dependents": [job.has_dependents for job in planned],
        "parent_id": [job.parent_id for job in planned],
    }
    for name in (*AS_SAID, "payload", "idempotency_key", "unique_key"):
        columns[name] = [getattr(s, name) for s in submissions]
    return columns


def _insert_edges(planned: Sequence[PlannedJob]) -> Program[None]:
    edges: list[tuple[str, str, int | None]] = []
    for job in planned:
        # What was said stands first, in its order; what a fan-in waits for beside it has no place.
        said = len(job.draft.submission.depends_on)
        edges += [(job.draft.id, d, place if place < said else None) for place, d in enumerate(job.edges)]
        edges += [(fan_in, job.draft.id, None) for fan_in in job.fan_ins]
    if edges:
        # Lists: psycopg takes a tuple for a row.
        job_ids, depends_on, positions = ([edge[i] for edge in edges] for i in range(3))
        yield each("insert_dependency", job_id=job_ids, depends_on=depends_on, position=positions)
    more: dict[str, int] = {}
    for job in planned:
        for fan_in in job.fan_ins:
            more[fan_in] = more.get(fan_in, 0) + 1
    if more:
        yield each("await_more", id=list(more), more=list(more.values()))
