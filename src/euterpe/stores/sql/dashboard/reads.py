"""Looks for people. Each statement reads at most so many rows, whatever the history and however much waits."""

from __future__ import annotations

from typing import Final

from euterpe.model.claims.presence import LiveWorker
from euterpe.model.events.outbox import OutboxEvent
from euterpe.model.reading.overview import (
    COUNTED,
    LOOKED_AT,
    OWN_LOOKED_AT,
    WINDOW_S,
    Backlog,
    Count,
    EndsSeries,
    EventPage,
    JobTimes,
    Neighbours,
    OutboxDepth,
    Overview,
    Running,
    SeenWorker,
    Workers,
)
from euterpe.model.state import TERMINAL, State
from euterpe.stores.sql.dashboard.events import EVENT_STATES, events_page
from euterpe.stores.sql.dashboard.graph import children_of, graph_around
from euterpe.stores.sql.engine import Engine
from euterpe.stores.sql.program import Program, Row, one
from euterpe.stores.sql.reads.scan import ALL_STATES, NEWEST
from euterpe.stores.sql.workers import live_workers

QUEUES_SHOWN: Final = 100
WAITING_COUNTED: Final = 10_000
"""Of one queue and priority."""
RUNNING_SHOWN: Final = 1_000
TIMES: Final = 1_000
RARE: Final = TERMINAL - {State.COMPLETED}
ENDS_OF_A_RARE_STATE: Final = 2_500
"""Jobs of such a state lie far apart, so each costs a page of the database."""
EVENTS_OF_A_JOB: Final = 50
OUTBOX_STATES: Final = ("scheduled", "running", "retrying", "dead_letter")


class SqlDashboardReads:
    """The looks of one database."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def overview(self, requester_id: str | None) -> Overview:
        return await self._engine.read(lambda: overview(requester_id))

    async def neighbours(self, job_id: str, requester_id: str | None) -> Neighbours:
        return await self._engine.read(lambda: neighbours(job_id, requester_id))

    async def events(
        self, requester_id: str | None, state: str | None = None, before: int | None = None, limit: int = 50
    ) -> EventPage:
        states = EVENT_STATES if state is None else (state,)
        return await self._engine.read(lambda: events_page(requester_id, states, before or NEWEST, limit))

    async def workers(self, requester_id: str | None) -> Workers:
        return await self._engine.read(lambda: workers(requester_id))


def overview(requester_id: str | None) -> Program[Overview]:
    now = (yield one("clock"))[0][0]
    states = yield from _counts(requester_id)
    ends = {}
    for state in State:
        if state in TERMINAL:
            ends[state] = yield from _ends(state, requester_id, now)
    times = yield one("dashboard/recent_times", state=State.COMPLETED, limit=TIMES, requester_id=requester_id)
    depths = yield one("dashboard/outbox_depths", limit=LOOKED_AT, requester_id=requester_id)
    outbox = dict.fromkeys(OUTBOX_STATES, OutboxDepth(Count(0), None))
    outbox |= {row[0]: OutboxDepth(Count(row[1], row[1] >= LOOKED_AT), row[2]) for row in depths}
    backlog = yield from _backlog(requester_id)
    running = yield from _running(requester_id)
    paused = yield from _paused(requester_id, backlog, running)
    return Overview(
        now=now,
        states=states,
        backlog=backlog,
        running=running,
        ends=ends,
        times=[_times(row) for row in times if row[2] is not None],
        outbox=outbox,
        paused=paused,
        alive=(yield from _alive(requester_id)),
    )


def _counts(requester_id: str | None) -> Program[dict[State, Count]]:
    if requester_id is None:
        rows = yield one("dashboard/count_states", states=ALL_STATES, limit=COUNTED)
        return {State(row[0]): Count(row[1], bool(row[2])) for row in rows}
    rows = yield one("dashboard/count_states_of", limit=OWN_LOOKED_AT, requester_id=requester_id)
    return {State(row[0]): Count(row[1], row[2] >= OWN_LOOKED_AT) for row in rows}


def _ends(state: State, requester_id: str | None, now: int) -> Program[EndsSeries]:
    limit = ENDS_OF_A_RARE_STATE if state in RARE else 2 * LOOKED_AT
    rows = yield one(
        "dashboard/ends_by_second",
        state=state,
        limit=limit,
        window_us=WINDOW_S * 1_000_000,
        requester_id=requester_id,
    )
    by_second = {row[0]: row[1] for row in rows}
    reached = by_second.pop(0, 0)
    # Only where all that were looked at ended inside the window may there be more that were not looked at.
    begins = now // 1_000_000 - WINDOW_S
    if not reached and sum(by_second.values()) >= limit:
        begins = min(by_second)
    return EndsSeries(by_second, begins)


def _backlog(requester_id: str | None) -> Program[list[Backlog]]:
    if requester_id is None:
        rows = yield one("dashboard/queue_backlog", limit=WAITING_COUNTED, queues=QUEUES_SHOWN)
    else:
        rows = yield one(
            "dashboard/queue_backlog_of", state=State.SCHEDULED, limit=LOOKED_AT, requester_id=requester_id
        )
    return [Backlog(r[0], r[1], Count(r[2], r[2] >= WAITING_COUNTED), r[3]) for r in rows if r[2]]


def _running(requester_id: str | None) -> Program[list[Running]]:
    rows = yield one("dashboard/running_now", limit=RUNNING_SHOWN, requester_id=requester_id)
    return [Running(*row) for row in rows]


def _times(row: Row) -> JobTimes:
    scheduled_at, run_at, started_at, completed_at = row
    due_at = max(scheduled_at or 0, run_at)
    return JobTimes(max(0, started_at - due_at), max(0, (completed_at or started_at) - started_at))


def workers(requester_id: str | None) -> Program[Workers]:
    now = (yield one("clock"))[0][0]
    backlog = yield from _backlog(requester_id)
    running = yield from _running(requester_id)
    rows = yield one("dashboard/last_seen", state=State.COMPLETED, limit=LOOKED_AT, requester_id=requester_id)
    paused = yield from _paused(requester_id, backlog, running)
    alive = yield from _alive(requester_id)
    return Workers(now, backlog, running, [SeenWorker(*row) for row in rows], paused, alive)


def _alive(requester_id: str | None) -> Program[list[LiveWorker]]:
    """What workers tell of themselves names queues and types of everybody."""
    return (yield from live_workers()) if requester_id is None else []


def _paused(requester_id: str | None, backlog: list[Backlog], running: list[Running]) -> Program[list[tuple[str, str]]]:
    paused = [(row[0], row[1]) for row in (yield one("paused"))]
    if requester_id is None:
        return paused
    # Names of queues that others use are not told.
    own = {waiting.queue for waiting in backlog} | {job.queue for job in running}
    return [(kind, name) for kind, name in paused if kind == "queue" and name in own]


def neighbours(job_id: str, requester_id: str | None) -> Program[Neighbours]:
    nodes, edges, cut = yield from graph_around(job_id, requester_id)
    children = yield from children_of(job_id, requester_id)
    events = yield one("dashboard/events_of_job", id=job_id, limit=EVENTS_OF_A_JOB)
    replays = yield one("dashboard/replayed_as", id=job_id)
    replayed_as = replays[0][0] if replays else None
    return Neighbours(nodes, edges, children, cut, [OutboxEvent(*row) for row in events], replayed_as)
