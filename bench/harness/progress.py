"""How far a drain was at which time: what it did in its middle, and whether it ends as fast as it began."""

from __future__ import annotations

import time
from collections.abc import Callable


class Progress:
    """Handler starts of all workers, as often as they report them."""

    def __init__(self, jobs: int, clock_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._jobs = jobs
        self._clock_ns = clock_ns
        self._seen: list[tuple[int, int]] = []

    def note(self, started: int) -> None:
        self._seen.append((self._clock_ns(), started))

    def rate(self, from_share: float, to_share: float) -> float | None:
        """Jobs a second between these shares of all jobs; None where the reports are too few to tell."""
        begin, end = self._first_at(from_share), self._first_at(to_share)
        if begin is None or end is None or end[0] == begin[0]:
            return None
        return (end[1] - begin[1]) / ((end[0] - begin[0]) / 1e9)

    def _first_at(self, share: float) -> tuple[int, int] | None:
        return next((seen for seen in self._seen if seen[1] >= share * self._jobs), None)
