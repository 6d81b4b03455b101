"""What `euterpe top` shows of one moment, asked of any store."""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec

from euterpe.model.job import JobRow
from euterpe.model.reading.views import Search
from euterpe.model.state import State
from euterpe.ports import Capability, Store

RUNNING_SHOWN: Final = 100
FAILED_SHOWN: Final = 50
WAITING: Final = (State.PENDING, State.SCHEDULED, State.DELAYED, State.RETRYING)


class QueueLine(msgspec.Struct, frozen=True):
    name: str
    waiting: int
    running: int
    failed: int
    oldest_us: int | None


class Snapshot(msgspec.Struct, frozen=True):
    states: dict[str, int]
    queues: list[QueueLine]
    workers: dict[str, int]
    """How many of the running jobs each worker holds."""
    running: list[JobRow]
    failed: list[JobRow]
    per_minute: dict[str, int]
    can_search: bool
    """False: this engine counts jobs and cannot list them."""


async def take_snapshot(store: Store) -> Snapshot:
    stats = await store.stats()
    can_search = Capability.SEARCH in store.capabilities
    running = await _newest(store, State.RUNNING, RUNNING_SHOWN) if can_search else []
    failed: list[JobRow] = []
    if can_search:
        for state in (State.FAILED, State.DEAD_LETTER):
            failed += await _newest(store, state, FAILED_SHOWN)
        failed.sort(key=lambda job: job.updated_at, reverse=True)
    lines = [
        QueueLine(
            name,
            sum(states.get(state, 0) for state in WAITING),
            states.get(State.RUNNING, 0),
            states.get(State.FAILED, 0) + states.get(State.DEAD_LETTER, 0),
            stats.oldest_age_us.get(name),
        )
        for name, states in sorted(stats.by_queue.items())
    ]
    workers = Counter(job.worker_id for job in running if job.worker_id is not None)
    return Snapshot(stats.by_state, lines, dict(workers), running, failed[:FAILED_SHOWN], stats.per_minute, can_search)


async def _newest(store: Store, state: State, limit: int) -> list[JobRow]:
    return list((await store.search(Search(state=state, limit=limit))).jobs)
