"""Folders of attempts: gone with them, and gone at the next start after a kill."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from euterpe.transcode.handler.progress import ProgressReporter, progress_document, progress_text
from euterpe.transcode.handler.workspace import Workspaces

HOLDER = """
import asyncio, sys
from pathlib import Path
from euterpe.transcode.handler.workspace import Workspaces

async def main():
    async with Workspaces(Path(sys.argv[1])).folder("job") as folder:
        (folder / "source").write_text("x")
        print("held", flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_a_folder_goes_with_its_attempt_however_that_ends(tmp_path: Path) -> None:
    workspaces = Workspaces(tmp_path / "work")

    async def attempt() -> None:
        async with workspaces.folder("job") as folder:
            (folder / "source").write_text("x")
            assert workspaces.remove_abandoned() == 0, "a folder in use is nobody else's"
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await attempt()
    assert list(workspaces.root.iterdir()) == []


def test_only_the_folders_of_processes_that_are_gone_are_removed(tmp_path: Path) -> None:
    workspaces = Workspaces(tmp_path / "work")
    with subprocess.Popen([sys.executable, "-c", HOLDER, workspaces.root], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert workspaces.remove_abandoned() == 0
        holder.kill()
    assert workspaces.remove_abandoned() == 1
    assert list(workspaces.root.iterdir()) == []


@pytest.mark.parametrize(("speed", "eta"), [(12.5, 3.0), (None, 3.0), (0.5, None), (None, None)])
def test_speed_and_time_left_are_read_as_they_were_told(speed: float | None, eta: float | None) -> None:
    found = progress_document(40.0, progress_text(speed, eta))
    assert found == {"percent": 40.0, "speed": speed, "eta_seconds": eta}


def test_progress_grows_over_the_stages_and_is_told_now_and_then() -> None:
    now = [0.0]
    told: list[float] = []
    reporter = ProgressReporter(lambda percent, _text: told.append(percent), clock=lambda: now[0])
    reporter.moved("fetching", 50, 100)
    reporter.moved("fetching", 100, 100)
    now[0] = 1.0
    reporter.moved("uploading", 0, 0)
    now[0] = 2.0
    reporter.moved("fetching", 1, 100)
    assert told == [5.0, 90.0, 90.0]
