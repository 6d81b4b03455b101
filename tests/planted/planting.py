"""Planting a bug: a few words of a copy of `src` are replaced, and one named test runs against that copy."""

from __future__ import annotations

import compileall
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests import patience
from tests.planted.loaded import VARIABLE
from tests.planted.places import places_of

ROOT = Path(__file__).parents[2]
DEADLINE_S = 100.0
"""For each test of a run."""
RAISED = re.compile(r"^\S.*:\d+: (\w+)$", re.MULTILINE)
"""The line under a traceback: where, and which exception."""


@dataclass(frozen=True, slots=True)
class Edit:
    """At this place (`places.py`) of the source, these words are replaced; they must stand there exactly once."""

    place: str
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


class BrokenRun(Exception):
    """No verdict: its process could not be started, or has gone."""


class DoesNotFit(Exception):
    """The source has moved on: the planted bug must be written anew."""


class Source:
    """A copy of `src` that many bugs use one after the other, so that it is compiled once and not once a bug."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._package = folder / "euterpe"
        self._plantings = itertools.count(1)
        shutil.copytree(ROOT / "src" / "euterpe", self._package, symlinks=True)
        compileall.compile_dir(self._package, quiet=1)

    @contextmanager
    def planted(self, edits: Sequence[Edit]) -> Iterator[None]:
        """Within it the copy has the bug, and afterwards it is as before."""
        kept: dict[Path, tuple[bytes, os.stat_result]] = {}
        try:
            for edit in edits:
                places = places_of(self._package, edit.place)
                if len(places) != 1:
                    raise DoesNotFit(f"the source has {edit.place} {len(places)} times")
                ((path, start, end),) = places
                kept.setdefault(path, (path.read_bytes(), path.stat()))
                text = path.read_text()
                found = text.count(edit.old, start, end)
                if found != 1:
                    raise DoesNotFit(f"{edit.place} has {edit.old!r} {found} times")
                at = text.index(edit.old, start, end)
                path.write_text(text[:at] + edit.new + text[at + len(edit.old) :])
            # Compiled files are told apart by size and whole seconds: each planting has a second of its own.
            of_its_own_s = next(self._plantings)
            for path in kept:
                os.utime(path, (of_its_own_s, of_its_own_s))
            yield
        finally:
            for path, (content, was) in kept.items():
                path.write_bytes(content)
                os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))


@dataclass(frozen=True, slots=True)
class Run:
    """`code` is that of pytest's process."""

    code: int
    said: str

    @property
    def ran_out(self) -> bool:
        """Whether the test failed because a wait ran out."""
        raised: list[str] = RAISED.findall(self.said)
        return raised[-1:] == ["TimeoutError"]


class Runner:
    """Runs tests against a source, each time in a new process that is forked from a warm one."""

    def __init__(self, postgres_url: str) -> None:
        self._postgres_url = postgres_url
        self._warm: subprocess.Popen[str] | None = None

    def run(
        self, source: Source, tests: Sequence[str], folder: Path, patience_s: float = patience.WITH_A_PLANTED_BUG_S
    ) -> Run:
        """pytest with `source` in front of the installed Euterpe; `folder` is for what it says. A run that takes too
        long is no verdict either: TimeoutError."""
        plugins = ["pytest_asyncio.plugin", "pytest_timeout", "no:cacheprovider", "tests.planted.loaded"]
        output = folder / "output"
        request = {
            "arguments": ["-q", "-x", *(word for name in plugins for word in ("-p", name)), *tests],
            "environment": _inherited() | self._environment(source, patience_s),
            "output": str(output),
            "deadline_s": DEADLINE_S * len(tests),
        }
        answer = self._ask(json.dumps(request))
        said = output.read_text(errors="replace") if output.exists() else ""
        if answer == "late":
            raise TimeoutError(f"{' '.join(tests)} took more than {request['deadline_s']} s\n{said[-3000:]}")
        if not answer.lstrip("-").isdigit():
            raise BrokenRun(f"{' '.join(tests)}: {answer or 'the warm process has gone'}\n{said[-3000:]}")
        return Run(int(answer), said)

    def _ask(self, request: str) -> str:
        warm = self._warm = self._warm or _start()
        assert warm.stdin is not None
        assert warm.stdout is not None
        try:
            warm.stdin.write(request + "\n")
            warm.stdin.flush()
            return warm.stdout.readline().strip()
        except BaseException:
            self.close()  # or its answer would be taken for that of the next run
            raise

    def _environment(self, source: Source, patience_s: float) -> dict[str, str]:
        return {
            "PYTHONPATH": str(source.folder),
            VARIABLE: str(source.folder),
            "EUTERPE_TEST_POSTGRES_URL": self._postgres_url,
            "EUTERPE_TEST_TEMPLATES": os.environ["EUTERPE_TEST_TEMPLATES"],
            patience.VARIABLE: str(patience_s),
            # Loading every plugin that is installed takes three times as long as the test itself.
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        }

    def close(self) -> None:
        warm, self._warm = self._warm, None
        if warm is not None:
            warm.terminate()
            warm.communicate()


def _start() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("warm_pytest.py"))],
        cwd=ROOT,
        env=_inherited(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C is for the session, which then closes this
    )


def _inherited() -> dict[str, str]:
    ours = ("PYTEST_", "EUTERPE_", "PYTHONPATH")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}
