"""An environment of its own for each peer, under `bench/.envs/`: a venv or an npm folder, from a pinned list.

A stamp inside remembers from which list it was made; a changed list makes it anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

BENCH = Path(__file__).resolve().parent.parent
REPOSITORY = BENCH.parent
ENVIRONMENTS = BENCH / ".envs"
PINS = BENCH / "environments"


class EnvironmentFailed(Exception):
    """An environment could not be made; the message holds the installer's output."""


@dataclass(frozen=True, slots=True)
class Environment:
    """`repository` is the project's own `.venv`, in which the harness runs too: for our own side."""

    kind: Literal["python", "node", "repository"]
    name: str
    tree: Path = REPOSITORY
    """Of `repository`: whose sources run, this checkout's or another's. The adapters are always this checkout's, so
    that an older tree is measured in each scenario of today."""

    @property
    def python_path(self) -> str:
        return os.pathsep.join(map(str, (REPOSITORY, self.tree / "src") if self.tree != REPOSITORY else (REPOSITORY,)))

    @property
    def folder(self) -> Path:
        return ENVIRONMENTS / self.name

    @property
    def pins(self) -> Path:
        if self.kind == "node":
            return PINS / "node" / self.name / "package.json"
        return PINS / "python" / f"{self.name}.txt"

    def make(self) -> bool:
        """Says whether anything had to be done."""
        if self.kind == "repository":
            return False
        stamp = self.folder / "bench-stamp"
        wanted = hashlib.sha256(self.pins.read_bytes()).hexdigest()
        if stamp.exists() and stamp.read_text() == wanted:
            return False
        shutil.rmtree(self.folder, ignore_errors=True)
        self._make_python() if self.kind == "python" else self._make_node()
        stamp.write_text(wanted)
        return True

    def command(self, adapter: str, url: str, settings_json: str) -> list[str]:
        if self.kind == "node":
            return ["node", str(REPOSITORY / adapter), url, settings_json]
        python = sys.executable if self.kind == "repository" else str(self.folder / "bin" / "python")
        return [python, "-m", "bench.peers.serve", adapter, url, settings_json]

    @property
    def working_directory(self) -> Path:
        """Node finds its packages from here; Python finds the package `bench`."""
        return self.folder if self.kind == "node" else REPOSITORY

    def version_of(self, distribution: str) -> str:
        if self.kind == "repository":
            return "this checkout"
        text = self.pins.read_text()
        if self.kind == "node":
            return str(json.loads(text)["dependencies"][distribution])
        found = re.search(rf"^{re.escape(distribution)}==(\S+)$", text, re.MULTILINE)
        if found is None:
            raise EnvironmentFailed(f"{self.pins} does not pin {distribution}; add {distribution}==VERSION")
        return found[1]

    def _make_python(self) -> None:
        _install([sys.executable, "-I", "-m", "venv", "--clear", str(self.folder)], REPOSITORY)
        pip = [str(self.folder / "bin" / "python"), "-I", "-m", "pip", "--disable-pip-version-check"]
        # The list is a whole freeze, so nothing beyond it may come in.
        _install([*pip, "install", "--no-input", "--no-deps", "--requirement", str(self.pins)], REPOSITORY)

    def _make_node(self) -> None:
        self.folder.mkdir(parents=True)
        shutil.copy(self.pins, self.folder)
        npm = ["npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts"]
        _install(npm, self.folder)


def _install(command: list[str], folder: Path) -> None:
    try:
        done = subprocess.run(
            command, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
        )
    except FileNotFoundError as missing:
        raise EnvironmentFailed(f"{command[0]} is missing; the npm peers need Node 20 or later") from missing
    if done.returncode != 0:
        raise EnvironmentFailed(f"{' '.join(command)} failed:\n{done.stdout}")
