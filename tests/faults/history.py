"""Reads a database after the faults and says everything that is wrong with its history.

The evidence: the recorded moves, the closed attempts, the events, the edges of the graph, and the journals of
what the store acknowledged to the actors.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from euterpe.model.events.callback_events import EVENT_STATES
from euterpe.model.state import INITIAL, MOVES, TERMINAL, State
from tests.faults.crew import Crew
from tests.faults.recorder import rows

Fence = tuple[str, int]
"""(job_id, claim_version): one claim."""


class Move(msgspec.Struct, frozen=True, array_like=True):
    id: int
    job_id: str
    source: State | None
    target: State
    from_version: int
    version: int
    attempt_count: int
    transitions: int

    @property
    def is_claim(self) -> bool:
        return self.source is State.SCHEDULED and self.target is State.RUNNING

    @property
    def leaves_running(self) -> bool:
        return self.source is State.RUNNING and self.target is not State.RUNNING

    @property
    def ends(self) -> bool:
        return self.target in TERMINAL and self.source not in TERMINAL


class Row(msgspec.Struct, frozen=True, array_like=True):
    """What is left of a job in the end."""

    id: str
    state: State
    claim_version: int
    attempt_count: int
    max_attempts: int
    release_count: int
    callback_events: str | None
    dependency: str | None
    pending_dependencies: int


class Closed(msgspec.Struct, frozen=True, array_like=True):
    job_id: str
    claim_version: int
    attempt: int
    outcome: str
    state: str
    is_lost: int
    """Whether it ended with its worker."""


class Told(msgspec.Struct, frozen=True, array_like=True):
    job_id: str
    sequence: int
    type: str


class History(msgspec.Struct, frozen=True):
    jobs: dict[str, Row]
    moves: dict[str, list[Move]]
    closed: list[Closed]
    events: list[Told]
    edges: dict[str, list[str]]


def read(url: str) -> History:
    moves: dict[str, list[Move]] = defaultdict(list)
    for row in rows(
        url,
        "SELECT id, CAST(job_id AS text), source, target, from_version, version, attempt_count, transitions"
        " FROM recorded_moves ORDER BY id",
    ):
        move = msgspec.convert(row, Move)
        moves[move.job_id].append(move)
    edges: dict[str, list[str]] = defaultdict(list)
    for job_id, depends_on in rows(url, "SELECT CAST(job_id AS text), CAST(depends_on AS text) FROM job_dependencies"):
        edges[job_id].append(depends_on)
    jobs = _all(
        url,
        Row,
        "SELECT CAST(id AS text), state, claim_version, attempt_count, max_attempts, release_count,"
        " CASE WHEN callback_url IS NOT NULL THEN callback_events END, dependency, pending_dependencies"
        " FROM inbox_jobs",
    )
    return History(
        jobs={job.id: job for job in jobs},
        moves=dict(moves),
        closed=_all(
            url,
            Closed,
            "SELECT CAST(job_id AS text), claim_version, attempt, outcome, state,"
            " CASE WHEN CAST(error AS text) LIKE '%lost_lease%' THEN 1 ELSE 0 END FROM job_attempts",
        ),
        events=_all(url, Told, "SELECT CAST(job_id AS text), sequence, type FROM job_outbox_events"),
        edges=dict(edges),
    )


def _all(url: str, kind: type[Any], query: str) -> list[Any]:
    return [msgspec.convert(row, kind) for row in rows(url, query)]


def check(url: str, crew: Crew | None = None) -> History:
    """Assert that the history keeps every promise; returns it for what a test wants to ask beyond."""
    history = read(url)
    problems = list(problems_of(history))
    if crew is not None:
        problems += broken_acknowledgements(history, crew)
    assert not problems, f"{len(problems)} broken promises, the first: " + "; ".join(problems[:5])
    return history


def problems_of(history: History) -> Iterator[str]:
    yield from illegal_moves(history)
    yield from second_ends(history)
    yield from reused_versions(history)
    yield from attempts_over_budget(history)
    yield from attempts_not_closed_once(history)
    yield from events_without_moves(history)
    yield from early_dependents(history)
    yield from stranded_dependents(history)


def illegal_moves(history: History) -> Iterator[str]:
    """Every step is in the table, and each begins where the one before it ended."""
    for job_id, moves in history.moves.items():
        state: State | None = None
        for move in moves:
            if move.source is not state:
                yield f"{job_id} moved from {move.source} while it was {state}"
            if move.source is None and move.target not in INITIAL | TERMINAL:
                yield f"{job_id} was born {move.target}"
            if move.source is not None and (move.source, move.target) not in MOVES:
                yield f"{job_id} moved from {move.source} to {move.target}, which the table does not list"
            state = move.target
        job = history.jobs.get(job_id)
        if job is not None and job.state is not state:
            yield f"{job_id} is {job.state}, but its last recorded move was to {state}"


def second_ends(history: History) -> Iterator[str]:
    """One end a job; a failed one that an operator let run again has another."""
    for job_id, moves in history.moves.items():
        reopened = max((i for i, move in enumerate(moves) if move.source is State.FAILED and not move.ends), default=0)
        ends = [move.target for move in moves[reopened:] if move.ends]
        if len(ends) > 1:
            yield f"{job_id} ended {len(ends)} times: {', '.join(ends)}"


def reused_versions(history: History) -> Iterator[str]:
    """Only a claim or a fencing end raises the version, by one; nothing ever lowers it."""
    for job_id, moves in history.moves.items():
        for move in moves:
            step = move.version - move.from_version
            if step < 0 or step > 1:
                yield f"{job_id} went from claim {move.from_version} to {move.version}"
            if move.is_claim and step != 1:
                yield f"{job_id} was claimed without a new version ({move.version})"
            if step == 1 and not move.is_claim and not move.leaves_running:
                yield f"{job_id} got version {move.version} without a claim"
    for fence, count in _claims(history).items():
        if count > 1:
            yield f"claim {fence[1]} of {fence[0]} was given {count} times"


def attempts_over_budget(history: History) -> Iterator[str]:
    budget = {job.id: job.max_attempts for job in history.jobs.values()}
    for job_id, moves in history.moves.items():
        worst = max(move.attempt_count for move in moves)
        if job_id in budget and worst > budget[job_id]:
            yield f"{job_id} was tried {worst} times of {budget[job_id]}"
        for move in moves:
            if move.attempt_count < 0:
                yield f"{job_id} has {move.attempt_count} attempts"
    charged: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    for c in sorted(history.closed, key=lambda c: c.claim_version):
        if c.outcome == "released":
            continue
        charged[c.job_id] += 1
        if c.is_lost and c.state == State.RETRYING and c.attempt == budget.get(c.job_id):
            charged[c.job_id] -= 1  # Its own failures had used the rest of its budget: once more, alone.
        elif c.is_lost:
            lost[c.job_id] += 1
        elif c.state != State.DEAD_LETTER and c.outcome in ("temporary", "permanent", "timeout", "system"):
            charged[c.job_id] -= lost.pop(c.job_id, 0)  # An outcome of its own gives them back (ADR 018).
    for job in history.jobs.values():
        running = 1 if job.state is State.RUNNING else 0
        if charged[job.id] + running != job.attempt_count:
            yield f"{job.id} counts {job.attempt_count} attempts, its history has {charged[job.id] + running}"


def attempts_not_closed_once(history: History) -> Iterator[str]:
    """Each claim left `running` once and has one row of history, unless it runs still."""
    left = Counter(
        (move.job_id, move.from_version) for moves in history.moves.values() for move in moves if move.leaves_running
    )
    closed = Counter((c.job_id, c.claim_version) for c in history.closed)
    running = {(j.id, j.claim_version) for j in history.jobs.values() if j.state is State.RUNNING}
    for fence in _claims(history):
        wanted = 0 if fence in running else 1
        if left[fence] != wanted:
            yield f"claim {fence[1]} of {fence[0]} left running {left[fence]} times"
        if closed[fence] != wanted:
            yield f"claim {fence[1]} of {fence[0]} has {closed[fence]} closed attempts"
    for fence in closed.keys() - _claims(history).keys():
        if fence[0] in history.moves:
            yield f"claim {fence[1]} of {fence[0]} was closed but never given: a stale write was accepted"


def _claims(history: History) -> Counter[Fence]:
    return Counter((move.job_id, move.version) for moves in history.moves.values() for move in moves if move.is_claim)


def events_without_moves(history: History) -> Iterator[str]:
    """An event if and only if its transition committed, once, under the transition's own number."""
    wanted: Counter[tuple[str, int, str]] = Counter()
    for job_id, moves in history.moves.items():
        job = history.jobs.get(job_id)
        if job is None or job.callback_events is None:
            continue
        for move in moves:
            if move.target in TERMINAL or (job.callback_events == "all" and move.target in EVENT_STATES):
                wanted[(job_id, move.transitions, f"job.{move.target}")] += 1
    told = Counter((e.job_id, e.sequence, e.type) for e in history.events if e.job_id in history.jobs)
    for (job_id, sequence, kind), count in (wanted - told).items():
        yield f"{count} event {kind} #{sequence} of {job_id} is missing"
    for (job_id, sequence, kind), count in (told - wanted).items():
        yield f"{count} event {kind} #{sequence} of {job_id} tells of nothing that happened"


def early_dependents(history: History) -> Iterator[str]:
    """A dependent was let go only after what it waited for had ended, unless an operator let it run."""
    ended = {job_id: [move for move in moves if move.ends] for job_id, moves in history.moves.items()}
    for job_id, needs in history.edges.items():
        job = history.jobs.get(job_id)
        freed = next((m for m in history.moves.get(job_id, []) if m.source in _WAITING and m.target in _FREED), None)
        if job is None or freed is None or any(need not in history.jobs for need in needs):
            continue
        before = [
            end.target for need in needs for end in [move for move in ended.get(need, []) if move.id < freed.id][-1:]
        ]
        if job.dependency == "after_any":
            if not before:
                yield f"{job_id} was let go before any of its dependencies had ended"
        elif before.count(State.COMPLETED) < len(needs):
            yield f"{job_id} was let go after {before.count(State.COMPLETED)} of {len(needs)} dependencies"


_WAITING = frozenset({None, State.PENDING})
_FREED = frozenset({State.SCHEDULED, State.DELAYED})


def stranded_dependents(history: History) -> Iterator[str]:
    for job in history.jobs.values():
        if job.state is not State.PENDING:
            continue
        states = [history.jobs[need].state for need in history.edges.get(job.id, []) if need in history.jobs]
        ended = [state for state in states if state in TERMINAL]
        bad = [state for state in ended if state is not State.COMPLETED]
        if job.dependency == "after_any":
            if ended:
                yield f"{job.id} still waits although a dependency ended {ended[0]}"
            continue
        if bad:
            yield f"{job.id} still waits although a dependency ended {bad[0]}"
        if len(states) - len(ended) != job.pending_dependencies:
            yield f"{job.id} waits for {job.pending_dependencies} jobs, {len(states) - len(ended)} are unfinished"


def broken_acknowledgements(history: History, crew: Crew) -> Iterator[str]:
    """What the store said yes to is there; what it gave to one it gave to nobody else."""
    for said in crew.notes("submitted"):
        if said["job_id"] not in history.jobs:
            yield f"{said['job_id']} was acknowledged and is lost"
    yield from _twice(((said["job_id"], said["version"]) for said in crew.notes("claimed")), "given out")
    closed = {(c.job_id, c.claim_version): c for c in history.closed}
    for said in crew.notes("settled"):
        row = closed.get((said["job_id"], said["version"]))
        if row is None:
            yield f"claim {said['version']} of {said['job_id']} was settled and is lost"
        elif row.state != said["state"]:
            yield f"{said['job_id']} was acknowledged {said['state']} and closed {row.state}"
    for kind, state in (("cancelled", State.CANCELLED), ("buried", State.DEAD_LETTER)):
        for said in crew.notes(kind):
            if history.jobs[said["job_id"]].state is not state:
                yield f"{said['job_id']} was acknowledged {kind} and is {history.jobs[said['job_id']].state}"
    for said in crew.notes("bounced"):
        row = closed.get((said["job_id"], said["version"]))
        if row is not None and row.outcome == said["outcome"]:
            yield f"claim {said['version']} of {said['job_id']} was refused and yet written"


def _twice(fences: Iterable[Fence], what: str) -> Iterator[str]:
    for fence, count in Counter(fences).items():
        if count > 1:
            yield f"claim {fence[1]} of {fence[0]} was {what} {count} times"
