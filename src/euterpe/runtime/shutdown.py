"""One deadline for all that a process still waits for once it was told to stop.

Its parts end one after the other. With a time of their own each, a network that swallows packets would cost the sum.
"""

from __future__ import annotations

import time
from typing import Final

WRITE_S: Final = 1.5
"""After the grace time: to write down what ended and what is given back. The rest is left to the leases' expiry."""
CLOSE_S: Final = 2.0
"""After the grace time: to do that and to end everything else."""
SHORTEST_S: Final = 0.2
"""Also past the deadline: who can end at once does so in order."""


class ShutdownDeadline:
    """Not set before somebody is told to stop; until then everyone may wait as long as they like."""

    def __init__(self) -> None:
        self._at: float | None = None

    def set_in(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds

    def clear(self) -> None:
        self._at = None

    @property
    def is_set(self) -> bool:
        return self._at is not None

    def left_s(self, at_most: float) -> float:
        """How long to wait for something that may take so long."""
        if self._at is None:
            return at_most
        return min(at_most, max(SHORTEST_S, self._at - time.monotonic()))
