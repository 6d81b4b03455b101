"""The order of measurements, what a failure of one subject does to the others, and what busy neighbours do."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time

import pytest

from bench.harness import neighbours
from bench.harness.neighbours import Reading
from bench.harness.rounds import Figures, Measurement, Outcome, Pace, run_rounds


class Broken(Exception):
    """The subject's own failure."""


def measurement(subject: str, scenario: str, log: list[str], failure: Exception | None = None) -> Measurement:
    async def measure() -> Figures:
        log.append(f"{scenario}/{subject}")
        if failure is not None:
            raise failure
        return {"drain_x1": 1.0}

    return Measurement(subject, scenario, measure)


async def test_rounds_are_interleaved_and_compared_subjects_follow_each_other() -> None:
    log: list[str] = []
    plan = [
        measurement("a", "drain", log),
        measurement("a", "idle", log),
        measurement("b", "drain", log),
        measurement("b", "idle", log),
    ]

    outcomes = await run_rounds(plan, Pace(2, (Broken,)), lambda _: None)

    assert log == ["drain/a", "drain/b", "idle/a", "idle/b"] * 2
    assert [outcome.round for outcome in outcomes] == [1] * 4 + [2] * 4


async def test_a_failed_subject_keeps_its_reason_and_leaves_the_others_their_figures() -> None:
    told: list[Outcome] = []
    plan = [measurement("a", "drain", [], Broken("out of breath")), measurement("b", "drain", [])]

    outcomes = await run_rounds(plan, Pace(1, (Broken,)), told.append)

    assert outcomes == told
    assert [(outcome.subject, outcome.figures, outcome.error) for outcome in outcomes] == [
        ("a", {}, "out of breath"),
        ("b", {"drain_x1": 1.0}, None),
    ]


async def test_a_bug_of_the_harness_is_not_taken_for_a_failed_subject() -> None:
    plan = [measurement("a", "drain", [], KeyError("bug"))]

    with pytest.raises(KeyError):
        await run_rounds(plan, Pace(1, (Broken,)), lambda _: None)


def test_what_we_and_our_ended_children_do_is_counted_as_ours() -> None:
    before = neighbours.read()
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    subprocess.run([sys.executable, "-IS", "-c", burn], check=True)
    spun_s = time.process_time() + 0.3
    while time.process_time() < spun_s:
        pass
    after = neighbours.read()

    assert after.ours_s - before.ours_s >= 0.55  # the system counts in hundredths of a second
    assert after.machine_s - before.machine_s >= 0.5


def test_the_neighbours_share_is_what_the_machine_did_beyond_us() -> None:
    before = Reading(wall_s=100, machine_s=50, ours_s=10)

    assert neighbours.busy_cores(before, Reading(wall_s=110, machine_s=65, ours_s=12)) == 1.3
    assert neighbours.busy_cores(before, Reading(wall_s=110, machine_s=51, ours_s=12)) == 0


@pytest.mark.parametrize(
    ("others_cores", "kept", "measured"), [([1.0, 0.5, 0.7], 0.5, 3), ([1.0, 0.125, 0.0], 0.125, 2)]
)
async def test_a_disturbed_measurement_is_repeated_and_the_quietest_kept(
    others_cores: list[float], kept: float, measured: int
) -> None:
    # Two readings a measurement, one second apart, between which only the neighbours work.
    machine_s = itertools.accumulate(itertools.chain.from_iterable((0.0, cores) for cores in others_cores))
    readings = (Reading(wall_s=number, machine_s=total, ours_s=0) for number, total in enumerate(machine_s))
    log: list[str] = []
    pace = Pace(1, (), attempts=3, read=lambda: next(readings))

    (outcome,) = await run_rounds([measurement("a", "drain", log)], pace, lambda _: None)

    assert outcome.others_cores == kept
    assert len(log) == measured
