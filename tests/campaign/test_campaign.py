"""A short campaign is part of every run of the tests; long ones are a command."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.campaign.dead_store import kept_waiting
from tests.campaign.plan import EVERY_KIND, Engine, faults, lot, submission
from tests.campaign.processes import ROOT, Role
from tests.campaign.verdicts import Verdict, late

SHORT = {
    "sqlite": "--faults freeze_worker,forge_messages,kill_redis,disk_full,dead_store",
    "postgres": "--transport none --faults skew_clock,kill_in_a_burst,operator_transaction,disk_full"
    ",terminate_backends",
}
"""Few kinds: a long run has all of them."""


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_a_short_campaign_keeps_every_promise(engine: Engine) -> None:
    """Planted bugs make it say BROKEN. When a recovery came is left to long runs on a quiet machine."""
    settings = f"--engine {engine} --seed 3 --jobs 50 --minutes 0.1 --workers 2 --slack 10 {SHORT[engine]}"
    command = [sys.executable, "-m", "tests.campaign", *settings.split()]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=180, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr[-3000:]
    assert ended.stdout.count("\nok ") == 21
    assert ended.stdout.endswith("KEPT: all 21 promises\n")


@pytest.mark.timeout(330)
def test_a_short_campaign_on_redis_lists_keeps_their_promises() -> None:
    """Faults of each kind that a kill -9 can make; when a recovery came is left to long runs on a quiet machine."""
    kinds = "kill_worker,kill_in_a_burst,kill_submitter,kill_redis,cut_connections,copy_entries"
    settings = f"--engine redis --seed 3 --jobs 40 --minutes 0.05 --workers 2 --slack 60 --faults {kinds}"
    command = [sys.executable, "-m", "tests.campaign", *settings.split()]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr[-3000:]
    assert ended.stdout.count("\nok ") == 12
    assert ended.stdout.endswith("KEPT: all 12 promises\n")


@pytest.mark.parametrize("engine", ["sqlite", "postgres", "redis"])
def test_a_seed_tells_all_that_is_submitted_and_all_that_breaks(engine: Engine) -> None:
    first, again, other = (list(itertools.islice(faults(seed, engine), 50)) for seed in (1, 1, 2))
    assert first == again != other
    assert submission(1, 7, "u") == submission(1, 7, "u") != submission(1, 8, "u")
    lots = [lot(1, number) for number in range(100)]
    assert lots == [lot(1, number) for number in range(100)] != [None] * 100


def test_every_kind_of_fault_comes_before_any_comes_again() -> None:
    several = [fault.kind for fault in itertools.islice(faults(1, "postgres"), len(EVERY_KIND) + 1)]
    assert set(several) == set(EVERY_KIND)  # kill_worker stands in the list twice
    without_redis = itertools.islice(faults(1, "sqlite", streams=False), 50)
    assert not {"kill_redis", "flush_redis", "forge_messages", "skew_clock"} & {fault.kind for fault in without_redis}
    assert [fault.kind for fault in itertools.islice(faults(1, "sqlite", only=["disk_full"]), 2)] == ["disk_full"] * 2


def test_a_worker_can_have_a_clock_of_its_own(tmp_path: Path) -> None:
    role = Role("late", [], {}, tmp_path)
    role.clock_offset_s = -7200.0
    environ = {**os.environ, **role._wrong_clock()}
    ask = [sys.executable, "-c", "import time; print(time.time(), time.time_ns())"]
    said = subprocess.run(ask, env=environ, capture_output=True, text=True, check=True).stdout.split()
    assert [round((time.time() - when) / 60) for when in (float(said[0]), int(said[1]) / 1e9)] == [120, 120]


def test_a_broken_promise_is_told_in_one_line() -> None:
    verdict = Verdict("soon", 2, list(late([(1.0, 2.0), (3.0, 2.0)])))
    assert str(verdict) == "BROKEN soon (2 looked at): it took 3.0 s of 2.0 s"


def test_a_healthy_job_that_waited_for_a_dead_store_is_told() -> None:
    assert kept_waiting([0.1, 15.5], 15.0) == ["a healthy job took 15.5 s of 15.0 s"]
