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
LATE_US: Final = 35_000_000
"""A worker tells of itself every 15 to 25 s: after so long it may be dead already."""
BREAKERS_TOLD: Final = 50
"""So many of its open circuits a worker tells at most."""
LISTED: Final = 1_000
"""So many workers are read at most."""


class BreakerState(StrEnum):
    """Of a circuit breaker that is not closed."""

    HALF_OPEN = "half_open"
    OPEN = "open"


class TrippedBreaker(msgspec.Struct, frozen=True):
    """The circuit breaker of a job type in a queue, as one worker has it. `requester` None: it is open for everybody;
    `place`: for what this requester has there alone. `retry_in_us`: how long until one job is tried."""

    queue: str
    type: str
    state: BreakerState
    retry_in_us: int = 0
    requester: str | None = None
    place: str | None = None

    @property
    def name(self) -> str:
        """In words."""
        whose = "" if self.requester is None else f" of requester {self.requester}"
        where = "" if self.place is None else f" at {self.place}"
        return f"{self.type} in queue {self.queue}{whose}{where}"


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
    blocked: str | None = None
    """Which handler blocks its event loop, and where: its job type, file and line."""
    breakers: tuple[TrippedBreaker, ...] = ()
    """Those that are not closed, the widest first; of very many the first ones."""


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
    """False: it told nothing of itself for too long, yet somebody renews the leases of jobs that it runs; or one of its
    threads told what blocks its event loop. So its process is there, and a handler blocks it."""

    def open_until(self, queue: str, job_type: str) -> int | None:
        """Until when its breaker keeps it from everybody's jobs of this type; None: it does not."""
        for breaker in self.facts.breakers:
            is_of_all = breaker.requester is None and breaker.state is BreakerState.OPEN
            if is_of_all and (breaker.queue, breaker.type) == (queue, job_type):
                return self.seen_at + breaker.retry_in_us
        return None

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
    until = [worker.open_until(queue, job_type) or 0 for worker in answering]
    is_open = bool(until) and min(until) > now
    silent = bool(knowing) and not answering
    return ClaimingWorkers(
        len(alive),
        len(listening),
        len(knowing),
        min(until) if is_open else None,
        max(worker.seen_at for worker in knowing) if silent else None,
    )
