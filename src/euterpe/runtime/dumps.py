"""Keep this process's memory to itself: no core dump, and no other process of the same user reads it."""

from __future__ import annotations

import ctypes
import sys
from typing import Final

PR_SET_DUMPABLE: Final = 4


def forbid_dumps() -> None:
    """For a process that holds credentials. A program that it starts by exec is as dumpable as any other."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
