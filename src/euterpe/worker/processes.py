"""Handlers in processes of their own: CPU-bound work that a timeout can really kill.

A child serves one handler, one job at a time, and is used again; JSON travels over a pipe of its own, so that what
the handler prints cannot disturb it. Killing the attempt kills the child.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from contextlib import suppress
from typing import Any

import msgspec

from euterpe.model.errors import PermanentError, TemporaryError
from euterpe.model.job import Claim
from euterpe.worker.context import Context
from euterpe.worker.handlers import Handler


class ChildCrashed(TemporaryError):
    """The process of a handler died under it."""


class Child:
    """One process that serves one handler."""

    def __init__(
        self, process: asyncio.subprocess.Process, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer

    @classmethod
    async def start(cls, handler: Handler) -> Child:
        ours, theirs = socket.socketpair()
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "euterpe.worker.child",
            str(theirs.fileno()),
            pass_fds=(theirs.fileno(),),
            stdin=asyncio.subprocess.DEVNULL,
            # Its own group: the kill must reach what the handler started, and a Ctrl-C at the terminal must not.
            start_new_session=True,
        )
        theirs.close()
        reader, writer = await asyncio.open_connection(sock=ours, limit=64 * 1024 * 1024)
        module, qualname = where_defined(handler)
        orders = {"type": handler.type, "module": module, "qualname": qualname, "argv": sys.argv, "path": sys.path}
        writer.write(msgspec.json.encode(orders) + b"\n")
        return cls(process, reader, writer)

    async def call(self, claim: Claim, context: Context, arguments: dict[str, Any]) -> Any:
        job = claim.job
        request = {
            "job_id": job.id,
            "attempt": job.attempt_count,
            "max_attempts": job.max_attempts,
            "attempt_id": claim.lease.attempt_id,
            "previous_attempt_id": job.previous_attempt_id,
            "deadline": context.deadline,
            "tags": job.tags,
            "correlation_id": job.correlation_id,
            "last_checkpoint": context.last_checkpoint,
            "arguments": arguments,
        }
        self._writer.write(msgspec.json.encode(request) + b"\n")
        while True:
            try:
                line = await self._reader.readline()
            except ConnectionError:
                line = b""
            if not line:
                code = await self._process.wait()
                raise ChildCrashed(f"the handler's process ended with {_meaning(code)}")
            kind, value = msgspec.json.decode(line)
            match kind:
                case "result":
                    return value
                case "temporary":
                    raise TemporaryError(value["message"], retry_after=value.get("retry_after"))
                case "permanent":
                    raise PermanentError(value["message"], code=value["code"])
                case "progress":
                    await context.progress(value["percent"], value.get("message"))
                case "checkpoint":
                    await context.checkpoint(value)
                case "stage":
                    await context.stage(value)

    def kill(self) -> None:
        """At once, with everything it started."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._writer.close()

    @property
    def alive(self) -> bool:
        return self._process.returncode is None


class Processes:
    """Children by handler: idle ones are used again, a spoilt one is killed."""

    def __init__(self) -> None:
        self._idle: dict[str, list[Child]] = {}
        self._busy: set[Child] = set()

    async def run(self, handler: Handler, claim: Claim, context: Context, arguments: dict[str, Any]) -> Any:
        idle = self._idle.setdefault(handler.type, [])
        while idle and not idle[-1].alive:
            idle.pop()
        child = idle.pop() if idle else await Child.start(handler)
        self._busy.add(child)
        finished = False
        try:
            value = await child.call(claim, context, arguments)
            finished = True
            return value
        except (PermanentError, TemporaryError) as error:
            finished = not isinstance(error, ChildCrashed)
            raise
        finally:
            self._busy.discard(child)
            if finished:
                self._idle[handler.type].append(child)
            else:
                child.kill()

    def close(self) -> None:
        for child in [*self._busy, *(c for children in self._idle.values() for c in children)]:
            child.kill()
        self._idle.clear()


def where_defined(handler: Handler) -> tuple[str, str]:
    """(module or path, qualified name): how a child finds the function again."""
    function = handler.function
    if function.__module__ != "__main__":
        return function.__module__, function.__qualname__
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    name = spec.name if spec is not None else str(getattr(main, "__file__", ""))
    return name, function.__qualname__


def _meaning(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
