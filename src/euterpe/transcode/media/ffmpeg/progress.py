"""How far a run is: by the time of the media, over all passes, never backwards."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

MOST_BEFORE_THE_END = 99.0
"""Until every output is verified nothing is finished."""


@dataclass(frozen=True, slots=True)
class MediaProgress:
    percent: float
    speed: float | None = None
    """Seconds of media a second, of the running pass."""
    eta_seconds: float | None = None


OnProgress = Callable[[MediaProgress], None]


class Meter:
    """Passes are weighed by what they cost; a pass of unknown length counts when it is over."""

    def __init__(
        self, weights: Sequence[float], report: OnProgress, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._weights = list(weights)
        self._total = sum(weights) or 1.0
        self._report = report
        self._clock = clock
        self._began = clock()
        self._done = 0.0
        self._percent = 0.0

    def begin_pass(self, number: int, length_ms: int | None) -> PassMeter:
        self._done = sum(self._weights[:number])
        self._move_to(self._done, None)
        return PassMeter(
            lambda share, speed: self._move_to(self._done + share * self._weights[number], speed), length_ms
        )

    def finish(self) -> None:
        self._percent = 100.0
        self._report(MediaProgress(100.0, None, 0.0))

    def _move_to(self, done: float, speed: float | None) -> None:
        share = min(1.0, done / self._total)
        self._percent = max(self._percent, min(MOST_BEFORE_THE_END, round(100 * share, 1)))
        spent = self._clock() - self._began
        eta = round(spent * (1 - share) / share, 1) if share > 0.01 else None
        self._report(MediaProgress(self._percent, speed, eta))


class PassMeter:
    """Reads what `-progress` writes: lines of `key=value`, a block ends with `progress=`."""

    def __init__(self, report: Callable[[float, float | None], None], length_ms: int | None) -> None:
        self._report = report
        self._length_us = (length_ms or 0) * 1000
        self._rest = b""
        self._values: dict[str, str] = {}
        self._marks: tuple[str, ...] = ()
        self._share = 0.0
        self.reached_ms = 0

    def feed(self, chunk: bytes) -> bool:
        """True when something moved since the last block: time, frames or bytes."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        self._rest = self._rest[-4096:]
        moved = False
        for line in lines:
            key, _, value = line.decode(errors="replace").strip().partition("=")
            self._values[key] = value.strip()
            if key == "progress":
                moved |= self._block(value.strip() == "end")
        return moved

    def _block(self, ended: bool) -> bool:
        marks = tuple(self._values.get(key, "") for key in ("out_time_us", "frame", "total_size"))
        moved = ended or marks != self._marks
        self._marks = marks
        at_us = whole(self._values.get("out_time_us", ""))
        self.reached_ms = max(self.reached_ms, (at_us or 0) // 1000)
        if at_us is not None and self._length_us:
            self._share = max(self._share, min(1.0, at_us / self._length_us))
        if ended:
            self._share = 1.0
        self._report(self._share, speed_of(self._values.get("speed", "")))
        return moved


def whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.lstrip("-").isdigit() and int(text) >= 0 else None


def speed_of(text: str) -> float | None:
    try:
        return float(text.removesuffix("x"))
    except ValueError:
        return None
