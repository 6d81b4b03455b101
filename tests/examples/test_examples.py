"""The examples run as they are and print what they show."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"

SHOWN = {
    "first_job.py": ["hello world"],
    "workflow.py": ["week 46 is complete: 900 bytes", "download 300 after 3 attempts"],
    "sync_script.py": ["GOOD NEWS", "attempts: 1"],
    "cpu_process.py": ["primes below two million: 148933", "the execution timeout of 1 s is over"],
    "own_transaction.py": ["12 orders paid once, 12 jobs completed, 4 attempts failed on the way"],
    "crons.py": ["report.nightly:reports 0 3 * * * next at 03:00", "backfill: 3 new", "again: 0 new"],
    "debounce.py": ["document 7 indexed at revision 20", "20 submissions, 1 job"],
    "rate_limit.py": ["15 calls, 5 at once and then 20 a second: True"],
    "fastapi_app.py": ["placed: tea | refused: 422 | jobs stored: 1"],
}


@pytest.mark.parametrize("name", SHOWN)
def test_an_example_runs_as_it_is(name: str, tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, str(EXAMPLES / name)], cwd=tmp_path, text=True, capture_output=True, timeout=100, check=False
    )
    assert ran.returncode == 0, ran.stderr
    for line in SHOWN[name]:
        assert line in ran.stdout
