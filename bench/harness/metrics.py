"""The figures that a run can hold: titles, units, which direction is better. Tables and charts read this."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Metric:
    key: str
    title: str
    unit: str
    higher_is_better: bool

    def format(self, value: float) -> str:
        if self.unit == "jobs/s" or self.unit == "/s":
            return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"
        return f"{value:.0f}" if value >= 100 else f"{value:.2f}" if value < 10 else f"{value:.1f}"


METRICS = (
    Metric("submit_one", "submit one by one", "jobs/s", True),
    Metric("submit_bulk", "bulk submit", "jobs/s", True),
    Metric("drain_x1", "drain, 1 worker process", "jobs/s", True),
    Metric("drain_x2", "drain, 2 worker processes", "jobs/s", True),
    Metric("latency_p50", "latency p50", "ms", False),
    Metric("latency_p99", "latency p99", "ms", False),
    Metric("idle_cpu", "idle CPU", "% of a core", False),
    Metric("idle_rss", "idle RSS", "MB", False),
    Metric("drain_wal", "WAL in the drain (x1)", "bytes/job", False),
    Metric("drain_commits", "commits in the drain (x1)", "per 1000 jobs", False),
    Metric("raw", "raw limit", "/s", True),
)
METRIC = {metric.key: metric for metric in METRICS}
