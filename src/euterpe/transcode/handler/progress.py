"""How far a transcode is: one percentage over all stages, and the speed and the time left of the running one."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any, Final

from euterpe.transcode.media.ffmpeg.progress import MediaProgress

SHARES: Final = {"fetching": (0.0, 10.0), "processing": (10.0, 90.0), "uploading": (90.0, 100.0)}
"""From and to, in percent of the whole."""
INTERVAL_S: Final = 0.5

_TEXT: Final = re.compile(r"(?:(?P<speed>[0-9.]+)x)?(?:, )?(?:(?P<eta>[0-9.]+) s left)?")

OnProgress = Callable[[float, str], object]


class ProgressReporter:
    """Tells now and then; a stage never goes back."""

    def __init__(
        self, on_progress: OnProgress, call_back: OnProgress | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._on_progress = on_progress
        self._call_back = call_back
        self._clock = clock
        self._next = 0.0
        self.percent = 0.0

    def encoding(self, progress: MediaProgress) -> None:
        self._report("processing", progress.percent / 100, progress_text(progress.speed, progress.eta_seconds))

    def moved(self, stage: str, done: int, total: int | None) -> None:
        """Bytes of a transfer."""
        self._report(stage, min(1.0, done / total) if total else 0.0, "")

    def _report(self, stage: str, share: float, message: str) -> None:
        low, high = SHARES[stage]
        self.percent = max(self.percent, round(low + (high - low) * share, 1))
        now = self._clock()
        if now >= self._next:
            self._next = now + INTERVAL_S
            self._on_progress(self.percent, message)
            if self._call_back is not None:
                self._call_back(self.percent, message)


def progress_text(speed: float | None, eta_seconds: float | None) -> str:
    """For people who look at the job itself; `progress_document` reads it again."""
    parts = [f"{speed:g}x"] if speed is not None else []
    if eta_seconds is not None:
        parts.append(f"{eta_seconds:g} s left")
    return ", ".join(parts)


def progress_document(percent: float | None, message: str | None) -> dict[str, Any] | None:
    if percent is None:
        return None
    found = _TEXT.fullmatch(message or "")
    speed, eta = (found.group("speed"), found.group("eta")) if found else (None, None)
    return {
        "percent": percent,
        "speed": None if speed is None else float(speed),
        "eta_seconds": None if eta is None else float(eta),
    }
