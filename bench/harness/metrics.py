"""The figures that a run can hold: titles, units, which direction is better. Tables and charts read this."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bench.harness.shapes import BULK, SHAPES, Shape


@dataclass(frozen=True, slots=True)
class Metric:
    key: str
    title: str
    unit: str
    higher_is_better: bool
    ours_alone: bool = False
    """Measured for our own subjects only, so it has a table of its own and no column in the peers'."""
    of_shape: bool = False
    """Of a drain of one shape of jobs: the table of shapes shows it."""

    def format(self, value: float) -> str:
        if self.unit == "jobs/s" or self.unit == "/s":
            return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"
        return f"{value:.0f}" if value >= 100 else f"{value:.2f}" if value < 10 else f"{value:.1f}"


def cost_metrics(shape: Shape) -> Iterator[Metric]:
    shaped = shape is not BULK
    yield Metric(f"{shape.metric}_worker_cpu", f"CPU of the worker ({shape.name})", "us/job", False, of_shape=shaped)
    yield Metric(f"{shape.metric}_server_cpu", f"CPU of Postgres ({shape.name})", "us/job", False, of_shape=shaped)
    yield Metric(f"{shape.metric}_wal", f"WAL in the drain ({shape.name})", "bytes/job", False, of_shape=shaped)
    yield Metric(f"{shape.metric}_commits", f"commits ({shape.name})", "per 1000 jobs", False, of_shape=shaped)


METRICS = (
    Metric("submit_one", "submit one by one", "jobs/s", True),
    Metric("submit_64", "64 single submits at once", "jobs/s", True, ours_alone=True),
    Metric("submit_bulk", "bulk submit", "jobs/s", True),
    Metric("drain_x1", "drain, 1 worker process", "jobs/s", True),
    Metric("drain_x2", "drain, 2 worker processes", "jobs/s", True),
    Metric("drain_x4", "drain, 4 worker processes", "jobs/s", True, ours_alone=True),
    Metric("drain_x8", "drain, 8 worker processes", "jobs/s", True, ours_alone=True),
    Metric("drain_x2_middle", "middle of a drain, 2 processes", "jobs/s", True, ours_alone=True),
    Metric("drain_x8_middle", "middle of a drain, 8 processes", "jobs/s", True, ours_alone=True),
    Metric("drain_begin", "begin of a long drain", "jobs/s", True, ours_alone=True),
    Metric("drain_end", "end of a long drain", "jobs/s", True, ours_alone=True),
    Metric("drain_callbacks", "drain, a callback each", "jobs/s", True, ours_alone=True),
    Metric("drain_chains", "drain, chains of 10", "jobs/s", True, ours_alone=True),
    Metric("drain_keys", "drain, concurrency keys", "jobs/s", True, ours_alone=True),
    Metric("drain_history", "drain beside a long history", "jobs/s", True, ours_alone=True),
    Metric("drain_snapshot", "drain under an old snapshot", "jobs/s", True, ours_alone=True),
    Metric("latency_p50", "latency p50", "ms", False),
    Metric("latency_p99", "latency p99", "ms", False),
    Metric("latency_local_p50", "latency in one process p50", "ms", False, ours_alone=True),
    Metric("latency_local_p99", "latency in one process p99", "ms", False, ours_alone=True),
    Metric("idle_cpu", "idle CPU", "% of a core", False),
    Metric("idle_rss", "idle RSS", "MB", False),
    Metric("start", "start to the first handler", "ms", False),
    Metric("start_cpu", "CPU of the start", "ms", False),
    *(Metric(shape.metric, f"drain, {shape.title}", "jobs/s", True, of_shape=True) for shape in SHAPES),
    *(metric for shape in (BULK, *SHAPES) for metric in cost_metrics(shape)),
    Metric("raw", "raw limit", "/s", True),
)
METRIC = {metric.key: metric for metric in METRICS}
