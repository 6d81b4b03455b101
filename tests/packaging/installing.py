"""The built package in empty environments: no index is asked, the packages are linked from the test environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
OURS = "euterpe-queue"


def build(folder: Path) -> tuple[Path, Path]:
    """Wheel and sdist, made by the locked build backend; nothing is fetched."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(folder)], cwd=ROOT, check=True, capture_output=True
    )
    (wheel,) = folder.glob("*.whl")
    (sdist,) = folder.glob("*.tar.gz")
    return wheel, sdist


def needed_by(name: str, extras: frozenset[str] = frozenset()) -> dict[str, Distribution]:
    """Every distribution that a package needs with these extras, itself left out."""
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = [(name, extras)]
    while waiting:
        one, wanted = waiting.pop()
        if (one, wanted) in seen:
            continue
        seen.add((one, wanted))
        for text in distribution(one).requires or ():
            requirement = Requirement(text)
            marker = requirement.marker
            if marker is not None and not any(marker.evaluate({"extra": extra}) for extra in (*wanted, "")):
                continue
            if requirement.name != OURS:
                found[requirement.name] = distribution(requirement.name)
            waiting.append((requirement.name, frozenset(requirement.extras)))
    return found


class Environment:
    """A virtual environment that holds the built wheel and what its extras need, and nothing else."""

    def __init__(self, folder: Path, wheel: Path, *extras: str) -> None:
        venv.create(folder, with_pip=False, symlinks=True)
        self.bin = folder / "bin"
        self.python = self.bin / "python"
        (self.packages,) = folder.glob("lib/python*/site-packages")
        for needed in needed_by(OURS, frozenset(extras)).values():
            self._link(needed)
        chosen = f"{wheel}[{','.join(extras)}]" if extras else str(wheel)
        # With its dependencies: pip refuses unless everything that the wheel asks for is there already.
        pip = [sys.executable, "-m", "pip", "--python", str(self.python), "install", "--no-index", "--no-compile"]
        self.said = subprocess.run([*pip, chosen], env=plain(), check=True, capture_output=True, text=True).stdout

    def _link(self, needed: Distribution) -> None:
        for top in {Path(file).parts[0] for file in needed.files or ()} - {"..", "__pycache__"}:
            target = self.packages / top
            if not target.exists():
                target.symlink_to(Path(str(needed.locate_file(top))))

    def run(self, *command: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.bin / command[0]), *command[1:]],
            cwd=folder,
            env=plain() | variables,
            text=True,
            capture_output=True,
            timeout=100,
            check=False,
        )

    def remove(self) -> None:
        shutil.rmtree(self.bin.parent)


def plain() -> dict[str, str]:
    """This environment's variables without what would let the test environment shine through."""
    hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "PIP_INDEX_URL")
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    return kept | {"PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
