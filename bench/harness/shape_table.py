"""The table that a report begins with: one worker's drain of every shape of jobs, the worst shape first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from bench.harness.catalogue import Subject
from bench.harness.metrics import METRIC
from bench.harness.shapes import BULK, SHAPES, Shape
from bench.harness.summary import Summary
from bench.harness.table import ABSENT, render_cell

OURS: Final = ("euterpe", "euterpe-sqlite")
HELD_AGAINST: Final = ("graphile-worker", "pgqueuer")
COSTS: Final = ("server_cpu", "worker_cpu", "wal")
COLUMNS: Final = (
    "jobs", "queue", "drain, jobs/s", *(f"to {peer}" for peer in HELD_AGAINST),
    "CPU of the server, us a job", "CPU of the worker, us a job", "WAL, bytes a job",
)  # fmt: skip


def render_shapes(subjects: Sequence[Subject], summary: Summary) -> str | None:
    """None where no shape but the bulk one was measured for us."""
    measured = [shape for shape in SHAPES if any(summary.spread(name, shape.metric) for name in OURS)]
    if not measured:
        return None
    shown = [subject for name in (*OURS, *HELD_AGAINST) for subject in subjects if subject.name == name]
    ordered = sorted((BULK, *measured), key=lambda shape: _badness(shape, summary))
    lines = [
        "### Every shape of jobs at the default settings, the worst first",
        "",
        "| " + " | ".join(COLUMNS) + " |",
        "|---" * len(COLUMNS) + "|",
        *(line for shape in ordered for line in _lines(shape, shown, summary)),
    ]
    return "\n".join(lines)


def _badness(shape: Shape, summary: Summary) -> tuple[float, float]:
    """Our lowest ratio to a peer on the same store; a shape without one comes after those, by our own drain."""
    ratios = [summary.ratio(OURS[0], peer, shape.metric) for peer in HELD_AGAINST]
    drains = [summary.spread(name, shape.metric) for name in OURS]
    return (
        min((ratio.median for ratio in ratios if ratio is not None), default=float("inf")),
        min((drain.median for drain in drains if drain is not None), default=float("inf")),
    )


def _lines(shape: Shape, subjects: Sequence[Subject], summary: Summary) -> Iterator[str]:
    for subject in subjects:
        drain = summary.spread(subject.name, shape.metric)
        lacking = (subject.lacks or {}).get(shape.name)
        if drain is None and lacking is None:
            continue
        costs = [f"{shape.metric}_{cost}" for cost in COSTS]
        cells = (
            f"{shape.name}: {shape.title}",
            f"**{subject.name}**" if subject.name in OURS else subject.name,
            lacking or render_cell(METRIC[shape.metric], drain),
            *(_ratio(subject.name, peer, shape, summary) for peer in HELD_AGAINST),
            *(render_cell(METRIC[cost], summary.spread(subject.name, cost)) for cost in costs),
        )
        yield "| " + " | ".join(cells) + " |"


def _ratio(subject: str, peer: str, shape: Shape, summary: Summary) -> str:
    ratio = summary.ratio(subject, peer, shape.metric) if subject in OURS else None
    return ABSENT if ratio is None else f"{ratio.median:.2f} ({ratio.low:.2f}-{ratio.high:.2f})"
