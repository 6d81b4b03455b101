"""The file of a SQLite queue: one and the same wherever the program goes, and readable by its owner alone."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from euterpe.backends.engines import make_room
from euterpe.model.errors import InvalidInput
from euterpe.queue.queue import Queue, core_of
from euterpe.stores.sql.sqlite.engine import SqliteEngine
from euterpe.stores.sql.sqlite.python_sqlite import PYTHON

SCHEMES = ["sqlite", "libsql"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder; its files are made as usual, for everybody to read."""
    monkeypatch.chdir(tmp_path)
    before = os.umask(0o022)
    yield tmp_path
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_a_queue_stays_with_its_file_when_the_program_changes_its_folder(folder: Path, scheme: str) -> None:
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    queue = Queue(f"{scheme}:///jobs.db")
    os.chdir(elsewhere)
    async with queue:
        job = await queue.submit("greet", {})
        os.chdir(folder)
        os.chdir(elsewhere)
        # Reads go by other connections, in threads that have not connected yet.
        assert [(await info).id for info in asyncio.as_completed([queue.get(job.id) for _ in range(20)])] == [
            job.id
        ] * 20
    assert list(elsewhere.iterdir()) == []
    assert (folder / "jobs.db").exists()
    assert core_of(queue).backend_url == f"{scheme}:///{folder / 'jobs.db'}"


async def test_the_lease_keeper_is_told_the_file_and_not_a_name_beside_its_own_folder(folder: Path) -> None:
    queue = Queue("sqlite:///a%20b.db")
    assert core_of(queue).backend_url == f"sqlite:///{folder}/a%20b.db"


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_a_new_database_is_readable_by_its_owner_alone(folder: Path, scheme: str) -> None:
    async with Queue(f"{scheme}:///jobs.db") as queue:
        await queue.submit("greet", {})
        made = modes(folder)
    assert {"jobs.db", "jobs.db-wal", "jobs.db-shm"} <= made.keys()
    assert set(made.values()) == {0o600}, made


async def test_it_is_also_when_pythons_own_library_makes_it(folder: Path) -> None:
    await SqliteEngine("jobs.db", library=PYTHON).migrate()
    assert set(modes(folder).values()) == {0o600}


async def test_a_file_that_is_there_keeps_the_rights_that_its_owner_gave_it(folder: Path) -> None:
    (folder / "jobs.db").touch(0o660)
    (folder / "jobs.db").chmod(0o660)
    async with Queue("sqlite:///jobs.db") as queue:
        await queue.submit("greet", {})
        assert set(modes(folder).values()) == {0o660}


def test_an_embedded_folder_of_another_user_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make_room("sqlite:///.euterpe/jobs.db")
    assert stat.S_IMODE((tmp_path / ".euterpe").stat().st_mode) == 0o700
    if (tmp_path / ".euterpe").stat().st_uid == 0:
        os.chown(tmp_path / ".euterpe", 10_001, -1)
    else:
        monkeypatch.setattr(os, "getuid", lambda: 10_001)
    with pytest.raises(InvalidInput, match="belongs to another user"):
        make_room("sqlite:///.euterpe/jobs.db")


def test_an_embedded_folder_that_is_a_link_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".euterpe").symlink_to("elsewhere")
    with pytest.raises(InvalidInput, match="is a link"):
        make_room("sqlite:///.euterpe/jobs.db")
