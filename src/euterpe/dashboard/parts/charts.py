"""Charts as SVG: sizes are attributes, so the content security policy needs no exception for styles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from euterpe.dashboard.parts import html as h
from euterpe.dashboard.parts.formatting import duration, number
from euterpe.dashboard.parts.html import Html
from euterpe.model.reading.overview import WINDOW_S, EndsSeries
from euterpe.model.state import State

BARS: Final = 60
SCALES_S: Final = (WINDOW_S, 600, 120)
"""How far back a chart reaches: the furthest of these for which all ends are known."""
HEIGHT: Final = 100
BAR: Final = 10


class Bar(NamedTuple):
    """What ended in one step of time."""

    good: int
    bad: int


class Throughput(NamedTuple):
    """Ends over time, oldest first."""

    bars: list[Bar]
    window_s: int
    known_s: int
    """How far back all ends are known; less than the window where there are very many."""

    @property
    def good(self) -> int:
        return sum(bar.good for bar in self.bars)

    @property
    def bad(self) -> int:
        return sum(bar.bad for bar in self.bars)


def throughput(ends: Mapping[State, EndsSeries], now_us: int) -> Throughput:
    """The last step is the one under way."""
    now_s = now_us // 1_000_000
    known_from = max(series.from_second for series in ends.values())
    window_s = _window(ends, known_from, now_s)
    step_s = window_s // BARS
    # Steps begin at round times, so that a bar does not change once it is over.
    first = now_s // step_s - BARS + 1
    good, bad = [0] * BARS, [0] * BARS
    for state, series in ends.items():
        if state is State.CANCELLED:
            continue
        counts = good if state is State.COMPLETED else bad
        for second, count in series.by_second.items():
            place = second // step_s - first
            if 0 <= place < BARS and second >= known_from:
                counts[place] += count
    known_s = max(1, min(window_s, now_s - known_from))
    return Throughput([Bar(*pair) for pair in zip(good, bad, strict=True)], window_s, known_s)


def _window(ends: Mapping[State, EndsSeries], known_from: int, now_s: int) -> int:
    """As far as everything is known, and no further than there is something to see."""
    oldest = min((second for series in ends.values() for second in series.by_second), default=now_s)
    enough = [scale for scale in SCALES_S if now_s - scale >= known_from] or [SCALES_S[-1]]
    whole = [scale for scale in enough if now_s - scale <= oldest]
    return whole[-1] if whole else enough[0]


def throughput_chart(shown: Throughput) -> Html:
    highest = max((bar.good + bar.bad for bar in shown.bars), default=0)
    step = duration(shown.window_s // BARS * 1_000_000)
    told = f"Ended jobs, one bar for each {step}: {number(shown.good)} completed, {number(shown.bad)} failed"
    bars = [_bar(i, bar, highest, step) for i, bar in enumerate(shown.bars)] if highest else []
    return h.svg(
        h.title(told),
        h.path(d=f"M0 {HEIGHT}H{BARS * BAR}", class_="axis"),
        bars,
        viewBox=f"0 0 {BARS * BAR} {HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label=told,
        class_="bars",
    )


def _bar(place: int, bar: Bar, highest: int, step: str) -> Html | None:
    if not bar.good and not bar.bad:
        return None
    usable = HEIGHT - 2
    # What is there at all shows as at least one unit.
    bad = max(1.5, bar.bad / highest * usable) if bar.bad else 0
    good = max(1.5, bar.good / highest * usable) if bar.good else 0
    x, told = place * BAR, f"{step}: {number(bar.good)} completed, {number(bar.bad)} failed"
    return h.g(
        h.title(told),
        h.rect(x=x + 1, width=BAR - 2, y=f"{HEIGHT - good:.1f}", height=f"{good:.1f}", class_="good") if good else None,
        h.rect(x=x + 1, width=BAR - 2, y=f"{HEIGHT - good - bad:.1f}", height=f"{bad:.1f}", class_="bad")
        if bad
        else None,
    )


def percentiles(values: Sequence[int]) -> tuple[int, int, int] | None:
    """The 50th, 95th and 99th; None of nothing."""
    if not values:
        return None
    ordered = sorted(values)
    last = len(ordered) - 1
    return ordered[round(last * 0.5)], ordered[round(last * 0.95)], ordered[round(last * 0.99)]


class ChartSpan(NamedTuple):
    """A part of a job's life."""

    kind: str
    """`waited` or `ran`; the two are told apart by their pattern too."""
    begins: int
    ends: int
    told: str


def timeline(rows: Sequence[Sequence[ChartSpan]], begins: int, ends: int) -> Html:
    """One row an attempt, all on one scale."""
    width, row_height = 1000, 14
    whole = max(1, ends - begins)

    def drawn(stretch: ChartSpan, y: int) -> Html:
        x = (stretch.begins - begins) / whole * width
        length = max(2.0, (stretch.ends - stretch.begins) / whole * width)
        thick = 8 if stretch.kind == "ran" else 3
        return h.rect(
            h.title(stretch.told),
            x=f"{min(x, width - 2):.1f}",
            y=y + (row_height - thick) / 2,
            width=f"{length:.1f}",
            height=thick,
            class_=stretch.kind,
        )

    height = row_height * len(rows)
    told = "; ".join(stretch.told for row in rows for stretch in row)
    return h.svg(
        [drawn(stretch, i * row_height) for i, row in enumerate(rows) for stretch in row],
        viewBox=f"0 0 {width} {height}",
        preserveAspectRatio="none",
        height=height,
        role="img",
        aria_label=told,
        class_="timeline",
    )


def waveform(peaks: Sequence[int]) -> Html | None:
    """Pairs of a lowest and a highest value, as a shape around its middle line."""
    lows, highs = peaks[0::2], peaks[1::2]
    tallest = max((abs(value) for value in peaks), default=0)
    if not tallest or len(lows) != len(highs):
        return None
    top = " ".join(f"L{x} {50 - 48 * high / tallest:.1f}" for x, high in enumerate(highs))
    bottom = " ".join(f"L{x} {50 - 48 * low / tallest:.1f}" for x, low in reversed(list(enumerate(lows))))
    return h.svg(
        h.path(d=f"M0 50 {top} {bottom} Z"),
        viewBox=f"0 0 {len(highs)} 100",
        preserveAspectRatio="none",
        role="img",
        aria_label="Waveform",
        class_="waveform",
    )
