"""The harness's end of the protocol: one child process that holds a peer, as a submitter or as a worker."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import tempfile
from pathlib import Path
from typing import Any, Self

import psutil

from bench.harness.catalogue import Subject
from bench.harness.environments import ENVIRONMENTS
from bench.harness.process_cpu import tree_cpu_s

ANSWER_TIMEOUT_S = 180.0
LOG_TAIL_LINES = 25
BYTECODE = ENVIRONMENTS / "bytecode"


class PeerFailed(Exception):
    """A peer's process answered with an error, went silent or died; the message ends with its output."""


def environ_of(subject: Subject) -> dict[str, str]:
    """Bytecode is kept, as an installed package has it, but not beside the sources. A shell that forbids it would have
    every process compile all that it imports: a third of a second, and ten megabytes that stay."""
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**environ, "PYTHONPATH": subject.environment.python_path, "PYTHONPYCACHEPREFIX": str(BYTECODE)}


class PeerProcess:
    """Use as `async with PeerProcess(...) as child`; leaving kills the process and all of its children."""

    def __init__(self, subject: Subject, url: str, reported: asyncio.Event | None = None) -> None:
        """`reported` is set at every report of handler starts; several workers may share one."""
        self._subject = subject
        self._url = url
        self._reported = reported or asyncio.Event()
        self._answers: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.started = 0
        self.first_ns = 0
        self.latencies_us: list[float] = []

    async def __aenter__(self) -> Self:
        subject = self._subject
        self._log = tempfile.NamedTemporaryFile(prefix=f"bench-{subject.name}-", suffix=".log")  # noqa: SIM115
        self._process = await asyncio.create_subprocess_exec(
            *subject.environment.command(subject.adapter, self._url, json.dumps(dict(subject.settings))),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=self._log,
            cwd=subject.environment.working_directory,
            env=environ_of(subject),
            start_new_session=True,
        )
        self._reader = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()
        await self._reader
        self._log.close()

    async def call(self, do: str, **arguments: float) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
            await self._process.stdin.drain()
            answer = await asyncio.wait_for(self._answers.get(), ANSWER_TIMEOUT_S)
        except TimeoutError:
            raise self._failure(f"did not answer {do!r} within {ANSWER_TIMEOUT_S:.0f} s") from None
        except (BrokenPipeError, ConnectionResetError):
            raise self._failure(f"died before {do!r}") from None
        if "error" in answer:
            raise self._failure(f"failed at {do!r}: {answer['error']}")
        figures: dict[str, Any] = answer["ok"]
        return figures

    async def ready(self) -> None:
        """Until its imports are done, so that two workers then begin together."""
        await self.call("hello")

    def require_alive(self) -> None:
        if self._reader.done():
            raise self._failure("ended while it should work")

    def cpu_s(self) -> float:
        return tree_cpu_s(psutil.Process(self._process.pid))

    def rss_bytes(self) -> int:
        process = psutil.Process(self._process.pid)
        return sum(each.memory_info().rss for each in (process, *process.children(recursive=True)))

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            message = json.loads(line)
            if "started" in message:
                self.started = message["started"]
                self.first_ns = message["first_ns"]
                self.latencies_us += message["latencies_us"]
                self._reported.set()
            else:
                self._answers.put_nowait(message)
        self._answers.put_nowait({"error": "the process ended"})
        self._reported.set()

    def _failure(self, what: str) -> PeerFailed:
        tail = "\n".join(Path(self._log.name).read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:])
        output = f"\nthe end of its output:\n{tail}" if tail else ""
        return PeerFailed(f"{self._subject.name} {what}{output}")
