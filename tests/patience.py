"""How long a test waits for what must come: long, because a busy machine is no failure.

With a planted bug it often never comes. Such a run waits less, and its verdict is the same: what is waited for here
takes a fraction of a second.

A wait that runs out raises TimeoutError, and so does a time that was too long: `.ci/run` asks such tests again, alone
(`scripts/waits_that_ran_out.py`), and takes every other failure for what it is.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Final

VARIABLE: Final = "EUTERPE_TEST_PATIENCE_S"
WITH_A_PLANTED_BUG_S: Final = 10
PATIENCE_S: Final = float(os.environ.get(VARIABLE, "40"))


def in_time(took_s: float, most_s: float, what: str = "it took too long") -> None:
    """For an upper bound of a time on the clock. Half of the machine may have been somebody else's."""
    if not took_s < most_s:
        raise TimeoutError(f"{what}: {took_s:.2f} s of at most {most_s:.2f} s")


def looks(what: Callable[[], object], within_s: float = PATIENCE_S, every_s: float = 0.05) -> Iterator[None]:
    """`for _ in looks(...)` looks until it is left, and no longer than this; `what` says then what was seen."""
    ends_at = time.monotonic() + within_s
    while time.monotonic() < ends_at:
        yield
        time.sleep(every_s)
    raise TimeoutError(f"waited {within_s:.0f} s in vain: {what()}")
