"""A shorter switch interval between threads while SQLite's writer thread works.

Every call into SQLite lets the lock go, and to have it back from a busy event loop takes one switch interval, five
milliseconds by default: more than a whole batch takes SQLite. So does the thread's first step after it was woken. The
interval belongs to the process, so it is shortened only while something is being written, or waits to be, and put back
as it was.
"""

from __future__ import annotations

import sys
import threading
from typing import Final

SOON_S: Final = 0.0001
ROUNDING_S: Final = 5e-7
"""The interpreter cuts off to whole microseconds: what it told, told back to it, could be one less every time."""


class ShortSwitchInterval:
    """A context for any number of threads at once; the last one out puts the interval back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._usual_s = 0.0

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._usual_s = sys.getswitchinterval()
                if self._usual_s > SOON_S:
                    sys.setswitchinterval(SOON_S)
            self._inside += 1

    def __exit__(self, *_error: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0 and self._usual_s > SOON_S:
                sys.setswitchinterval(self._usual_s + ROUNDING_S)


short_switch_interval: Final = ShortSwitchInterval()
