"""The run as Markdown: one table a store, one row a subject, `median (low-high)` in every cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.harness.metrics import METRICS, Metric
from bench.harness.statistics import Spread
from bench.harness.summary import Summary

ABSENT = "-"


@dataclass(frozen=True, slots=True)
class Section:
    """A table: its heading, and its rows in order as (subject, label)."""

    heading: str
    rows: Sequence[tuple[str, str]]


def render_cell(metric: Metric, value: Spread | None) -> str:
    if value is None:
        return ABSENT
    low, median, high = (metric.format(number) for number in (value.low, value.median, value.high))
    return median if value.count == 1 else f"{median} ({low}-{high})"


def render_table(section: Section, summary: Summary) -> str:
    columns = [
        metric
        for metric in METRICS
        if not (metric.ours_alone or metric.of_shape)
        and any(summary.spread(subject, metric.key) is not None for subject, _ in section.rows)
    ]
    lines = [
        f"### {section.heading}",
        "",
        "| | " + " | ".join(f"{metric.title}, {metric.unit}" for metric in columns) + " |",
        "|---" * (len(columns) + 1) + "|",
    ]
    for subject, label in section.rows:
        cells = [render_cell(metric, summary.spread(subject, metric.key)) for metric in columns]
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def render_ours(subjects: Sequence[str], summary: Summary) -> str | None:
    """What only our own subjects are measured by, a line a figure; None where nothing of that was measured."""
    lines = []
    for metric in METRICS:
        cells = [render_cell(metric, summary.spread(subject, metric.key)) for subject in subjects]
        if metric.ours_alone and set(cells) != {ABSENT}:
            lines.append(f"| {metric.title}, {metric.unit} | " + " | ".join(cells) + " |")
    if not lines:
        return None
    head = ["### Ours alone", "", "| | " + " | ".join(subjects) + " |", "|---" * (len(subjects) + 1) + "|"]
    return "\n".join(head + lines)


def render_ratios(pairs: Sequence[tuple[str, str]], summary: Summary) -> str:
    """`subject : other` for every metric that both have, taken inside each round."""
    lines = ["### Ratios", "", "| | metric | ratio, median (low-high) |", "|---|---|---|"]
    for subject, other in pairs:
        for metric in METRICS:
            value = summary.ratio(subject, other, metric.key)
            if value is not None:
                shown = f"{value.median:.2f} ({value.low:.2f}-{value.high:.2f})"
                lines.append(f"| {subject} : {other} | {metric.title} | {shown} |")
    return "\n".join(lines)


def render_failures(summary: Summary) -> str:
    lines = ["### Failed measurements", ""]
    for subject, reasons in summary.failures.items():
        for reason in reasons:
            lines += [f"**{subject}**", "", "```", reason, "```", ""]
    return "\n".join(lines)
