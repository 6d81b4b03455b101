"""What `.ci/run` runs again: tests whose wait ran out, by names that pytest finds, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "waits_that_ran_out.py"
IN_VAIN = """
import asyncio, subprocess, sys
import httpx, pytest

def test_a_wait():
    raise TimeoutError("waited 3 s in vain: rain")

class TestOfAClass:
    @pytest.mark.parametrize("said", ["of nothing"])
    async def test_a_wait(self, said):
        async with asyncio.timeout(0):
            await asyncio.Event().wait()

@pytest.fixture
def late():
    subprocess.run([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, timeout=0.0)

def test_of_a_fixture(late): ...

def test_of_a_client():
    raise httpx.ReadTimeout("no answer")
"""
NAMES = [
    "test_it.py::TestOfAClass::test_a_wait[of nothing]",
    "test_it.py::test_a_wait",
    "test_it.py::test_of_a_client",
    "test_it.py::test_of_a_fixture",
]


def run(folder: Path, tests: str) -> subprocess.CompletedProcess[str]:
    """What the script says of a run of these tests."""
    (folder / "test_it.py").write_text(tests)
    (folder / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")
    plugins = [
        "-p",
        "pytest_asyncio.plugin",
        "-p",
        "no:cacheprovider",
        "--junitxml=report.xml",
        "-o",
        "junit_family=xunit1",
    ]
    environ = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PATH": ""}
    pytest_run = [sys.executable, "-m", "pytest", "-q", *plugins]
    subprocess.run(pytest_run, cwd=folder, env=environ, capture_output=True, check=False, timeout=60)
    command = [sys.executable, str(SCRIPT), "report.xml"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=60)


def test_tests_whose_wait_ran_out_are_named_as_pytest_takes_them(tmp_path: Path) -> None:
    said = run(tmp_path, IN_VAIN)
    assert (said.returncode, sorted(said.stdout.splitlines())) == (0, NAMES), said.stderr


@pytest.mark.parametrize("error", ["AssertionError('TimeoutError')", "LookupError('a wait ran out')"])
def test_one_other_failure_is_the_verdict(tmp_path: Path, error: str) -> None:
    said = run(tmp_path, f"{IN_VAIN}\ndef test_other():\n    raise {error}\n")
    assert (said.returncode, said.stdout) == (1, "")
    assert "test_other failed, and not because a wait ran out" in said.stderr


def test_many_waits_that_ran_out_are_a_verdict_too(tmp_path: Path) -> None:
    said = run(tmp_path, "".join(f"def test_{n}(): raise TimeoutError\n" for n in range(6)))
    assert (said.returncode, said.stdout) == (1, "")
    assert "6 tests failed" in said.stderr
