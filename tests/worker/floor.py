"""The shop floor of one test: real worker processes, their journal, their logs, and gates to hold and let go.

Everything here waits for a condition and says what it waited for when it gives up.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import psutil

from euterpe.model.errors import StoreUnavailable
from euterpe.model.job import JobRow
from euterpe.model.state import TERMINAL, State
from euterpe.queue.handle import JobHandle
from euterpe.queue.queue import Queue, core_of
from tests.patience import PATIENCE_S

LOOK_S: Final = 0.01
ROOT: Final = Path(__file__).resolve().parents[2]


async def until(condition: Callable[[], Any], what: str, within_s: float = PATIENCE_S) -> Any:
    """The condition's first true value; it may be a coroutine function. A database that is away is no answer yet."""
    deadline = time.monotonic() + within_s
    while True:
        with suppress(StoreUnavailable):
            value = condition()
            if isinstance(value, Awaitable):
                value = await value
            if value:
                return value
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {within_s:.0f} s in vain: {what}")
        await asyncio.sleep(LOOK_S)


class WorkerProcess:
    """One `python -m tests.worker.app`."""

    def __init__(self, process: subprocess.Popen[bytes], output: Path, log: Path) -> None:
        self.process = process
        self._output = output
        self._log = log

    @property
    def pid(self) -> int:
        return self.process.pid

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._log.read_text().splitlines() if line.startswith("{")]

    def said(self, message: str) -> list[dict[str, Any]]:
        return [line for line in self.log() if message in line["msg"]]

    def raw_log(self) -> str:
        return self._log.read_text()

    async def working(self) -> WorkerProcess:
        await until(lambda: "working" in self._output.read_text(), "the worker says that it works")
        return self

    async def ended(self, within_s: float = PATIENCE_S) -> int:
        return int(await until(self._has_ended, "the worker ends", within_s))

    def _has_ended(self) -> str | None:
        code = self.process.poll()
        return None if code is None else str(code)

    def keeper(self) -> psutil.Process | None:
        """The lease keeper's process, if there is one."""
        try:
            for child in psutil.Process(self.pid).children():
                if "euterpe.lease_keeper" in child.cmdline():
                    return child
        except psutil.Error:
            return None
        return None


class Floor:
    """All worker processes of a test on one database."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.workers: list[WorkerProcess] = []

    def start(self, url: str | None = None, **settings: Any) -> WorkerProcess:
        """A worker process; `settings` go to `queue.work`."""
        number = len(self.workers)
        output, log = self.folder / f"worker-{number}.out", self.folder / f"worker-{number}.log"
        environ = {**os.environ, "EUTERPE_TEST_URL": url or self.url, "EUTERPE_TEST_FOLDER": str(self.folder)}
        environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        with output.open("wb") as out, log.open("wb") as err:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.worker.app", "-", json.dumps(settings)],
                cwd=self.folder,
                env=environ,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        worker = WorkerProcess(process, output, log)
        self.workers.append(worker)
        return worker

    def open_gate(self, gate: str = "gate") -> None:
        (self.folder / gate).touch()

    def close_gate(self, gate: str = "gate") -> None:
        (self.folder / gate).unlink()

    def journal(self, act: str | None = None, job: JobHandle[Any] | None = None) -> list[dict[str, Any]]:
        """A last line without its end is still being written."""
        path = self.folder / "journal"
        written = path.read_text().splitlines(keepends=True) if path.exists() else []
        lines = [json.loads(line) for line in written if line.endswith("\n")]
        return [
            line for line in lines if (act is None or line["act"] == act) and (job is None or line["job"] == job.id)
        ]

    async def noted(self, act: str, job: JobHandle[Any] | None = None, count: int = 1) -> dict[str, Any]:
        """The latest of at least `count` such lines."""
        await until(lambda: len(self.journal(act, job)) >= count, f"{count} x {act!r} of {job}")
        return self.journal(act, job)[-1]

    def dismiss(self) -> None:
        for worker in self.workers:
            family = _family(worker.pid)
            worker.process.kill()
            worker.process.wait()
            for process in family:
                _kill(process)


def _family(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []


def _kill(process: psutil.Process) -> None:
    try:
        process.kill()
    except psutil.Error:
        return


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


async def in_state(queue: Queue, job: JobHandle[Any], *states: State, within_s: float = PATIENCE_S) -> JobRow:
    """The job's row as soon as it is in one of these states; one that has ended otherwise is not waited for."""

    async def look() -> JobRow | None:
        found = await core_of(queue).get(job.id)
        if found.state in TERMINAL and found.state not in states:
            raise AssertionError(f"waited in vain: {job} is {found.state}, and not {' or '.join(states)}")
        return found if found.state in states else None

    return await until(look, f"{job} becomes {' or '.join(states)}", within_s)  # type: ignore[no-any-return]
