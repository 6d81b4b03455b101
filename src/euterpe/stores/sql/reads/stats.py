"""How many jobs there are, and where. What it costs does not grow with the history.

A state with up to `COUNTED` jobs is counted, and every number about it is exact. Of a state with more a sample of the
whole table tells how many there are, and how they are spread over queues and types. The answer names these states.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from euterpe.model.reading.views import QueueDepth, StoreStats
from euterpe.model.state import TERMINAL, State
from euterpe.stores.sql.program import One, Program, one
from euterpe.stores.sql.reads.scan import ALL_STATES

COUNTED: Final = 50_000
"""Jobs of a state that are counted. Autoscalers read these numbers, so a backlog that matters must be exact."""
LOOKED_AT: Final = 2_000
"""Jobs that are looked at where the state has more than are counted: a group that is seen is never missing."""
ENDS_LOOKED_AT: Final = (1_000, 20_000)
"""The newest jobs of a state, to tell how many ended lately: more of them where half of the first did."""
MINUTE_US: Final = 60_000_000
LIVE: Final = [str(state) for state in State if state not in TERMINAL]

Group = tuple[str, str]
"""Queue and type."""


class Looked(NamedTuple):
    """The jobs of one state that were looked at."""

    groups: dict[Group, int]
    oldest_at: dict[str, int]
    """By queue, of what has not ended."""


class Sample(NamedTuple):
    """Jobs chosen by chance from the whole table, by state; each of them stands for `weight` jobs."""

    groups: dict[str, Counter[Group]]
    weight: float


class Counts(NamedTuple):
    """Jobs by state, then by queue and type; since when the oldest of a state and queue waits; what was estimated."""

    groups: dict[str, dict[Group, int]]
    oldest_at: dict[str, dict[str, int]]
    estimated: tuple[str, ...]


def stats(requester_id: str | None) -> Program[StoreStats]:
    """Of all jobs, or of one requester's; then nothing in it tells of anybody else's."""
    now: int = (yield one("clock"))[0][0]
    counts = yield from _count(ALL_STATES, requester_id)
    by_queue: dict[str, Counter[str]] = {}
    by_type: dict[str, Counter[str]] = {}
    for state, groups in counts.groups.items():
        for (queue, job_type), count in groups.items():
            by_queue.setdefault(queue, Counter())[state] += count
            by_type.setdefault(job_type, Counter())[state] += count
    return StoreStats(
        {state: sum(groups.values()) for state, groups in counts.groups.items()},
        {queue: dict(states) for queue, states in by_queue.items()},
        {job_type: dict(states) for job_type, states in by_type.items()},
        {queue: max(0, now - at) for queue, at in counts.oldest_at.get(State.SCHEDULED, {}).items()},
        (yield from _per_minute(requester_id)),
        (yield from _outbox(requester_id)),
        counts.estimated,
    )


def depths() -> Program[list[QueueDepth]]:
    """Live jobs by queue: cheap enough to sample every few seconds, whatever the history and however much waits."""
    now: int = (yield one("clock"))[0][0]
    counts = yield from _count(LIVE, None)
    found: list[QueueDepth] = []
    for state, groups in counts.groups.items():
        by_queue: Counter[str] = Counter()
        for (queue, _), count in groups.items():
            by_queue[queue] += count
        oldest_at = counts.oldest_at[state]
        found += [QueueDepth(q, State(state), n, max(0, now - oldest_at.get(q, now))) for q, n in by_queue.items()]
    return found


def _count(states: Sequence[str], requester_id: str | None) -> Program[Counts]:
    rows = yield one("dashboard/count_states", states=list(states), limit=COUNTED + 1)
    many = tuple(sorted(state for state, _, more in rows if more))
    sample = (yield from _sample(requester_id)) if many else Sample({}, 0.0)
    counts = Counts({}, {}, many)
    for state, total, more in sorted(rows):
        if not total and not more:
            continue
        # A look at what lives may meet jobs that have just moved: it is not to end before the others.
        limit = LOOKED_AT if more else total if State(state) in TERMINAL else COUNTED
        looked = yield from _look(State(state), requester_id, limit)
        groups = looked.groups
        if more:
            groups = estimated(groups, sample.groups.get(state, Counter()), sample.weight)
        if groups:
            counts.groups[state] = groups
            counts.oldest_at[state] = looked.oldest_at
    if State.SCHEDULED in many and requester_id is None:
        counts.oldest_at[State.SCHEDULED] = _earlier(
            counts.oldest_at.get(State.SCHEDULED, {}), (yield from _first_of_each_queue())
        )
    return counts


def estimated(seen: dict[Group, int], sampled: Counter[Group], weight: float) -> dict[Group, int]:
    """How many jobs each group has: as many as the sample says, and never less than were seen."""
    return {group: max(seen.get(group, 0), round(sampled[group] * weight)) for group in {*seen, *sampled}}


def _look(state: State, requester_id: str | None, limit: int) -> Program[Looked]:
    name = "stats/ended_groups" if state in TERMINAL else "stats/live_groups"
    rows = yield one(name, state=state, limit=limit, requester_id=requester_id)
    oldest_at: dict[str, int] = {}
    if state not in TERMINAL:
        for queue, _, _, at in rows:
            oldest_at[queue] = min(at, oldest_at.get(queue, at))
    return Looked({(row[0], row[1]): row[2] for row in rows}, oldest_at)


def _sample(requester_id: str | None) -> Program[Sample]:
    """Places in even steps, each moved by chance inside its step."""
    ((first, extent, wanted),) = yield one("stats/extent")
    step = max(1.0, extent / wanted)
    places = [first + int((i + random.random()) * step) for i in range(min(wanted, extent))]
    rows = yield one("stats/sample", places=places, percent=100.0 / step, requester_id=requester_id)
    groups: dict[str, Counter[Group]] = {}
    for state, queue, job_type, count in rows:
        groups.setdefault(state, Counter())[queue, job_type] += count
    return Sample(groups, step)


def _first_of_each_queue() -> Program[dict[str, int]]:
    rows = yield one("dashboard/queue_backlog", limit=1, queues=1_000)
    found: dict[str, int] = {}
    for queue, _, waiting, at in rows:
        if waiting:
            found[queue] = min(at, found.get(queue, at))
    return found


def _earlier(one_: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    return {queue: min(found[queue] for found in (one_, other) if queue in found) for queue in {*one_, *other}}


def _per_minute(requester_id: str | None) -> Program[dict[str, int]]:
    ended: dict[str, int] = {}
    for state in (State.COMPLETED, State.FAILED, State.DEAD_LETTER):
        for limit in ENDS_LOOKED_AT:
            asked = {"state": state, "window_us": MINUTE_US, "limit": limit}
            rows = yield _of(requester_id, "recent_ends", "recent_ends_of", **asked)
            ended[str(state)] = rows[0][1] if rows else 0
            if ended[str(state)] < limit // 2:
                break
    return ended


def _outbox(requester_id: str | None) -> Program[dict[str, int]]:
    if requester_id is None:
        rows = yield one("stats/outbox", limit=COUNTED)
    else:
        rows = yield one("dashboard/outbox_depths", limit=LOOKED_AT, requester_id=requester_id)
    return {row[0]: row[1] for row in rows if row[1]}


def _of(requester_id: str | None, everybody: str, one_requester: str, **params: object) -> One:
    return one(everybody, **params) if requester_id is None else one(one_requester, requester_id=requester_id, **params)
