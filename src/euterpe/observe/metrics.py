"""Metrics: plain numbers that workers add to in batches, shown in Prometheus' text format when somebody asks.

A counter of prometheus_client takes a lock and a dictionary walk for every job; here a whole batch takes one
lock, and families are built at scrape time only. Labels are bounded by construction: a queue that is not on
the configured list is counted as `other`, and so is a reason or outcome outside its enum. Types have no list: the first
49 that are met have a label of their own.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from euterpe.model.failures.failure import Category
from euterpe.model.state import State

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
        counts = self.counts
        for value_s in values_s:
            counts[bisect_left(BUCKETS_S, value_s)] += 1
        self.total_s += max(0.0, sum(values_s))  # a clock that was set back must not make a counter fall

    def cumulative(self) -> list[tuple[str, float]]:
        running = 0
        buckets: list[tuple[str, float]] = []
        for bound, count in zip((*map(str, BUCKETS_S), "+Inf"), self.counts, strict=True):
            running += count
            buckets.append((bound, running))
        return buckets


class _Tally:
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
        self._lock = threading.Lock()
        self._tallies = {name: _Tally() for name in (*allowed, OTHER)}
        self._other = self._tallies[OTHER]
        self._types: dict[str, _TypeTally] = {}
        self._deliveries = dict.fromkeys(DELIVERY_OUTCOMES, 0)
        self._refreshes = dict.fromkeys(REFRESH_OUTCOMES, 0)
        self._reclaimed = self._stale_writes = self._reaped = self._outbox_dead = 0
        self._outbox_pending: int | None = None
        self.registry = CollectorRegistry()
        self.registry.register(_AtScrape(self._families))

    def produced(self, queue: str, count: int = 1) -> None:
        """Jobs were stored."""
        with self._lock:
            self._tally(queue).produced += count

    def claimed(self, queue: str, latencies_s: Sequence[float]) -> None:
        """Jobs were claimed; for each, the seconds since it was due."""
        with self._lock:
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
        with self._lock:
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
        with self._lock:
            tally = self._type_tally(job_type)
            tally.ended[outcome if outcome in tally.ended else OTHER] += len(durations_s)
            tally.duration.observe(durations_s)

    def retried(self, queue: str, count: int = 1) -> None:
        """Jobs were given another attempt without one having just failed: an operator asked."""
        with self._lock:
            self._tally(queue).retried += count

    def dead_lettered(self, queue: str, count: int = 1) -> None:
        """Jobs that had failed, and were counted so, were given up by an operator."""
        with self._lock:
            self._tally(queue).dead_letter += count

    def reclaimed(self, count: int = 1) -> None:
        """Leases had expired and the jobs were taken back, whatever their queue."""
        with self._lock:
            self._reclaimed += count

    def reaper_moved(self, count: int = 1) -> None:
        """The Redis-list reaper put jobs back."""
        with self._lock:
            self._reaped += count

    def stale_write(self, count: int = 1) -> None:
        """The fence refused writes of workers that no longer own their jobs."""
        with self._lock:
            self._stale_writes += count

    def credential_refresh(self, outcome: str, count: int = 1) -> None:
        """One of `REFRESH_OUTCOMES`."""
        with self._lock:
            self._refreshes[outcome if outcome in self._refreshes else OTHER] += count

    def outbox_attempts(self, outcome: str, count: int = 1) -> None:
        """Deliveries were tried; one of `DELIVERY_OUTCOMES`."""
        with self._lock:
            self._deliveries[outcome if outcome in self._deliveries else OTHER] += count

    def outbox_dead_lettered(self, count: int = 1) -> None:
        """Events were given up. Worth an alert."""
        with self._lock:
            self._outbox_dead += count

    def sample_outbox(self, pending: int) -> None:
        with self._lock:
            self._outbox_pending = pending

    def sample_queues(self, lengths: Mapping[str, int], oldest_ages_s: Mapping[str, float]) -> None:
        """The state of all queues at one moment: waiting jobs, and the age of the oldest one that is due.

        A queue that is missing is empty. Unlisted queues add up in `other`.
        """
        with self._lock:
            for tally in self._tallies.values():
                tally.length, tally.oldest_age_s = 0, 0.0
            for queue, length in lengths.items():
                tally = self._tally(queue)
                tally.length = (tally.length or 0) + length
                tally.oldest_age_s = max(tally.oldest_age_s or 0.0, oldest_ages_s.get(queue, 0.0))

    def breaker_state(self, queue: str, code: int) -> None:
        """0 closed, 1 half open, 2 open."""
        with self._lock:
            self._tally(queue).breaker = code

    def render(self) -> tuple[str, bytes]:
        """(content type, body) for an answer to a scrape."""
        return CONTENT_TYPE, generate_latest(self.registry)

    def ended(self) -> int:
        """How many attempts ended, in whatever way."""
        with self._lock:
            return sum(t.completed + sum(t.failed.values()) for t in self._tallies.values())

    def _tally(self, queue: str) -> _Tally:
        return self._tallies.get(queue, self._other)

    def _type_tally(self, job_type: str) -> _TypeTally:
        tally = self._types.get(job_type)
        if tally is None:
            name = job_type if len(self._types.keys() - {OTHER}) < MAX_TYPE_LABELS else OTHER
            tally = self._types.setdefault(name, _TypeTally())
        return tally

    def _families(self) -> Iterator[Metric]:
        with self._lock:  # for as long as numbers are copied, not while they are written out
            families = list(self._build())
        return iter(families)

    def _build(self) -> Iterator[Metric]:
        counts: tuple[tuple[str, str, Callable[[_Tally], int]], ...] = (
            ("jobs_produced_total", "Jobs stored.", lambda tally: tally.produced),
            ("jobs_consumed_total", "Jobs claimed by workers.", lambda tally: tally.consumed),
            ("jobs_completed_total", "Jobs that completed.", lambda tally: tally.completed),
            ("jobs_retried_total", "Attempts that will be followed by another.", lambda tally: tally.retried),
            (
                "jobs_dead_letter_total",
                "Jobs given up for an operator to look at.",
                lambda tally: tally.dead_letter,
            ),
        )
        for name, help_text, value_of in counts:
            counter = CounterMetricFamily(name, help_text, labels=["queue"])
            for queue, tally in self._tallies.items():
                counter.add_metric([queue], value_of(tally))
            yield counter
        failed = CounterMetricFamily("jobs_failed_total", "Attempts that failed.", labels=["queue", "reason"])
        for queue, tally in self._tallies.items():
            for reason, count in tally.failed.items():
                failed.add_metric([queue, reason], count)
        yield failed
        yield from self._histograms()
        yield from self._by_type()
        yield from self._gauges()
        yield from self._plain_counters()

    def _histograms(self) -> Iterator[Metric]:
        duration = HistogramMetricFamily(
            "job_processing_duration_seconds",
            "Time from the start of an attempt to its end.",
            labels=["queue"],
        )
        latency = HistogramMetricFamily(
            "claim_latency_seconds", "Time from the moment a job was due to its claim.", labels=["queue"]
        )
        for queue, tally in self._tallies.items():
            duration.add_metric([queue], tally.duration.cumulative(), tally.duration.total_s)
            latency.add_metric([queue], tally.claim_latency.cumulative(), tally.claim_latency.total_s)
        yield duration
        yield latency

    def _by_type(self) -> Iterator[Metric]:
        attempts = CounterMetricFamily(
            "euterpe_attempts_total", "Attempts that ended, by the type of their job.", labels=["type", "outcome"]
        )
        duration = HistogramMetricFamily(
            "euterpe_attempt_duration_seconds", "Time from the start of an attempt to its end.", labels=["type"]
        )
        for job_type, tally in self._types.items():
            for outcome, count in tally.ended.items():
                attempts.add_metric([job_type, outcome], count)
            duration.add_metric([job_type], tally.duration.cumulative(), tally.duration.total_s)
        yield attempts
        yield duration

    def _gauges(self) -> Iterator[Metric]:
        shown: tuple[tuple[str, str, Callable[[_Tally], float | None]], ...] = (
            ("queue_length", "Jobs that wait to be claimed.", lambda tally: tally.length),
            (
                "queue_oldest_age_seconds",
                "Age of the oldest job that is due.",
                lambda tally: tally.oldest_age_s,
            ),
            ("circuit_breaker_state", "0 closed, 1 half open, 2 open.", lambda tally: tally.breaker),
        )
        for name, help_text, value_of in shown:
            gauge = GaugeMetricFamily(name, help_text, labels=["queue"])
            for queue, tally in self._tallies.items():
                value = value_of(tally)
                if value is not None:
                    gauge.add_metric([queue], value)
            yield gauge
        pending = GaugeMetricFamily("outbox_pending", "Webhook events that wait for their delivery.")
        if self._outbox_pending is not None:
            pending.add_metric([], self._outbox_pending)
        yield pending

    def _plain_counters(self) -> Iterator[Metric]:
        labelled = (
            ("outbox_delivery_attempts_total", "Webhook deliveries tried.", self._deliveries),
            ("credential_refresh_total", "Credential refreshes asked for.", self._refreshes),
        )
        for name, help_text, by_outcome in labelled:
            counter = CounterMetricFamily(name, help_text, labels=["outcome"])
            for outcome, count in by_outcome.items():
                counter.add_metric([outcome], count)
            yield counter
        yield CounterMetricFamily(
            "jobs_reclaimed_total", "Jobs taken back because their lease expired.", self._reclaimed
        )
        yield CounterMetricFamily("outbox_dead_letter_total", "Webhook events given up.", self._outbox_dead)
        yield CounterMetricFamily("stale_writes_rejected_total", "Writes that the fence refused.", self._stale_writes)
        yield CounterMetricFamily("reaper_jobs_moved_total", "Jobs the Redis-list reaper put back.", self._reaped)


class _AtScrape(Collector):
    """Hands the families to a registry when it collects."""

    def __init__(self, families: Callable[[], Iterator[Metric]]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        return self._families()
