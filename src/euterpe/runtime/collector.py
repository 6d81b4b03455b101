"""The garbage collector of a process that is ours."""

from __future__ import annotations

import gc
from typing import Final

YOUNG_OBJECTS: Final = 20_000
"""How many come between two collections of the young ones; Python's own is 700."""


def relax_collector() -> None:
    """It need not look at what is loaded by now, nor as often as for a script, while a thousand jobs come and go in one
    exchange."""
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])
