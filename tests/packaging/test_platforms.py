"""Other systems, as far as one can go without them: what Linux alone has is taken away, and the queue still works."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from euterpe.model.errors import Unsupported
from euterpe.queue import run
from euterpe.queue.queue import Queue
from euterpe.worker.heartbeat import renew
from tests.packaging.installing import ROOT, Environment

WITHOUT_UNIX = """
import os, sys, sysconfig
sysconfig.get_config_vars()
for name in ("fcntl", "resource", "termios", "tty", "pty", "pwd", "grp"):
    sys.modules[name] = None
for name in ("memfd_create", "O_NONBLOCK", "sched_getaffinity", "fork", "getuid", "killpg"):
    delattr(os, name)
sys.platform = "unheard-of"
"""
NO_ZONES = """
import euterpe
queue = euterpe.Queue("sqlite:///jobs.db")

@queue.cron("0 3 * * *")
async def nightly() -> None: ...

try:
    @queue.cron("0 3 * * *", tz="Europe/Berlin")
    async def at_three() -> None: ...
except euterpe.InvalidInput as error:
    print(error)
"""


def test_a_queue_on_sqlite_needs_nothing_that_only_unix_has(core: Environment, tmp_path: Path) -> None:
    program = re.search(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert program is not None
    main, _, start = program.group(1).rpartition("asyncio.run")
    # The event loop of Unix needs some of it itself, so it is loaded before; what Euterpe loads finds nothing.
    (tmp_path / "program.py").write_text(f"import asyncio\n{WITHOUT_UNIX}\n{main}asyncio.run{start}")
    ran = core.run("python", "program.py", folder=tmp_path)
    assert (ran.returncode, ran.stdout) == (0, "{'report': 7}\n"), ran.stderr


APP = """
import euterpe

queue = euterpe.Queue("sqlite:///jobs.db")

@queue.job("a")
async def a() -> None: ...
"""
COMMANDS = """
import asyncio, signal, threading
import asyncio.unix_events
{without}
sys.modules["uvloop"] = None

def not_here(*_: object) -> None:
    raise NotImplementedError

asyncio.unix_events._UnixSelectorEventLoop.add_signal_handler = not_here  # as the loops of Windows
from euterpe.cli import main

sys.argv[1:] = {arguments!r}
if "worker" in sys.argv:
    from euterpe.worker import loop

    claims = loop.WorkerLoop.run

    async def claims_then_a_signal(self):
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()
        await claims(self)

    loop.WorkerLoop.run = claims_then_a_signal
main()
"""


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["--engine", "sqlite:///jobs.db", "doctor", "--all"], 0, "open_files"),
        (["worker", "app:queue", "--metrics-port", "0"], 0, "shutting down"),
        (["worker", "app:queue", "--processes", "2"], 1, "need a system whose processes can fork"),
        (["transcode", "app.py", "--preset", "mp3_320"], 2, "transcoding needs Unix"),
    ],
)
def test_the_command_line_works_without_unix_or_says_what_needs_it(
    tmp_path: Path, arguments: list[str], code: int, told: str
) -> None:
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "program.py").write_text(COMMANDS.format(without=WITHOUT_UNIX, arguments=arguments))
    subprocess.run([sys.executable, "-c", "import app; app.queue.sync.stats()"], cwd=tmp_path, check=True, timeout=60)
    ran = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert (ran.returncode, told in ran.stdout + ran.stderr) == (code, True), ran.stdout + ran.stderr


async def test_a_worker_with_a_process_handler_says_that_it_needs_unix(
    monkeypatch: pytest.MonkeyPatch, sqlite_url: str
) -> None:
    queue = Queue(sqlite_url)
    queue.job("render", process=True)(os.getpid)
    monkeypatch.setattr(run, "HANDS_FILES_ON", False)
    with pytest.raises(Unsupported, match="render has process=True, which needs Unix"):
        async with asyncio.timeout(20):
            await queue.work()


def test_cron_in_utc_needs_no_time_zones_and_another_says_how_to_get_them(core: Environment, tmp_path: Path) -> None:
    ran = core.run("python", "-c", NO_ZONES, folder=tmp_path, PYTHONTZPATH="")
    assert ran.returncode == 0, ran.stderr
    assert "pip install tzdata" in ran.stdout


def test_a_stopped_worker_is_seen_with_and_without_proc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        try:
            while renew.state_by_proc(child.pid)[:1] != "S":  # it is about to sleep; pytest's timeout is the limit
                os.sched_yield()
            assert renew.state_by_ps(child.pid)[:1] == "S"
            child.send_signal(signal.SIGSTOP)
            os.waitpid(child.pid, os.WUNTRACED)
            assert renew.state_by_ps(child.pid)[:1] == renew.state_by_proc(child.pid)[:1] == "T"
            monkeypatch.setattr(os, "getppid", lambda: child.pid)
            assert renew.is_stopped(child.pid)
            monkeypatch.setattr(renew, "PROC", tmp_path / "none")
            assert renew.is_stopped(child.pid)
            child.send_signal(signal.SIGCONT)
            os.waitpid(child.pid, os.WCONTINUED)
            assert not renew.is_stopped(child.pid)
        finally:
            child.kill()
