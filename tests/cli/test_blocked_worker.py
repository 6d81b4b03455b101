"""A handler that blocks its event loop: health still answers, and everybody is told what blocks."""

from __future__ import annotations

import json
import re
import signal
import socket
from typing import Any

import httpx
import pytest

from euterpe.model.state import State
from tests.cli.commands import Background, Shell
from tests.cli.conftest import Start
from tests.cli.states import until
from tests.patience import looks
from tests.plain_http import NO_CERTIFICATES

APP = '''
import ctypes, os, time
from pathlib import Path

import euterpe

queue = euterpe.Queue(os.environ["ENGINE_URL"])


@queue.job("p.hog")
async def hog() -> None:
    Path("begun").touch()
    while not Path("go").exists(): time.sleep(0.05)


@queue.job("p.lock")
async def lock() -> None:
    """Holds the interpreter lock: no other thread runs a line."""
    Path("begun").touch()
    while not Path("go").exists():
        ctypes.PyDLL(None).usleep(6_000_000)
'''
HERE = "p.hog (blocking.py:12)"


@pytest.fixture
def port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return str(free.getsockname()[1])


def started(shell: Shell, start: Start, port: str, job: str) -> tuple[Background, str]:
    (shell.folder / "blocking.py").write_text(APP.lstrip())
    worker = start(shell, "worker", "blocking:queue", "--metrics-port", port)
    worker.until_said('"msg":"started"')
    job_id = shell.json("submit", job)["job_id"]
    for _ in looks(lambda: "the job begins"):
        if (shell.folder / "begun").exists():
            break
    return worker, job_id


def get(port: str, path: str) -> httpx.Response:
    return httpx.get(f"http://127.0.0.1:{port}{path}", verify=NO_CERTIFICATES)


def test_health_answers_and_says_what_blocks_and_so_do_log_registry_and_doctor(
    shell: Shell, start: Start, port: str
) -> None:
    worker, job_id = started(shell, start, port, "p.hog")
    worker.until_said("event loop blocked for 5 s")
    (line,) = [json.loads(line) for line in worker.err if "event loop blocked" in line]
    assert (line["type"], line["place"]) == ("p.hog", "blocking.py:12")
    alive = get(port, "/healthz")
    assert alive.status_code == 200
    assert HERE in alive.json()["blocked"]
    ready = get(port, "/readyz")
    assert ready.status_code == 503
    assert HERE in ready.json()["checks"]["worker"]
    assert "euterpe_" in get(port, "/metrics").text or "jobs_" in get(port, "/metrics").text

    def listed() -> dict[str, Any]:
        (told,) = shell.json("workers", "list")["workers"]
        return dict(told)

    for _ in looks(lambda: "the registry tells what blocks"):
        if (told := listed())["blocked"] == HERE:
            assert not told["answers"]
            break
    assert f"blocked in {HERE}" in shell.ok("workers", "list")
    assert HERE in shell.run("doctor").stdout
    for _ in looks(lambda: "the watch looks at the same block several times"):
        if re.search(r" for ([7-9]|\d\d) s ", get(port, "/healthz").json()["blocked"]):
            break
    (shell.folder / "go").touch()
    until(shell.environ["ENGINE_URL"], job_id, State.COMPLETED)
    worker.until_said("the event loop is free again")
    for _ in looks(lambda: "the registry tells that nothing blocks"):
        if (told := listed())["blocked"] is None and told["answers"]:
            break
    for _ in looks(lambda: "the worker is ready again"):
        if get(port, "/readyz").status_code == 200:
            break
    assert sum("event loop blocked" in line for line in worker.err) == 1, "once a block"
    worker.tell(signal.SIGTERM)
    assert worker.ended() == 0


def test_a_handler_that_holds_the_interpreter_lock_is_logged_when_it_lets_go(
    sqlite_shell: Shell, start: Start, port: str
) -> None:
    worker, job_id = started(sqlite_shell, start, port, "p.lock")
    worker.until_said("the process stood still for")
    (sqlite_shell.folder / "go").touch()
    until(sqlite_shell.environ["ENGINE_URL"], job_id, State.COMPLETED)
    assert get(port, "/healthz").status_code == 200


def test_a_worker_that_was_killed_at_work_is_listed_no_more(shell: Shell, start: Start, port: str) -> None:
    worker, _ = started(shell, start, port, "p.hog")
    for _ in looks(lambda: "the worker is listed"):
        if shell.json("workers", "list")["workers"]:
            break
    worker.tell(signal.SIGKILL)
    worker.ended()
    for _ in looks(lambda: "its lease keeper took it off the list"):
        if not shell.json("workers", "list")["workers"]:
            break
