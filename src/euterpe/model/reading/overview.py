"""What a dashboard shows of the whole: counted up to a limit, so that no look costs more than another."""

from __future__ import annotations

from typing import Final

import msgspec

from euterpe.model.claims.presence import LiveWorker
from euterpe.model.events.outbox import OutboxEvent
from euterpe.model.state import State

COUNTED: Final = 20_000
"""Jobs of a state are counted up to here."""
LOOKED_AT: Final = 5_000
"""Of the newest jobs of a state, to tell when they ended and who ran them."""
OWN_LOOKED_AT: Final = 2_000
"""Of the newest jobs of a state, to count one requester's own."""
WINDOW_S: Final = 3_600
"""How far back a chart may reach."""


class Count(msgspec.Struct, frozen=True):
    """A number; with `or_more` there are at least so many."""

    number: int
    or_more: bool = False


class Backlog(msgspec.Struct, frozen=True):
    """What waits to be claimed in one queue at one priority."""

    queue: str
    priority: int
    waiting: Count
    oldest_at: int | None


class Running(msgspec.Struct, frozen=True):
    """One job that a worker holds."""

    job_id: str
    queue: str
    type: str
    worker_id: str | None
    stage: str | None
    started_at: int | None
    heartbeat_at: int | None
    lease_expires_at: int | None
    progress: float | None
    progress_message: str | None


class SeenWorker(msgspec.Struct, frozen=True):
    """A worker that completed one of the newest jobs."""

    worker_id: str
    completed: int
    last_at: int


class EndsSeries(msgspec.Struct, frozen=True):
    """Ends of one state by the second. Before `from_second` there were more than were looked at."""

    by_second: dict[int, int]
    from_second: int


class JobTimes(msgspec.Struct, frozen=True):
    """Of one completed job: how long it was due before it began, and how long it ran."""

    waited_us: int
    ran_us: int


class OutboxDepth(msgspec.Struct, frozen=True):
    """Webhook events of one state, and since when the oldest is there."""

    count: Count
    oldest_at: int | None


class Overview(msgspec.Struct, frozen=True):
    """Everything that the first page shows, as of one moment."""

    now: int
    states: dict[State, Count]
    backlog: list[Backlog]
    running: list[Running]
    ends: dict[State, EndsSeries]
    times: list[JobTimes]
    outbox: dict[str, OutboxDepth]
    paused: list[tuple[str, str]]
    alive: list[LiveWorker] = []
    """Workers, for one who may know of all of them."""


class GraphNode(msgspec.Struct, frozen=True):
    """A job in a graph. `state` is None once it was pruned."""

    job_id: str
    type: str
    state: State | None
    progress: float | None


class Neighbours(msgspec.Struct, frozen=True):
    """What a job depends on, what depends on it, and what it spawned. Edges are (job, what it depends on)."""

    nodes: dict[str, GraphNode]
    edges: list[tuple[str, str]]
    children: list[GraphNode]
    cut: bool
    """There are more than are shown."""
    events: list[OutboxEvent]
    """Its webhook events, newest first."""
    replayed_as: str | None = None
    """The job that runs this one again."""


class EventPage(msgspec.Struct, frozen=True):
    """Webhook events, newest first; the next page has those before the cursor."""

    events: list[OutboxEvent]
    before: int | None


class Workers(msgspec.Struct, frozen=True):
    """What waits in the queues, who is alive, who runs something now, and who completed something lately."""

    now: int
    backlog: list[Backlog]
    running: list[Running]
    seen: list[SeenWorker]
    paused: list[tuple[str, str]]
    alive: list[LiveWorker] = []
    """For one who may know of all of them."""
