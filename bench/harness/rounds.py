"""Interleaving: every subject once in each round, so that a slow minute of the machine falls on all alike."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from bench.harness import neighbours

Figures = dict[str, float]
QUIET_CORES = 0.25
SAMPLE_S = 1.0


@dataclass(frozen=True, slots=True)
class Measurement:
    """One thing to measure once a round; `measure` leaves nothing behind."""

    subject: str
    scenario: str
    measure: Callable[[], Awaitable[Figures]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Either figures or the reason why there are none; `others_cores` is what other programs took meanwhile."""

    round: int
    subject: str
    scenario: str
    figures: Figures
    error: str | None = None
    others_cores: float = 0.0


@dataclass(frozen=True, slots=True)
class Pace:
    """How to live with neighbours: `patience_s` waits up to that long for a quiet second before a measurement, and
    `attempts` above 1 repeats one that was disturbed all the same, and keeps the least disturbed.

    Both look at the neighbours only, never at the figure. `expected` are the failures of a subject that must
    not take the other subjects' figures with them.
    """

    rounds: int
    expected: tuple[type[Exception], ...]
    attempts: int = 1
    patience_s: float = 0.0
    read: Callable[[], neighbours.Reading] = neighbours.read


async def run_rounds(plan: Sequence[Measurement], pace: Pace, tell: Callable[[Outcome], None]) -> list[Outcome]:
    """Scenario by scenario inside a round, so that the subjects to be compared follow each other closely."""
    scenarios = list(dict.fromkeys(measurement.scenario for measurement in plan))
    ordered = sorted(plan, key=lambda measurement: scenarios.index(measurement.scenario))
    outcomes: list[Outcome] = []
    for number in range(1, pace.rounds + 1):
        for measurement in ordered:
            outcomes.append(await measure_in_quiet(measurement, number, pace))
            tell(outcomes[-1])
    return outcomes


async def measure_in_quiet(measurement: Measurement, number: int, pace: Pace) -> Outcome:
    quietest = await measure_once(measurement, number, pace)
    for _ in range(pace.attempts - 1):
        if quietest.error is not None or quietest.others_cores <= QUIET_CORES:
            break
        again = await measure_once(measurement, number, pace)
        if again.error is not None or again.others_cores < quietest.others_cores:
            quietest = again
    return quietest


async def wait_for_quiet(pace: Pace) -> None:
    deadline_s = time.monotonic() + pace.patience_s
    while time.monotonic() < deadline_s:
        before = pace.read()
        await asyncio.sleep(SAMPLE_S)
        if neighbours.busy_cores(before, pace.read()) <= QUIET_CORES:
            return


async def measure_once(measurement: Measurement, number: int, pace: Pace) -> Outcome:
    await wait_for_quiet(pace)
    before = pace.read()
    try:
        figures, error = await measurement.measure(), None
    except pace.expected as failure:
        figures, error = {}, str(failure)
    others_cores = neighbours.busy_cores(before, pace.read())
    return Outcome(number, measurement.subject, measurement.scenario, figures, error, others_cores)
