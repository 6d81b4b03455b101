"""What a user reads after the table of shapes: the bulk drain at the default settings, beside whom, and what is kept.

`bench/run --headline` measures exactly what stands in both tables, and what our targets ask for beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bench.harness.catalogue import Subject
from bench.harness.metrics import METRIC
from bench.harness.shapes import SHAPES
from bench.harness.summary import Summary
from bench.harness.table import ABSENT, render_cell

HEADLINE_PEERS: Final = (
    "euterpe", "euterpe-24", "euterpe-2000", "graphile-worker", "pgqueuer",
    "euterpe-sqlite", "euterpe-sqlite-24", "euterpe-sqlite-2000", "huey-sqlite",
)  # fmt: skip
HEADLINE_SCENARIOS: Final = (
    "submit-one", "submit-bulk", "drain-x1", *(f"drain-{shape.name}" for shape in SHAPES), "drain-x2", "latency",
    "submit-64", "drain-x8", "drain-callbacks", "drain-chains", "drain-keys", "latency-local",
)  # fmt: skip
HEADLINE_RATIOS: Final = (
    "euterpe:graphile-worker", "euterpe:pgqueuer", "euterpe-24:graphile-worker", "euterpe:euterpe-2000",
    "euterpe-24:euterpe-2000", "euterpe-sqlite:huey-sqlite", "euterpe-sqlite-24:huey-sqlite",
    "euterpe-sqlite-2000:huey-sqlite",
)  # fmt: skip
OURS_ON: Final = {"postgres": "euterpe", "sqlite": "euterpe-sqlite"}
"""Whom the others on a store are held against: ourselves, at the default settings."""
STORES: Final = {"postgres": "Postgres", "sqlite": "SQLite"}
COLUMNS: Final = (
    "no-op jobs", "drain, jobs/s", "Euterpe : it", "2 processes, jobs/s", "submit one by one /s", "in bulk /s",
    "latency p50, p99 ms", "CPU of a job, worker + server us", "WAL, bytes a job", "keeps of a finished job",
)  # fmt: skip


def render_headline(subjects: Sequence[Subject], summary: Summary) -> str | None:
    """None where our own drain at the default settings was not measured."""
    measured = {s.name: s for s in subjects if summary.spread(s.name, "drain_x1") is not None}
    if measured.keys().isdisjoint(OURS_ON.values()):
        return None
    shown = [measured[name] for name in HEADLINE_PEERS if name in measured]
    lines = [
        "### At the default settings",
        "",
        "| " + " | ".join(COLUMNS) + " |",
        "|---" * len(COLUMNS) + "|",
        *(_line(subject, summary) for subject in shown),
    ]
    return "\n".join(lines)


def _line(subject: Subject, summary: Summary) -> str:
    def cell(metric: str) -> str:
        return render_cell(METRIC[metric], summary.spread(subject.name, metric))

    def median(metric: str) -> str:
        found = summary.spread(subject.name, metric)
        return ABSENT if found is None else METRIC[metric].format(found.median)

    def medians(first: str, second: str, between: str) -> str:
        both = [shown for shown in (median(first), median(second)) if shown != ABSENT]
        return between.join(both) or ABSENT

    ratio = None if _is_default(subject) else summary.ratio(OURS_ON[subject.store], subject.name, "drain_x1")
    cells = (
        _label(subject),
        cell("drain_x1"),
        "" if ratio is None else f"{ratio.median:.2f} ({ratio.low:.2f}-{ratio.high:.2f})",
        cell("drain_x2"),
        cell("submit_one"),
        cell("submit_bulk"),
        medians("latency_p50", "latency_p99", ", "),
        medians("drain_x1_worker_cpu", "drain_x1_server_cpu", " + "),
        median("drain_x1_wal"),
        subject.keeps,
    )
    return "| " + " | ".join(cells) + " |"


def _is_default(subject: Subject) -> bool:
    return subject.name == OURS_ON[subject.store]


def _label(subject: Subject) -> str:
    if subject.environment.kind != "repository":
        return f"{subject.distribution} {subject.environment.version_of(subject.distribution)}"
    slots = f"{subject.settings['concurrency']:,} slots"
    if _is_default(subject):
        return f"**Euterpe on {STORES[subject.store]}**, default settings ({slots})"
    return f"Euterpe on {STORES[subject.store]}, {slots}"
