"""The figures of `Metrics` as Prometheus' families, built when somebody asks for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from euterpe.observe.metrics import Metrics, QueueTally


def registry_of(metrics: Metrics) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(Families(metrics))
    return registry


class Families(Collector):
    """Hands them to a registry when it collects."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        with self._metrics.lock:  # for as long as numbers are copied, not while they are written out
            families = list(self._build())
        return iter(families)

    def _build(self) -> Iterator[Metric]:
        counts: tuple[tuple[str, str, Callable[[QueueTally], int]], ...] = (
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
            for queue, tally in self._metrics.tallies.items():
                counter.add_metric([queue], value_of(tally))
            yield counter
        failed = CounterMetricFamily("jobs_failed_total", "Attempts that failed.", labels=["queue", "reason"])
        for queue, tally in self._metrics.tallies.items():
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
        for queue, tally in self._metrics.tallies.items():
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
        for job_type, tally in self._metrics.types.items():
            for outcome, count in tally.ended.items():
                attempts.add_metric([job_type, outcome], count)
            duration.add_metric([job_type], tally.duration.cumulative(), tally.duration.total_s)
        yield attempts
        yield duration

    def _gauges(self) -> Iterator[Metric]:
        shown: tuple[tuple[str, str, Callable[[QueueTally], float | None]], ...] = (
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
            for queue, tally in self._metrics.tallies.items():
                value = value_of(tally)
                if value is not None:
                    gauge.add_metric([queue], value)
            yield gauge
        pending = GaugeMetricFamily("outbox_pending", "Webhook events that wait for their delivery.")
        retrying = GaugeMetricFamily("outbox_retrying", "Webhook events that were tried and wait for another try.")
        if self._metrics.outbox is not None:
            pending.add_metric([], self._metrics.outbox.pending)
            retrying.add_metric([], self._metrics.outbox.retrying)
        yield from (pending, retrying)
        overdue = GaugeMetricFamily(
            "euterpe_housekeeping_overdue_seconds", "How long ago the oldest ended job should have been removed."
        )
        if self._metrics.overdue_s is not None:
            overdue.add_metric([], self._metrics.overdue_s)
        yield overdue

    def _plain_counters(self) -> Iterator[Metric]:
        metrics = self._metrics
        labelled = (
            ("outbox_delivery_attempts_total", "Webhook deliveries tried.", metrics.deliveries),
            ("credential_refresh_total", "Credential refreshes asked for.", metrics.refreshes),
        )
        for name, help_text, by_outcome in labelled:
            counter = CounterMetricFamily(name, help_text, labels=["outcome"])
            for outcome, count in by_outcome.items():
                counter.add_metric([outcome], count)
            yield counter
        removed = CounterMetricFamily(
            "euterpe_housekeeping_removed_total", "Rows that housekeeping removed.", labels=["kind"]
        )
        for kind, count in metrics.removed.items():
            removed.add_metric([kind], count)
        yield removed
        yield CounterMetricFamily(
            "jobs_reclaimed_total", "Jobs taken back because their lease expired.", metrics.reclaims
        )
        yield CounterMetricFamily(
            "euterpe_jobs_adopted_total", "Jobs that were ready and in no line.", metrics.adoptions
        )
        yield CounterMetricFamily("outbox_dead_letter_total", "Webhook events given up.", metrics.outbox_dead)
        yield CounterMetricFamily("stale_writes_rejected_total", "Writes that the fence refused.", metrics.stale_writes)
        yield CounterMetricFamily("reaper_jobs_moved_total", "Jobs the Redis-list reaper put back.", metrics.reaped)
