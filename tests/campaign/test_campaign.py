"""A short campaign is part of every run of the tests; long ones are a command."""

from __future__ import annotations

import itertools
import subprocess
import sys

import pytest

from tests.campaign.plan import Engine, faults, submission
from tests.campaign.processes import ROOT
from tests.campaign.verdicts import Verdict, late


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_a_short_campaign_breaks_no_promise(engine: Engine) -> None:
    command = [
        sys.executable,
        "-m",
        "tests.campaign",
        "--engine",
        engine,
        "--seed",
        "3",
        "--jobs",
        "60",
        "--minutes",
        "0.1",
    ]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=180, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr[-3000:]
    assert ended.stdout.count("\nok ") == 14


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_a_seed_tells_all_that_is_submitted_and_all_that_breaks(engine: Engine) -> None:
    first, again, other = (list(itertools.islice(faults(seed, engine), 50)) for seed in (1, 1, 2))
    assert first == again != other
    assert submission(1, 7, "u") == submission(1, 7, "u") != submission(1, 8, "u")


def test_a_broken_promise_is_told_in_one_line() -> None:
    verdict = Verdict("soon", 2, list(late([(1.0, 2.0), (3.0, 2.0)])))
    assert str(verdict) == "BROKEN soon (2 looked at): it took 3.0 s of 2.0 s"
