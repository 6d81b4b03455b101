"""A folder with the small app in it, and a fresh database of either kind."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.commands import Background, Shell, clean_environment

Start = Callable[..., Background]
QUICK = {"WORKER_SWEEP_INTERVAL": "100ms", "OBSERVABILITY_QUEUE_SAMPLE_INTERVAL": "100ms"}


@pytest.fixture(params=["sqlite", "postgres"])
def engine_url(request: pytest.FixtureRequest) -> str:
    name = "sqlite_url" if request.param == "sqlite" else "fresh_postgres_url"
    url: str = request.getfixturevalue(name)
    return url


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where commands run; the app is in it."""
    place = tmp_path / "here"
    place.mkdir()
    shutil.copy(Path(__file__).with_name("app.py"), place / "app.py")
    return place


@pytest.fixture
def shell(engine_url: str, folder: Path) -> Shell:
    """Commands on a fresh database, SQLite or Postgres."""
    return Shell(folder, clean_environment(ENGINE_URL=engine_url))


@pytest.fixture
def sqlite_shell(sqlite_url: str, folder: Path) -> Shell:
    """Commands on a fresh SQLite file, where the engine makes no difference."""
    return Shell(folder, clean_environment(ENGINE_URL=sqlite_url))


@pytest.fixture
def bare_shell(folder: Path) -> Shell:
    """Commands in a folder where nothing was set up: the embedded default."""
    return Shell(folder, clean_environment())


@pytest.fixture
def telling_shell(bare_shell: Shell) -> Shell:
    """The embedded default, quick to sweep and to sample, with the app of this test."""
    shutil.copy(Path(__file__).with_name("telemetry_app.py"), bare_shell.folder / "telling.py")
    return Shell(bare_shell.folder, bare_shell.environ | QUICK)


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a command in the background; none outlives its test."""
    running: list[Background] = []

    def begin(shell: Shell, *arguments: str, **environ: str) -> Background:
        running.append(shell.background(*arguments, **environ))
        return running[-1]

    yield begin
    for background in running:
        background.close()
