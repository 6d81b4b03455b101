"""A clock for durations that must not shrink when the machine is suspended."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Final


def _with_suspend() -> Callable[[], float]:
    """Linux has a clock of its own for it, macOS counts suspend in CLOCK_MONOTONIC; `time.monotonic` stands still on
    both. Windows has neither, and its `time.monotonic` counts suspend."""
    for name in ("CLOCK_BOOTTIME", "CLOCK_MONOTONIC"):
        if hasattr(time, "clock_gettime") and hasattr(time, name):
            return partial(time.clock_gettime, getattr(time, name))
    return time.monotonic


awake_or_not_s: Final = _with_suspend()
"""Seconds since some moment, time in suspend included."""
