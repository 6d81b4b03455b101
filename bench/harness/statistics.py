"""Medians with their spread, and ratios of two subjects taken round by round.

Rounds are interleaved, so the two figures of a ratio were taken close to each other and not in different hours.
That does not make a ratio safe on a busy machine: noise hurts one-at-a-time designs far more than batched ones.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spread:
    median: float
    low: float
    high: float
    count: int


def spread(values: Sequence[float]) -> Spread:
    if not values:
        raise ValueError("values is empty; a spread needs at least one measurement")
    return Spread(median=statistics.median(values), low=min(values), high=max(values), count=len(values))


def percentile(values: Sequence[float], percent: float) -> float:
    """The nearest-rank percentile: always a value that was really seen."""
    if not values:
        raise ValueError("values is empty; a percentile needs at least one measurement")
    if not 0 < percent <= 100:
        raise ValueError(f"percent is {percent}; it has to lie above 0 and at most at 100")
    return sorted(values)[math.ceil(percent / 100 * len(values)) - 1]


def ratio(numerators: Mapping[int, float], denominators: Mapping[int, float]) -> Spread:
    """Both by round number; rounds in which either side failed are left out."""
    shared = sorted(numerators.keys() & denominators.keys())
    if not shared:
        raise ValueError("the two subjects share no round in which both were measured")
    if zeros := [number for number in shared if denominators[number] == 0]:
        raise ValueError(f"denominators is 0 in rounds {zeros}; a ratio to nothing means nothing")
    return spread([numerators[number] / denominators[number] for number in shared])
