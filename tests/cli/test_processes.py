"""`euterpe worker --processes N`: restarted when they die, drained together, recycled, and one page of metrics."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import Callable

import httpx
import psutil

from euterpe.queue.queue import Queue
from euterpe.service.merged_metrics import MetricsPage
from tests.cli.commands import Background, Shell, lines_with
from tests.cli.conftest import Start
from tests.patience import looks
from tests.plain_http import NO_CERTIFICATES
from tests.servers.process import free_port


def until(condition: Callable[[], bool], what: str) -> None:
    for _ in looks(lambda: what, 60):
        if condition():
            return


def worker_pids(worker: Background) -> list[int]:
    """Children that have a lease keeper, or will: not the page of metrics, which is the first."""
    children = psutil.Process(worker.process.pid).children()
    return sorted(child.pid for child in children)[1:]


def get(port: int, path: str) -> httpx.Response:
    return httpx.get(f"http://127.0.0.1:{port}{path}", verify=NO_CERTIFICATES, timeout=30)


def completed(port: int) -> float:
    page = MetricsPage(get(port, "/metrics").text)
    return sum(value for (name, _), value in page.samples.items() if re.fullmatch(r"\w*jobs_completed_total", name))


async def greet(shell: Shell, count: int) -> None:
    async with Queue(shell.environ["ENGINE_URL"]) as queue:
        for job in await queue.submit_many([("greet", {"name": "ada"})] * count):
            await job.result("60s")


def test_processes_are_restarted_counted_on_one_page_and_drained_together(sqlite_shell: Shell, start: Start) -> None:
    shell, port = sqlite_shell, free_port()
    worker = start(shell, "worker", "app:queue", "--processes", "2", "--concurrency", "2", "--metrics-port", str(port))
    until(lambda: len(lines_with("working on jobs", worker.err)) == 2, "both work")
    until(lambda: get(port, "/readyz").status_code == 200, "both are ready")
    asyncio.run(greet(shell, 4))
    until(lambda: completed(port) == 4, "four are counted")
    victim = worker_pids(worker)[0]
    os.kill(victim, signal.SIGKILL)
    worker.until_said("is started again")
    until(lambda: len(lines_with("working on jobs", worker.err)) == 3, "another one works")
    asyncio.run(greet(shell, 1))
    until(lambda: completed(port) == 5, "what the dead one had counted still counts")
    job_id = shell.json("submit", "linger")["job_id"]
    until((shell.folder / "begun").exists, "the job runs")
    worker.tell(signal.SIGINT)
    worker.until_said("stop signal")
    (shell.folder / "go").touch()
    assert worker.ended() == 0
    assert shell.json("status", job_id)["result"] == "done"


def test_a_process_that_has_done_its_jobs_is_replaced_and_all_end_with_their_parent(
    sqlite_shell: Shell, start: Start
) -> None:
    shell = sqlite_shell
    worker = start(shell, "worker", "app:queue", "--max-jobs", "2", "--metrics-port", "0")
    worker.until_said("working on jobs")
    (first,) = psutil.Process(worker.process.pid).children()
    asyncio.run(greet(shell, 3))
    worker.until_said("is started anew")
    until(lambda: not first.is_running() or first.status() == psutil.STATUS_ZOMBIE, "the first one has ended")
    until(lambda: len(lines_with("working on jobs", worker.err)) >= 2, "the next one works")
    (second,) = set(psutil.Process(worker.process.pid).children()) - {first}
    worker.process.kill()
    until(lambda: not second.is_running() or second.status() == psutil.STATUS_ZOMBIE, "no child outlives its parent")


def test_what_cannot_start_is_said_once_and_ends_them_all(sqlite_shell: Shell) -> None:
    said = sqlite_shell.refused(
        "worker",
        "app:queue",
        "--processes",
        "3",
        "--metrics-port",
        "0",
        code=1,
        ENGINE_URL="sqlite:////nowhere/jobs.db",
    )
    assert "nowhere" in said
