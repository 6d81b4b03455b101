"""Facts of jobs, of those who work on them, and of webhook events. Every look is bounded."""

from __future__ import annotations

from collections import Counter
from typing import Final

from euterpe.model.diagnosis.facts import JobFacts, OutboxFacts, PauseFact, ReceiverFact, WaitingType
from euterpe.model.state import State
from euterpe.stores.sql.program import Program, Row, one
from euterpe.stores.sql.workers import live_workers

MINUTE_US: Final = 60_000_000
HOUR_US: Final = 60 * MINUTE_US
DAY_US: Final = 24 * HOUR_US
LATE_US: Final = MINUTE_US
"""Sweeps come by every few seconds. What is late by this is late because nobody sweeps."""
STUCK_US: Final = 10 * MINUTE_US
NEWEST: Final = 2_000
COUNTED: Final = 10_000
QUEUES: Final = 1_000
ENDS_LOOKED_AT: Final = 20_000
TRIES: Final = 3
OLD_FAILED_US: Final = 7 * DAY_US


def job_facts() -> Program[JobFacts]:
    expired, oldest_expired = _late((yield one("diagnosis/lapsed_leases", late_us=LATE_US)))
    overdue, oldest_overdue = _late((yield one("diagnosis/late_jobs", late_us=LATE_US, limit=COUNTED)))
    parked, oldest_parked = _late((yield one("diagnosis/parked", limit=COUNTED)))
    waiting: list[WaitingType] = []
    backlog = yield one("dashboard/queue_backlog", limit=1, queues=QUEUES)
    for queue in sorted({row[0] for row in backlog if row[2]}):
        rows = yield one("diagnosis/next_in_line", queue=queue, limit=NEWEST)
        waiting += [WaitingType(queue, row[0], row[1], max(0, row[2])) for row in rows]
    served: set[str] = set()
    for state in (State.RUNNING, State.COMPLETED, State.RETRYING, State.FAILED, State.DEAD_LETTER):
        rows = yield one("diagnosis/types_lately", state=state, limit=NEWEST, window_us=HOUR_US)
        served |= {row[0] for row in rows}
    lately: Counter[str] = Counter()
    for state in (State.COMPLETED, State.FAILED, State.DEAD_LETTER):
        rows = yield one("recent_ends", state=state, window_us=HOUR_US, limit=ENDS_LOOKED_AT)
        lately.update({row[0]: row[1] for row in rows})
    pauses = yield one("diagnosis/pauses", limit=100)
    return JobFacts(
        expired_leases=expired,
        oldest_expired_us=oldest_expired,
        overdue=overdue,
        oldest_overdue_us=oldest_overdue,
        parked=parked,
        oldest_parked_us=oldest_parked,
        pauses=tuple(PauseFact(kind, name, age, _held_back(waiting, kind, name)) for kind, name, age in pauses),
        waiting=tuple(waiting),
        served_types=frozenset(served),
        workers=(yield one("diagnosis/workers"))[0][0],
        alive=tuple((yield from live_workers())),
        ended_lately=sum(lately.values()),
        failed_lately=lately[State.FAILED] + lately[State.DEAD_LETTER],
        old_failed=(yield one("diagnosis/old_failed", limit=COUNTED, age_us=OLD_FAILED_US))[0][0],
        stuck_operations=(yield one("diagnosis/stuck_operations", late_us=STUCK_US))[0][0],
    )


def _late(rows: list[Row]) -> tuple[int, int]:
    """(how many, for how long the oldest)."""
    count, oldest, now = rows[0]
    return count, max(0, now - oldest) if count else 0


def _held_back(waiting: list[WaitingType], kind: str, name: str) -> int:
    return sum(w.count for w in waiting if name == (w.queue if kind == "queue" else w.type))


def outbox_facts() -> Program[OutboxFacts]:
    ((now,),) = yield one("clock")
    depth = {row[0]: (row[1], row[2]) for row in (yield one("outbox_depth"))}
    failing: Counter[str] = Counter()
    for state in (State.RETRYING, State.DEAD_LETTER):
        rows = yield one("diagnosis/receivers", state=state, limit=NEWEST, tries=TRIES)
        failing.update({row[0]: row[1] for row in rows})
    waits = [since for state, (_, since) in depth.items() if state != State.DEAD_LETTER]
    return OutboxFacts(
        dead=depth.get(str(State.DEAD_LETTER), (0, 0))[0],
        oldest_waiting_us=max(0, now - min(waits)) if waits else 0,
        receivers=tuple(ReceiverFact(origin, count) for origin, count in failing.most_common(20)),
    )
