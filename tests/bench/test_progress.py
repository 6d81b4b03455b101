"""Rates inside a drain, out of what the workers reported."""

from __future__ import annotations

from pathlib import Path

from bench.harness.catalogue import OURS
from bench.harness.metrics import METRIC
from bench.harness.own_scenarios import drain_long
from bench.harness.progress import Progress
from bench.harness.scenarios import Sizes
from tests.bench.test_own_scenarios import OneStore


def reported(*seen: tuple[float, int]) -> Progress:
    moments = iter([round(at_s * 1e9) for at_s, _ in seen])
    progress = Progress(100, lambda: next(moments))
    for _, started in seen:
        progress.note(started)
    return progress


def test_a_rate_is_of_the_part_that_was_asked_for() -> None:
    progress = reported((0.0, 0), (1.0, 25), (1.5, 75), (10.0, 100))

    assert progress.rate(0.25, 0.75) == 100
    assert progress.rate(0, 1) == 10


def test_reports_that_are_too_few_tell_nothing() -> None:
    progress = reported((0.0, 0), (1.0, 60))

    assert progress.rate(0.25, 0.5) is None
    assert progress.rate(0.25, 0.75) is None


async def test_a_long_drain_of_ours_is_measured_at_its_begin_and_its_end(
    fresh_postgres_url: str, tmp_path: Path
) -> None:
    figures = await drain_long(OURS[0], OneStore(fresh_postgres_url, tmp_path), Sizes(jobs=600))

    assert figures.keys() <= {"drain_begin", "drain_end"}
    assert all(value > 0 and METRIC[name].ours_alone for name, value in figures.items())
