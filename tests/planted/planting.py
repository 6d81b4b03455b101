"""Planting a bug: a few words of a copy of `src` are replaced, and one named test runs against that copy."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.planted.loaded import VARIABLE

ROOT = Path(__file__).parents[2]
DEADLINE_S = 100.0


@dataclass(frozen=True, slots=True)
class Edit:
    """In this file under `src/euterpe`, these words are replaced; they must stand there exactly once."""

    file: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Bug:
    """`caught_by` is the test that must fail, `symptom` a part of what it then says; alternatives stand in a tuple."""

    name: str
    edits: tuple[Edit, ...]
    caught_by: str
    symptom: str | tuple[str, ...]

    def shows_in(self, said: str) -> bool:
        symptoms = (self.symptom,) if isinstance(self.symptom, str) else self.symptom
        return any(symptom in said for symptom in symptoms)


class DoesNotFit(Exception):
    """The source has moved on: the planted bug must be written anew."""


def copy_source(folder: Path) -> Path:
    """With the compiled files: they stay valid for what is not changed, which halves the time of a run."""
    source = folder / "src"
    shutil.copytree(ROOT / "src" / "euterpe", source / "euterpe", symlinks=True)
    return source


def plant(source: Path, edits: Sequence[Edit]) -> None:
    for edit in edits:
        path = source / "euterpe" / edit.file
        if not path.is_file():
            raise DoesNotFit(f"{edit.file} is gone")
        text = path.read_text()
        found = text.count(edit.old)
        if found != 1:
            raise DoesNotFit(f"{edit.file} has {edit.old!r} {found} times")
        path.write_text(text.replace(edit.old, edit.new))


def run_tests(source: Path, tests: Sequence[str], postgres_url: str) -> subprocess.CompletedProcess[str]:
    """pytest in a process of its own, with `source` in front of the installed Euterpe."""
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "EUTERPE_", "PYTHONPATH"))
    }
    ours = {
        "PYTHONPATH": str(source),
        VARIABLE: str(source),
        "EUTERPE_TEST_POSTGRES_URL": postgres_url,
        # Loading every plugin that is installed takes three times as long as the test itself.
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    plugins = ["pytest_asyncio.plugin", "pytest_timeout", "no:cacheprovider", "tests.planted.loaded"]
    command = [sys.executable, "-m", "pytest", "-q", "-x", *(word for name in plugins for word in ("-p", name))]
    return subprocess.run(
        [*command, *tests],
        cwd=ROOT,
        env=inherited | ours,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
