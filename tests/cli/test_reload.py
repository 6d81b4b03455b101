"""`--reload`: a changed file restarts the worker, a broken one is waited for, and no job is lost or charged."""

from __future__ import annotations

import signal
from pathlib import Path

import psutil
import pytest

from euterpe.cli.reload.reloader import is_source
from tests.cli.commands import Background, Shell
from tests.cli.conftest import Start

APP = """
import asyncio
import sys
from pathlib import Path

import euterpe

queue = euterpe.Queue({url!r})
print("loaded version {version}", file=sys.stderr, flush=True)


@queue.job("render")
async def render() -> str:
    Path("begun").touch()
    while {version} == 1:  # only the next version ends
        await asyncio.sleep(0.05)
    return "by version {version}"
"""


def save(shell: Shell, version: int) -> None:
    text = APP.format(url=shell.environ["ENGINE_URL"], version=version) + "#" * version
    (shell.folder / "shop.py").write_text(text)


def processes_below(running: Background) -> list[psutil.Process]:
    return psutil.Process(running.process.pid).children(recursive=True)


def test_a_change_restarts_the_worker_and_its_running_job_goes_on_uncharged(sqlite_shell: Shell, start: Start) -> None:
    shell = sqlite_shell
    save(shell, 1)
    worker = start(shell, "worker", "shop:queue", "--reload")
    worker.until_said("working on jobs")
    job_id = shell.json("submit", "render")["job_id"]
    worker.until(lambda: (shell.folder / "begun").exists(), "the job has begun")

    (shell.folder / "shop.py").write_text("import nothing_of_this_name\n")
    worker.until_said("shop.py changed; restarting")
    worker.until_said("importing shop failed: No module named 'nothing_of_this_name' (shop.py:1)")
    worker.until_said("waiting for the next change of a Python file")

    save(shell, 22)
    worker.until_said("loaded version 22")
    worker.until(lambda: shell.json("status", job_id)["state"] == "completed", "the job is done")
    job = shell.json("jobs", "show", job_id)
    assert (job["result"], job["attempt"]) == ("by version 22", 1)
    assert [attempt["outcome"] for attempt in job["attempts"]] == ["released", "completed"]

    worker.tell(signal.SIGTERM)
    assert worker.ended() == 0


def test_the_worker_ends_with_the_process_that_reloads_it(sqlite_shell: Shell, start: Start) -> None:
    save(sqlite_shell, 22)
    worker = start(sqlite_shell, "--role=worker", "--app", "shop:queue", "--reload")
    worker.until_said("working on jobs")
    below = processes_below(worker)
    assert below
    worker.tell(signal.SIGKILL)
    assert psutil.wait_procs(below, timeout=60)[1] == []


def test_reloading_a_role_needs_an_app(bare_shell: Shell) -> None:
    assert "--reload goes with --app myapp:queue" in bare_shell.refused("--role=all", "--reload", code=2)


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("shop.py", True),
        ("shop/mail/send.py", True),
        ("shop/page.html", False),
        ("venv/lib/shop.py", False),
        (".venv/lib/shop.py", False),
        (".git/hooks/x.py", False),
        ("shop/__pycache__/x.py", False),
        ("shop/.#send.py", True),
    ],
)
def test_only_python_files_of_the_app_count(path: str, wanted: bool) -> None:
    folder = Path("/srv/venv/.checkout/app")  # where the app itself lies is no reason to leave it out
    assert is_source(folder / path, [folder]) is wanted
    assert not is_source(Path("/elsewhere") / path, [folder])
