"""Whenever a worker dies between its handler's write and the commit: nothing doubled, nothing lost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KILLS = 12


@pytest.mark.timeout(240)
@pytest.mark.parametrize("engine", ["sqlite_url", "fresh_postgres_url"])
def test_a_worker_killed_before_or_after_its_handlers_commit_doubles_and_loses_nothing(
    engine: str, request: pytest.FixtureRequest
) -> None:
    command = [sys.executable, "-m", "tests.caller.killed", request.getfixturevalue(engine)]
    ran = subprocess.run(
        [*command, "--kills", str(KILLS)], cwd=ROOT, capture_output=True, text=True, timeout=200, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "0 doubled, 0 lost" in ran.stdout
    for moment in ("written", "completed", "committing", "committed"):
        assert f"'{moment}': {KILLS // 4}" in ran.stdout
