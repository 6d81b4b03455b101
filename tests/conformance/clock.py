"""A clock that stands still until a test moves it; every engine of a test reads the same one."""

from __future__ import annotations

START_US = 1_767_225_600_000_000
"""2026-01-01T00:00:00Z"""


class FrozenClock:
    def __init__(self, now_us: int = START_US) -> None:
        self.now_us = now_us

    def __call__(self) -> int:
        return self.now_us

    def advance(self, *, us: int = 0, seconds: float = 0, minutes: float = 0, hours: float = 0, days: float = 0) -> int:
        """Move forward; returns the new time."""
        moved_s = seconds + 60 * minutes + 3600 * hours + 86_400 * days
        self.now_us += us + round(moved_s * 1_000_000)
        return self.now_us
