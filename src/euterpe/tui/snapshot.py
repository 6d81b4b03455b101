"""What `euterpe top` shows of one moment, asked of any store."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import Final

import msgspec

from euterpe.model.claims.presence import LiveWorker
from euterpe.model.errors import EuterpeError
from euterpe.model.job import JobRow
from euterpe.model.reading.views import Search
from euterpe.model.state import State
from euterpe.ports import Capability, Store

RUNNING_SHOWN: Final = 100
FAILED_SHOWN: Final = 50
WORKERS_SHOWN: Final = 200
WAITING: Final = (State.PENDING, State.SCHEDULED, State.DELAYED, State.RETRYING)


class QueueLine(msgspec.Struct, frozen=True):
    name: str
    waiting: int
    running: int
    failed: int
    oldest_us: int | None


class WorkerRow(msgspec.Struct, frozen=True):
    """`slots` and `types` are None where the worker has not told them."""

    name: str
    holds: int
    slots: int | None = None
    types: tuple[str, ...] | None = None
    state: str = ""


class Snapshot(msgspec.Struct, frozen=True):
    states: dict[str, int]
    queues: list[QueueLine]
    workers: list[WorkerRow]
    """Those that are alive, and those that hold one of the running jobs."""
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
    workers = await _workers(store, running)
    return Snapshot(stats.by_state, lines, workers, running, failed[:FAILED_SHOWN], stats.per_minute, can_search)


async def _workers(store: Store, running: list[JobRow]) -> list[WorkerRow]:
    holds = Counter(job.worker_id for job in running if job.worker_id is not None)
    alive: list[LiveWorker] = []
    if Capability.WORKERS in store.capabilities:
        with suppress(EuterpeError):  # A key without scope admin may not read who is alive.
            alive = await store.workers.list(WORKERS_SHOWN)
    known = {worker.worker_id: worker for worker in alive}
    return [
        _worker_row(name, holds[name], known.get(name))
        for name in sorted({*holds, *known}, key=lambda n: (-holds[n], n))
    ]


def _worker_row(name: str, holds: int, worker: LiveWorker | None) -> WorkerRow:
    if worker is None:
        return WorkerRow(name, holds)
    facts = worker.facts
    tripped = [f"{breaker.name} {breaker.state.replace('_', ' ')}" for breaker in facts.breakers]
    state = "" if worker.answers else "not answering" if facts.blocked is None else f"blocked in {facts.blocked}"
    state = state or ("stopping" if facts.stopping else "breaker: " + ", ".join(tripped) if tripped else "")
    return WorkerRow(name, max(holds, facts.running or 0), facts.slots, facts.types, state)


async def _newest(store: Store, state: State, limit: int) -> list[JobRow]:
    return list((await store.search(Search(state=state, limit=limit))).jobs)
