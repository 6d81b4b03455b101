"""How many cores other programs of this machine kept busy during a measurement: the first thing to ask of a bad figure.

Ours is this process with everything below it, what has ended and been waited for included; the rest is theirs.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import psutil


@dataclass(frozen=True, slots=True)
class Reading:
    wall_s: float
    machine_s: float
    ours_s: float


def read() -> Reading:
    machine = psutil.cpu_times()
    busy_s = sum(machine) - machine.idle - machine.iowait
    if hasattr(machine, "guest"):  # Linux counts a guest's time in `user` already
        busy_s -= machine.guest + machine.guest_nice
    return Reading(wall_s=time.monotonic(), machine_s=busy_s, ours_s=ours_s())


def ours_s() -> float:
    total_s = 0.0
    for process in (this := psutil.Process(), *this.children(recursive=True)):
        try:
            total_s += sum(process.cpu_times()[:4])  # user and system, its own and of the children that it waited for
        except psutil.NoSuchProcess:
            continue  # ended meanwhile; its parent has its time now
    return total_s


def busy_cores(before: Reading, after: Reading) -> float:
    theirs_s = (after.machine_s - before.machine_s) - (after.ours_s - before.ours_s)
    return max(0.0, theirs_s / (after.wall_s - before.wall_s))
