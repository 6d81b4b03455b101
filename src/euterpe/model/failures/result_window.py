"""The results of one job type within a sliding window, counted by requester and place.

A circuit opens by these counts: for one requester, for one place of a requester, or for everybody. One requester alone
never opens a circuit for others, so the requester that failed most is left out before the others are judged.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from euterpe.model.failures.circuit_breaker import SLICES_PER_WINDOW, BreakerPolicy

MOST_KEYS: Final = 1_000
"""Further requesters and places are counted together, so that memory stays bounded."""


class ResultKey(NamedTuple):
    """Whose results are counted. `place` is empty where the failure names none."""

    requester: str
    place: str = ""


OTHERS: Final = ResultKey("", "\0")


class ResultWindow:
    """The window slides in steps of a twentieth, as that of `CircuitBreaker` does."""

    def __init__(self, policy: BreakerPolicy) -> None:
        self._policy = policy
        self._slices: deque[tuple[int, dict[ResultKey, list[int]]]] = deque()
        self._totals: dict[ResultKey, list[int]] = {}
        self.failed = 0
        """Failures within the window, of all together."""

    def add(self, now_us: int, key: ResultKey, succeeded: int, failed: int) -> None:
        self.slide(now_us)
        if key not in self._totals and len(self._totals) >= MOST_KEYS:
            key = OTHERS
        number = now_us * SLICES_PER_WINDOW // self._policy.window_us
        if not self._slices or self._slices[-1][0] < number:
            self._slices.append((number, {}))
        for counts in (self._slices[-1][1].setdefault(key, [0, 0]), self._totals.setdefault(key, [0, 0])):
            counts[0] += succeeded
            counts[1] += failed
        self.failed += failed

    def slide(self, now_us: int) -> None:
        """Forget what is older than the window."""
        oldest = now_us * SLICES_PER_WINDOW // self._policy.window_us - SLICES_PER_WINDOW
        while self._slices and self._slices[0][0] <= oldest:
            for key, (succeeded, failed) in self._slices.popleft()[1].items():
                total = self._totals[key]
                total[0] -= succeeded
                total[1] -= failed
                self.failed -= failed
                if total == [0, 0]:
                    del self._totals[key]

    def forget(self, key: ResultKey) -> None:
        self.failed -= self._totals.pop(key, (0, 0))[1]
        for _, counts in self._slices:
            counts.pop(key, None)

    def has(self, key: ResultKey) -> bool:
        return key in self._totals

    def is_over(self, key: ResultKey) -> bool:
        """Whether the circuit of this requester or place must open."""
        return key is not OTHERS and self._policy.is_over(*self._totals.get(key, (0, 0)))

    def is_over_for_all(self) -> bool:
        """Whether the type fails for everybody: over the threshold with all requesters, and over it without the one
        that failed most, on half as many results."""
        counts = [total for key, total in self._totals.items() if not key.place or key is OTHERS]
        succeeded, failed = sum(c[0] for c in counts), sum(c[1] for c in counts)
        if not self._policy.is_over(succeeded, failed):
            return False
        worst = max(counts, key=lambda c: c[1])
        few = -(-self._policy.min_samples // 2)
        return self._policy.is_over(succeeded - worst[0], failed - worst[1], few)
