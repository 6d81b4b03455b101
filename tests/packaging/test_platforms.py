"""Other systems, as far as one can go without them: what Linux alone has is taken away, and the queue still works."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

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
