"""`promtool`, Prometheus' own opinion of what we show it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

NEEDED = "EUTERPE_TEST_PROMTOOL"
"""Set where a missing promtool is a failure: `.ci/run` installs it."""


def _promtool(not_run: str) -> str:
    found = shutil.which("promtool")
    if found is None:
        told = f"promtool is not installed (Debian's package `prometheus` has it), so this was not run: {not_run}"
        if os.environ.get(NEEDED):
            pytest.fail(told)
        pytest.skip(told)
    return found


def complaints_about(page: str) -> str:
    """What `promtool check metrics` says of this page; nothing when it is good."""
    command = [_promtool("check metrics"), "check", "metrics"]
    done = subprocess.run(command, input=page, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr if done.returncode or done.stdout or done.stderr else ""


def complaints_about_rules(path: Path) -> str:
    """What `promtool check rules` says of this file, if it does not hold it for good."""
    command = [_promtool("check rules"), "check", "rules", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr if done.returncode else ""
