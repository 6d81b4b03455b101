"""The run as one SVG: a panel a metric, a bar a subject with its low-high whisker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from bench.harness.metrics import METRICS, Metric
from bench.harness.statistics import Spread
from bench.harness.summary import Summary

WIDTH = 860
LABEL_WIDTH = 190
VALUE_WIDTH = 110
BAR_HEIGHT = 14
ROW_HEIGHT = 22
PANEL_HEAD = 44
MARGIN = 16
COLOURS = ("#4477aa", "#cc6677", "#228833", "#999933", "#aa4499")
STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#222}.title{font-size:14px;font-weight:600}.value{fill:#555}"
    ".whisker{stroke:#222;stroke-width:1}.ground{fill:#fff}"
)


@dataclass(frozen=True, slots=True)
class Bar:
    label: str
    colour: str
    value: Spread


def render_chart(subjects: Mapping[str, str], summary: Summary, title: str) -> str:
    """`subjects` maps each subject to its group (its store); a group has one colour."""
    groups = list(dict.fromkeys(subjects.values()))
    colour_of = {group: COLOURS[number % len(COLOURS)] for number, group in enumerate(groups)}
    parts: list[str] = []
    top = MARGIN + 24
    for metric in METRICS:
        bars = [
            Bar(subject, colour_of[group], value)
            for subject, group in subjects.items()
            if (value := summary.spread(subject, metric.key)) is not None
        ]
        if bars:
            bars.sort(key=lambda bar: bar.value.median, reverse=metric.higher_is_better)
            parts.append(render_panel(metric, bars, top))
            top += PANEL_HEAD + ROW_HEIGHT * len(bars)
    height = top + MARGIN
    legend = "".join(
        f'<rect x="{MARGIN + 130 * number}" y="{height - 20}" width="10" height="10" fill="{colour}"/>'
        f'<text x="{MARGIN + 130 * number + 15}" y="{height - 11}">{escape(group)}</text>'
        for number, (group, colour) in enumerate(colour_of.items())
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height + MARGIN}" role="img">'
        f"<title>{escape(title)}</title><style>{STYLE}</style>"
        f'<rect class="ground" width="{WIDTH}" height="{height + MARGIN}"/>'
        f'<text class="title" x="{MARGIN}" y="{MARGIN + 8}">{escape(title)}</text>'
        f"{''.join(parts)}{legend}</svg>\n"
    )


def render_panel(metric: Metric, bars: Sequence[Bar], top: int) -> str:
    longest = max(bar.value.high for bar in bars) or 1.0
    full = WIDTH - LABEL_WIDTH - VALUE_WIDTH - 2 * MARGIN
    better = "more is better" if metric.higher_is_better else "less is better"
    parts = [
        f'<text class="title" x="{MARGIN}" y="{top + 26}">'
        f"{escape(metric.title)}, {escape(metric.unit)} ({better})</text>"
    ]
    left = MARGIN + LABEL_WIDTH
    for number, bar in enumerate(bars):
        y = top + PANEL_HEAD - 8 + ROW_HEIGHT * number
        middle = y + BAR_HEIGHT / 2
        seen = (bar.value.low, bar.value.median, bar.value.high)
        low, median, high = (left + full * value / longest for value in seen)
        length = max(1.0, median - left)
        shown = escape(metric.format(bar.value.median))
        parts.append(
            f'<text x="{left - 8}" y="{y + 11}" text-anchor="end">{escape(bar.label)}</text>'
            f'<rect x="{left}" y="{y}" width="{length:.1f}" height="{BAR_HEIGHT}" fill="{bar.colour}"/>'
            f'<line class="whisker" x1="{low:.1f}" x2="{high:.1f}" y1="{middle}" y2="{middle}"/>'
            f'<text class="value" x="{high + 6:.1f}" y="{y + 11}">{shown}</text>'
        )
    return "".join(parts)
