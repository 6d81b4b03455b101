"""Who is alive: what a worker tells of itself now and then, and what others read of it.

A worker tells durations and no times, so that no clock but the store's decides who is silent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Final

import msgspec

SILENCE_US: Final = 60_000_000
"""A worker that says nothing for so long is not counted among the living any more."""
LISTED: Final = 1_000
"""So many workers are read at most."""


class BreakerState(StrEnum):
    """Of a circuit breaker that is not closed."""

    HALF_OPEN = "half_open"
    OPEN = "open"


class TrippedBreaker(msgspec.Struct, frozen=True):
    """The circuit breaker of a queue, as one worker has it. `retry_in_us`: how long until one job is tried."""

    state: BreakerState
    retry_in_us: int = 0


class WorkerFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a worker is and does. A worker of another language tells little of it: what is None is not known."""

    queues: tuple[str, ...]
    types: tuple[str, ...] | None = None
    """The job types that it knows; None: it takes what it is given."""
    slots: int | None = None
    running: int | None = None
    host: str | None = None
    pid: int | None = None
    version: str | None = None
    stopping: bool = False
    """It claims nothing more."""
    breakers: dict[str, TrippedBreaker] = {}
    """By queue, those that are not closed."""


class Presence(msgspec.Struct, frozen=True, kw_only=True):
    """That a worker is alive."""

    worker_id: str
    facts: WorkerFacts
    up_us: int = 0
    """For how long it has been up."""
    silence_us: int = SILENCE_US
    """After how much silence it counts as dead."""


class LiveWorker(msgspec.Struct, frozen=True, kw_only=True):
    """A worker that was heard of lately. Times are the store's."""

    worker_id: str
    started_at: int
    seen_at: int
    facts: WorkerFacts
    answers: bool = True
    """False: it told nothing of itself for too long, yet somebody renews the leases of jobs that it runs. So its
    process is there, and a handler blocks it."""

    def open_until(self, queue: str) -> int | None:
        """Until when its breaker keeps it from this queue; None: it does not."""
        breaker = self.facts.breakers.get(queue)
        if breaker is None or breaker.state is not BreakerState.OPEN:
            return None
        return self.seen_at + breaker.retry_in_us

    def listens_to(self, queue: str) -> bool:
        return not self.facts.stopping and queue in self.facts.queues

    def knows(self, job_type: str) -> bool:
        return self.facts.types is None or job_type in self.facts.types


class ClaimingWorkers(msgspec.Struct, frozen=True):
    """Who of the living would claim a job: how many are alive, take from its queue, and know its type too.

    `open_until`: the first moment at which one of these tries again, where the breakers of all of them are open.
    `silent_since`: when the last of them was heard of, where none answers."""

    alive: int
    listening: int
    knowing: int
    open_until: int | None = None
    silent_since: int | None = None


def service_of(
    workers: Iterable[LiveWorker],
    queue: str,
    job_type: str,
    now: int,
    listens: Callable[[LiveWorker], bool] | None = None,
) -> ClaimingWorkers:
    """`listens`: where a queue has more names than one."""
    alive = [worker for worker in workers if not worker.facts.stopping]
    listening = [worker for worker in alive if (worker.listens_to(queue) if listens is None else listens(worker))]
    knowing = [worker for worker in listening if worker.knows(job_type)]
    answering = [worker for worker in knowing if worker.answers]
    until = [worker.open_until(queue) or 0 for worker in answering]
    is_open = bool(until) and min(until) > now
    silent = bool(knowing) and not answering
    return ClaimingWorkers(
        len(alive),
        len(listening),
        len(knowing),
        min(until) if is_open else None,
        max(worker.seen_at for worker in knowing) if silent else None,
    )
