"""What the rooms ask of each other. The guarantees live in these docstrings; the engines keep them.

`Claims` is all a worker knows. `SqlStore` (SQLite, Postgres, libsql), the Redis-list engine and the HTTP client
implement it; the conformance suite runs against each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from types import TracebackType
from typing import NamedTuple, Protocol, runtime_checkable

from euterpe.model.exchange import LEASE_TTL_US, Advance, Beat, ClaimRequest, Finished, Verdict
from euterpe.model.job import Claim, Job, Lease

Clock = Callable[[], int]
"""Microseconds since the epoch. Injected in tests; on Postgres the default is the database's own clock."""


OUTBOX_CHANNEL = "*outbox"
"""Announced like a queue when events were written; no queue can have this name by accident."""


class Claims(Protocol):
    """Owning jobs. Every write is fenced by (job_id, claim_version): a stale writer changes nothing."""

    async def claim(self, request: ClaimRequest) -> list[Claim]:
        """Atomically take scheduled jobs: each goes to exactly one caller, with a new claim_version, and its attempt
        is charged in the same transaction. Most urgent first, submission order inside a priority."""
        ...

    async def heartbeat(self, leases: Sequence[Lease], lease_ttl_us: int = LEASE_TTL_US) -> list[Beat]:
        """Renew leases, all in one statement, answers in the same order. A late heartbeat is accepted while its version
        is current. A row that somebody holds keeps no other lease waiting."""
        ...

    async def advance(self, news: Sequence[Advance]) -> list[bool]:
        """Write stage, progress and checkpoint. False: the claim was stale."""
        ...

    async def turn(
        self, finished: Sequence[Finished], request: ClaimRequest | None
    ) -> tuple[list[Verdict], list[Claim]]:
        """Settle and claim in one go: one transaction where the engine can, so that a busy worker commits once. Waits
        for no row that somebody holds."""
        ...

    async def settle(self, finished: Sequence[Finished]) -> list[Verdict]:
        """End attempts. In one transaction: the fenced update, the closed attempt, what it releases or ends, events.
        Safe to repeat after a lost answer: what this outcome already closed is accepted again. Waits a moment for a
        row that somebody holds."""
        ...


class Wakeups(Protocol):
    """Hints that work may be there. Losing one costs latency, never a job: everyone polls as well."""

    def announce(self, queues: Iterable[str]) -> None:
        """Tell whoever listens, here or in other processes, that these queues have work. Never waits."""
        ...

    def subscribe(self, wake: Callable[[], None], queues: Collection[str]) -> Callable[[], None]:
        """Call `wake` (on this loop) for work in these queues; returns how to stop."""
        ...


class Foretold(NamedTuple):
    """What a transport makes of work that is about to be committed."""

    announce: Callable[[Iterable[str]], None]
    """To be called after the commit, for whom was not told before."""
    channel: str | None = None
    """Where the commit itself shall notify of the queue."""


@runtime_checkable
class Foretelling(Protocol):
    """Wakeups that can do something before the commit of a lone job already."""

    def foretell(self, queue: str) -> Foretold: ...


Address = tuple[str, str]
"""Where a transport's message lies: (stream, message_id)."""


@runtime_checkable
class MessageTransport(Protocol):
    """Wakeups whose messages stand for jobs: each stays pending until its job ended, or went back to wait."""

    async def messages_of(self, jobs: Sequence[Job]) -> list[Address | None]:
        """The messages of jobs that were just claimed; None where the transport does not answer."""
        ...

    def acknowledge(self, ended: Sequence[tuple[str, Address | None]]) -> None:
        """(job_id, the message as its worker named it): called after the commit. Never waits."""
        ...


class Telemetry(Protocol):
    """What the queue tells about itself, in batches. `observe.metrics` listens; `Silent` when nobody does."""

    def produced(self, queue: str, count: int = 1) -> None: ...

    def claimed(self, queue: str, latencies_s: Sequence[float]) -> None:
        """Jobs claimed, each with the time from being ready to being claimed."""
        ...

    def settled(
        self, queue: str, state: str, count: int, durations_s: Sequence[float] = (), reason: str = "other"
    ) -> None:
        """Attempts that ended, or jobs that ended without one, in `state`; `reason` is the failure category."""
        ...

    def retried(self, queue: str, count: int = 1) -> None: ...

    def dead_lettered(self, queue: str, count: int = 1) -> None:
        """Jobs that had failed before, and were dead-lettered by an operator."""
        ...

    def reclaimed(self, count: int = 1) -> None: ...

    def stale_write(self, count: int = 1) -> None: ...


class Span(Protocol):
    """One run of a job, as it is traced: around a block, or from its making to `end` where there is no block."""

    def set_outcome(self, outcome: str) -> None: ...

    def end(self, outcome: str) -> None: ...

    def __enter__(self) -> Span: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


Trace = Callable[[Claim], Span]
"""Begins the span of a run; `observe.tracing` makes them."""
