"""Rates that no database has to know of."""

from __future__ import annotations

import time
from collections.abc import Callable


class Unlimited:
    """No limit."""

    async def take(self, count: int) -> float:  # noqa: ARG002  # as the port has it
        return 0.0

    async def give_back(self, count: int) -> None:
        """Nothing was taken."""


class OwnRate:
    """`per_s` a second for this process alone: where the jobs go to a control plane, whose database is out of reach."""

    def __init__(self, per_s: float, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._each_s = 1 / per_s
        self._clock_s = clock_s
        self._next_at = 0.0

    async def take(self, count: int) -> float:
        now = self._clock_s()
        begins = max(now, self._next_at)
        self._next_at = begins + count * self._each_s
        return begins - now

    async def give_back(self, count: int) -> None:
        self._next_at -= count * self._each_s
