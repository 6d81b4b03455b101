"""Metrics: plain numbers that workers add to in batches, shown in Prometheus' text format when somebody asks.

A counter of prometheus_client takes a lock and a dictionary walk for every job; here a whole batch takes one
lock, and families are built at scrape time only. Labels are bounded by construction: a queue that is not on
the configured list is counted as `other`, and so is a reason or outcome outside its enum. Types have no list: the first
49 that are met have a label of their own.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

from euterpe.model.events.outbox import OutboxBacklog
from euterpe.model.failures.failure import Category
from euterpe.model.retention import Chore
from euterpe.model.state import State

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
OTHER: Final = "other"
MAX_QUEUE_LABELS: Final = 49
"""With `other` that makes fifty values, the most that a label may have."""
MAX_TYPE_LABELS: Final = 49

REASONS: Final = (*(category.value for category in Category), OTHER)
"""Values of `reason`: the five failure categories."""
DELIVERY_OUTCOMES: Final = ("delivered", "rejected", "unreachable", "blocked", "lost", OTHER)
"""One try to deliver an event: 2xx, another answer, no answer, an address that egress forbids, a dispatcher that was
lost on the way; and whatever kept it from being sent."""
ATTEMPT_OUTCOMES: Final = ("completed", "released", *REASONS)
"""How an attempt ended: it completed its job, gave it back uncharged, or failed for one of the reasons."""
REFRESH_OUTCOMES: Final = ("refreshed", "denied", "failed", OTHER)
"""One credential refresh: new credentials came, the requester refused, no usable answer."""

BUCKETS_S: Final = (
    0.001,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
    60.0,
    300.0,
    900.0,
    1800.0,
)
"""Prometheus' default steps, one finer below and up to the longest run (30 minutes) above."""

_ENDED_BADLY: Final = frozenset({State.FAILED, State.RETRYING, State.DEAD_LETTER, State.CANCELLED})


class _Histogram:
    __slots__ = ("counts", "total_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS_S) + 1)
        self.total_s = 0.0

    def observe(self, values_s: Sequence[float]) -> None:
        counts, below = self.counts, 0
        if values_s and max(values_s) <= BUCKETS_S[0]:  # Short jobs: they are all in the first.
            counts[0] += len(values_s)
            self.total_s += max(0.0, sum(values_s))
            return
        in_order = sorted(values_s)  # Fewer buckets than values: look up the bounds among the values.
        for bucket, bound_s in enumerate(BUCKETS_S):
            up_to = bisect_right(in_order, bound_s, below)
            counts[bucket] += up_to - below
            below = up_to
            if below == len(in_order):
                break
        counts[-1] += len(in_order) - below
        self.total_s += max(0.0, sum(values_s))  # a clock that was set back must not make a counter fall

    def cumulative(self) -> list[tuple[str, float]]:
        running = 0
        buckets: list[tuple[str, float]] = []
        for bound, count in zip((*map(str, BUCKETS_S), "+Inf"), self.counts, strict=True):
            running += count
            buckets.append((bound, running))
        return buckets


class QueueTally:
    """All that is counted for one queue."""

    __slots__ = (
        *("produced", "consumed", "completed", "failed", "retried", "dead_letter"),
        *("duration", "claim_latency", "length", "oldest_age_s", "breaker"),
    )

    def __init__(self) -> None:
        self.produced = self.consumed = self.completed = self.retried = self.dead_letter = 0
        self.failed = dict.fromkeys(REASONS, 0)
        self.duration = _Histogram()
        self.claim_latency = _Histogram()
        self.length: int | None = None
        self.oldest_age_s: float | None = None
        self.breaker: int | None = None


class _TypeTally:
    """All that is counted for one type of jobs."""

    __slots__ = ("duration", "ended")

    def __init__(self) -> None:
        self.ended = dict.fromkeys(ATTEMPT_OUTCOMES, 0)
        self.duration = _Histogram()


class Metrics:
    """Takes every event in the life of a job, from any thread, and best in batches."""

    def __init__(self, queues: Iterable[str] = ("default",)) -> None:
        allowed = [name for name in dict.fromkeys(queues) if name != OTHER][:MAX_QUEUE_LABELS]
        self.lock = threading.Lock()
        self.tallies = {name: QueueTally() for name in (*allowed, OTHER)}
        self._other = self.tallies[OTHER]
        self.types: dict[str, _TypeTally] = {}
        self.deliveries = dict.fromkeys(DELIVERY_OUTCOMES, 0)
        self.refreshes = dict.fromkeys(REFRESH_OUTCOMES, 0)
        self.removed = dict.fromkeys(map(str, Chore), 0)
        self.reclaims = self.adoptions = self.stale_writes = self.reaped = self.outbox_dead = 0
        self.outbox: OutboxBacklog | None = None
        self.overdue_s: float | None = None

    def produced(self, queue: str, count: int = 1) -> None:
        """Jobs were stored."""
        with self.lock:
            self._tally(queue).produced += count

    def claimed(self, queue: str, latencies_s: Sequence[float]) -> None:
        """Jobs were claimed; for each, the seconds since it was due."""
        with self.lock:
            tally = self._tally(queue)
            tally.consumed += len(latencies_s)
            tally.claim_latency.observe(latencies_s)

    def settled(
        self, queue: str, state: str, count: int, durations_s: Sequence[float] = (), reason: str = OTHER
    ) -> None:
        """`count` attempts ended and their jobs went to `state`, or jobs that did not run ended; `reason` is the
        failure's category.

        A release (back to `scheduled`) counts as nothing but its duration: the attempt was refunded. What ended
        cancelled was cancelled, whatever its last attempt had to say.
        """
        if state == State.CANCELLED:
            reason = Category.CANCELLED.value
        with self.lock:
            tally = self._tally(queue)
            if durations_s:
                tally.duration.observe(durations_s)
            if state == State.COMPLETED:
                tally.completed += count
            elif state in _ENDED_BADLY:
                tally.failed[reason if reason in tally.failed else OTHER] += count
                if state == State.RETRYING:
                    tally.retried += count
                elif state == State.DEAD_LETTER:
                    tally.dead_letter += count

    def attempts_ended(self, job_type: str, outcome: str, durations_s: Sequence[float]) -> None:
        """Attempts of one type ended; `outcome` is one of `ATTEMPT_OUTCOMES`."""
        with self.lock:
            tally = self._type_tally(job_type)
            tally.ended[outcome if outcome in tally.ended else OTHER] += len(durations_s)
            tally.duration.observe(durations_s)

    def retried(self, queue: str, count: int = 1) -> None:
        """Jobs were given another attempt without one having just failed: an operator asked."""
        with self.lock:
            self._tally(queue).retried += count

    def dead_lettered(self, queue: str, count: int = 1) -> None:
        """Jobs that had failed, and were counted so, were given up by an operator."""
        with self.lock:
            self._tally(queue).dead_letter += count

    def reclaimed(self, count: int = 1) -> None:
        """Leases had expired and the jobs were taken back, whatever their queue."""
        with self.lock:
            self.reclaims += count

    def adopted(self, count: int = 1) -> None:
        """Jobs were ready and in no line."""
        with self.lock:
            self.adoptions += count

    def reaper_moved(self, count: int = 1) -> None:
        """The Redis-list reaper put jobs back."""
        with self.lock:
            self.reaped += count

    def housekept(self, chore: str, count: int) -> None:
        """Housekeeping removed rows of this kind."""
        with self.lock:
            self.removed[chore] += count

    def stale_write(self, count: int = 1) -> None:
        """The fence refused writes of workers that no longer own their jobs."""
        with self.lock:
            self.stale_writes += count

    def credential_refresh(self, outcome: str, count: int = 1) -> None:
        """One of `REFRESH_OUTCOMES`."""
        with self.lock:
            self.refreshes[outcome if outcome in self.refreshes else OTHER] += count

    def outbox_attempts(self, outcome: str, count: int = 1) -> None:
        """Deliveries were tried; one of `DELIVERY_OUTCOMES`."""
        with self.lock:
            self.deliveries[outcome if outcome in self.deliveries else OTHER] += count

    def outbox_dead_lettered(self, count: int = 1) -> None:
        """Events were given up. Worth an alert."""
        with self.lock:
            self.outbox_dead += count

    def sample_outbox(self, depth: OutboxBacklog) -> None:
        with self.lock:
            self.outbox = depth

    def sample_housekeeping(self, overdue_s: float) -> None:
        with self.lock:
            self.overdue_s = overdue_s

    def sample_queues(self, lengths: Mapping[str, int], oldest_ages_s: Mapping[str, float]) -> None:
        """The state of all queues at one moment: waiting jobs, and the age of the oldest one that is due.

        A queue that is missing is empty. Unlisted queues add up in `other`.
        """
        with self.lock:
            for tally in self.tallies.values():
                tally.length, tally.oldest_age_s = 0, 0.0
            for queue, length in lengths.items():
                tally = self._tally(queue)
                tally.length = (tally.length or 0) + length
                tally.oldest_age_s = max(tally.oldest_age_s or 0.0, oldest_ages_s.get(queue, 0.0))

    def breaker_state(self, queue: str, code: int) -> None:
        """0 closed, 1 half open, 2 open."""
        with self.lock:
            self._tally(queue).breaker = code

    @cached_property
    def registry(self) -> CollectorRegistry:
        """Made for the first scrape: what writes the figures out takes megabytes, and most workers are not asked."""
        from euterpe.observe.families import registry_of

        return registry_of(self)

    def render(self) -> tuple[str, bytes]:
        """(content type, body) for an answer to a scrape."""
        from prometheus_client import generate_latest

        return CONTENT_TYPE, generate_latest(self.registry)

    def ended(self) -> int:
        """How many attempts ended, in whatever way."""
        with self.lock:
            return sum(t.completed + sum(t.failed.values()) for t in self.tallies.values())

    def _tally(self, queue: str) -> QueueTally:
        return self.tallies.get(queue, self._other)

    def _type_tally(self, job_type: str) -> _TypeTally:
        tally = self.types.get(job_type)
        if tally is None:
            name = job_type if len(self.types.keys() - {OTHER}) < MAX_TYPE_LABELS else OTHER
            tally = self.types.setdefault(name, _TypeTally())
        return tally
