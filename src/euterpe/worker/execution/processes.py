"""Handlers in processes of their own: CPU-bound work that a timeout can really kill.

A child serves one handler, one job at a time, and is used again; JSON travels over a socket of its own, so that what
the handler prints cannot disturb it. Killing the attempt kills the child and whatever the child started.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from euterpe.model.claims.exchange import ProgressUpdate
from euterpe.model.errors import EuterpeError
from euterpe.model.failures.failure import Category, Failure
from euterpe.model.job import Claim
from euterpe.observe.logs import current_settings
from euterpe.worker.context import Context, Reporter, Sent
from euterpe.worker.execution.environment import for_a_handler
from euterpe.worker.execution.pipe import (
    LINE_LIMIT,
    Logged,
    PipeAnswer,
    PipeRun,
    PipeStop,
    ProgressMessage,
    Raised,
    Returned,
    Serve,
    Spawn,
    ToChild,
    Unable,
    read_from_child,
    to_line,
)
from euterpe.worker.failures import HandlerFailed, HandlerNotStarted
from euterpe.worker.handling.handlers import Handler

IDLE_LIMIT: Final = max(2, os.cpu_count() or 1)
"""Children kept for the next job of their type; more would only hold memory."""
END_PATIENCE_S: Final = 5.0


class ProcessBroken(HandlerFailed):
    """The attempt failed together with its process: it died, or never could serve the handler."""


class Child:
    """One process that serves one handler."""

    def __init__(
        self, process: asyncio.subprocess.Process, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer
        self._answers: set[asyncio.Task[None]] = set()

    @classmethod
    async def start(cls, handler: Handler, result_limit: int, *, keeps_lines: bool) -> Child:
        try:
            return await cls._start(handler, result_limit, keeps_lines=keeps_lines)
        except (OSError, MemoryError) as error:  # No descriptor, no process, no memory.
            raise HandlerNotStarted(f"no process for the handler: {error}") from error

    @classmethod
    async def _start(cls, handler: Handler, result_limit: int, *, keeps_lines: bool) -> Child:
        ours, theirs = socket.socketpair()
        with theirs:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "euterpe.worker.execution.child",
                str(theirs.fileno()),
                pass_fds=(theirs.fileno(),),
                stdin=asyncio.subprocess.DEVNULL,
                env=for_a_handler(os.environ),
                # Its own group: the kill must reach what the handler started, and a Ctrl-C at the terminal must not.
                start_new_session=True,
            )
        try:
            reader, writer = await asyncio.open_connection(sock=ours, limit=LINE_LIMIT)
        except BaseException:
            process.kill()
            ours.close()
            raise
        child = cls(process, reader, writer)
        module, qualname = where_defined(handler)
        child.send(
            Serve(handler.type, module, qualname, sys.argv, sys.path, result_limit, keeps_lines, current_settings())
        )
        return child

    def send(self, message: ToChild) -> None:
        self._writer.write(to_line(message))

    async def call(self, claim: Claim, context: Context, reporter: Reporter) -> msgspec.Raw:
        """Run one attempt in the child; what it tells meanwhile goes to the reporter."""
        self.send(PipeRun(claim, context.deadline))
        while True:
            message = read_from_child(await self._next_line())
            match message:
                case ProgressMessage():
                    update = ProgressUpdate(claim, message.stage, message.progress, message.message, message.checkpoint)
                    self._answer(message.number, reporter.report_progress(update))
                case Logged():
                    line = message.line
                    context.keep_line(line.at, line.level, line.logger, line.message)
                case Spawn():
                    self._answer(message.number, reporter.spawn(claim, message.submission))
                case Returned():
                    if message.stopped:
                        context.saw_the_request = True
                    return message.value
                case Raised():
                    raise HandlerFailed(message.failure)
                case Unable():
                    raise ProcessBroken(Failure(Category.PERMANENT, message.reason, "not_importable"))

    async def _next_line(self) -> bytes:
        try:
            line = await self._reader.readline()
        except ConnectionError:
            line = b""
        except ValueError as error:
            raise ProcessBroken(Failure(Category.SYSTEM, str(error), "process_died")) from error
        if line.endswith(b"\n"):
            return line
        code = await self._process.wait()
        raise ProcessBroken(
            Failure(Category.SYSTEM, f"the handler's process ended with {_meaning(code)}", "process_died")
        )

    def _answer(self, number: int, sent: Sent[Any]) -> None:
        async def answer() -> None:
            try:
                reply = PipeAnswer(number, value=await sent)
            except EuterpeError as error:
                reply = PipeAnswer(number, error=str(error))
            if not self._writer.is_closing():
                self.send(reply)

        task = asyncio.get_running_loop().create_task(answer())
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)

    @property
    def alive(self) -> bool:
        return self._process.returncode is None and not self._writer.is_closing()

    def dismiss(self) -> None:
        """An idle child ends by itself when its socket closes."""
        self._writer.close()

    async def kill(self) -> None:
        """At once, with everything it started; returns when it is gone."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._writer.close()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), END_PATIENCE_S)


class Processes:
    """Children by handler: idle ones are used again, a spoilt one is killed."""

    def __init__(self, reporter: Reporter, result_limit: int, *, keeps_lines: bool = False) -> None:
        self._reporter = reporter
        self._result_limit = result_limit
        self._keeps_lines = keeps_lines
        self._idle: dict[str, list[Child]] = {}
        self._busy: dict[str, Child] = {}

    async def run(self, handler: Handler, claim: Claim, context: Context) -> msgspec.Raw:
        child = self._take(handler.type)
        if child is None:
            child = await Child.start(handler, self._result_limit, keeps_lines=self._keeps_lines)
        name = claim.lease.attempt_id
        self._busy[name] = child
        is_broken = True
        try:
            value = await child.call(claim, context, self._reporter)
            is_broken = False
            return value
        except HandlerFailed as error:
            is_broken = isinstance(error, ProcessBroken)
            raise
        finally:
            del self._busy[name]
            if is_broken:
                await child.kill()
            else:
                self._give_back(handler.type, child)

    def ask_to_stop(self, claim: Claim) -> None:
        """Tell the attempt's process that `ctx.cancelled` is true now."""
        if (child := self._busy.get(claim.lease.attempt_id)) is not None and child.alive:
            child.send(PipeStop())

    def _take(self, job_type: str) -> Child | None:
        idle = self._idle.get(job_type, [])
        while idle:
            child = idle.pop()
            if child.alive:
                return child
        return None

    def _give_back(self, job_type: str, child: Child) -> None:
        idle = self._idle.setdefault(job_type, [])
        if child.alive and len(idle) < IDLE_LIMIT:
            idle.append(child)
        else:
            child.dismiss()

    async def close(self) -> None:
        children = [*self._busy.values(), *(child for idle in self._idle.values() for child in idle)]
        self._idle.clear()
        await asyncio.gather(*(child.kill() for child in children))


def where_defined(handler: Handler) -> tuple[str, str]:
    """(module or path, qualified name): how a child finds the function again."""
    function = handler.function
    if function.__module__ != "__main__":
        return function.__module__, function.__qualname__
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return spec.name, function.__qualname__
    path = getattr(main, "__file__", None)
    return (str(Path(path).resolve()) if path else "__main__"), function.__qualname__


def _meaning(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
