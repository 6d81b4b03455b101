"""What is uploaded: a whole wheel, an sdist that makes the same one, and metadata that an index can show."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from email.parser import HeaderParser
from pathlib import Path

import euterpe
from tests.packaging.installing import OURS, ROOT, Environment


def files_of(wheel: Path) -> dict[str, int]:
    with zipfile.ZipFile(wheel) as archive:
        return {entry.filename: entry.CRC for entry in archive.infolist()}


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(built: tuple[Path, Path]) -> None:
    listed = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "--cached", "--others", "--exclude-standard", "src/euterpe"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    sources = {name.removeprefix("src/") for name in listed.stdout.splitlines() if (ROOT / name).exists()}
    packed = {name for name in files_of(built[0]) if ".dist-info/" not in name}
    assert packed == sources
    assert "euterpe/py.typed" in packed


def test_the_sdist_makes_the_same_wheel(built: tuple[Path, Path], tmp_path: Path) -> None:
    wheel, sdist = built
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.iterdir()
    again = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(again, cwd=folder, check=True, capture_output=True)
    assert files_of(tmp_path / wheel.name) == files_of(wheel)


def test_the_metadata_has_one_version_and_no_link_that_an_index_could_not_follow(
    built: tuple[Path, Path],
) -> None:
    with zipfile.ZipFile(built[0]) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        metadata = HeaderParser().parsestr(archive.read(name).decode())
    assert (metadata["Name"], metadata["Version"]) == (OURS, euterpe.__version__)
    assert metadata.get_all("Project-URL", []) == [], "the address of the repository is not known yet"
    shown = metadata.get_payload()
    assert isinstance(shown, str)
    links = re.findall(r"\]\(([^)\s]+)\)", shown)
    assert [link for link in links if not link.startswith("https://")] == []
    with tarfile.open(built[1]) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    named = re.findall(r"\(`(docs/[^`#]+)[^`]*`\)", shown)
    assert len(named) > 10
    assert [path for path in named if path.rstrip("/") not in packed and not (ROOT / path).is_dir()] == []


def test_the_version_names_the_engines_and_the_shell_can_complete(built: tuple[Path, Path], tmp_path: Path) -> None:
    environment = Environment(tmp_path / "env", built[0], "cli", "postgres")
    said = environment.run("euterpe", "--version", folder=tmp_path).stdout.splitlines()
    assert said[0] == f"euterpe {euterpe.__version__}"
    assert re.fullmatch(r"SQLite: 3\.\d+\.\d+ \(apsw 3\.[\d.]+\)", said[2])
    assert re.fullmatch(r"Postgres: asyncpg [\d.]+", said[3])
    assert said[4] == "Redis: not installed (pip install 'euterpe-queue[redis]')"
    completed = environment.run(
        "euterpe", folder=tmp_path, _EUTERPE_COMPLETE="bash_complete", COMP_WORDS="euterpe jobs li", COMP_CWORD="2"
    )
    assert completed.stdout == "plain,list\n"
    source = environment.run("euterpe", folder=tmp_path, _EUTERPE_COMPLETE="bash_source")
    assert "complete -o nosort -F" in source.stdout
