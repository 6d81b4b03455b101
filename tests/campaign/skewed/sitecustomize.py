"""First on the path of a process whose clock is wrong: the time of day is off by CAMPAIGN_CLOCK_OFFSET_S."""

import os
import time
from collections.abc import Callable

_OFFSET_S = float(os.environ.get("CAMPAIGN_CLOCK_OFFSET_S", "0"))


def _skew(time_s: Callable[[], float], time_ns: Callable[[], int]) -> None:
    time.time = lambda: time_s() + _OFFSET_S
    time.time_ns = lambda: time_ns() + int(_OFFSET_S * 1e9)


if _OFFSET_S:
    _skew(time.time, time.time_ns)
