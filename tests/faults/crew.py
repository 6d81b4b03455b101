"""Child processes that play workers, submitters and sweepers, and how a test steers them.

An actor is a coroutine function in a process of its own, forked from a server that has imported everything (so
that sixteen of them start at once and not one by one). It hears orders over a pipe, and notes what the store
acknowledged in a journal file, one line a write: a line outlives the SIGKILL of the process that wrote it.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from multiprocessing.connection import Connection
from multiprocessing.forkserver import ensure_running, set_forkserver_preload
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final

import msgspec

DEADLINE_S: Final = 30.0
Part = Callable[..., Awaitable[object]]


class Note(msgspec.Struct, frozen=True):
    """One line of a journal: what was acknowledged, and its details."""

    kind: str
    said: dict[str, Any]


class Line:
    """The actor's end: orders come in, reports go out, acknowledgements are noted."""

    def __init__(self, connection: Connection, journal: Path) -> None:
        self._connection = connection
        self._journal = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(self, kind: str, **said: Any) -> None:
        os.write(self._journal, json.dumps({"kind": kind, "said": said}).encode() + b"\n")

    def report(self, message: object) -> None:
        self._connection.send(message)

    async def order(self) -> Any:
        """The next order; blocks this actor's task only."""
        return await asyncio.to_thread(self._connection.recv)

    def stand_still(self) -> None:
        """Blocks the whole actor until the next order."""
        self._connection.recv()

    def ordered(self) -> bool:
        """Whether an order waits: the usual way to tell a busy actor to stop."""
        return self._connection.poll()


class Actor:
    """The test's end of one child process."""

    def __init__(self, process: BaseProcess, connection: Connection, journal: Path) -> None:
        self.process = process
        self._connection = connection
        self._journal = journal

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    def order(self, message: object = "go") -> None:
        self._connection.send(message)

    async def report(self, within_s: float = DEADLINE_S) -> Any:
        """What the actor reports next; its own exception is raised here."""
        said = await asyncio.to_thread(self._receive, within_s)
        if isinstance(said, BaseException):
            raise said
        return said

    def _receive(self, within_s: float) -> Any:
        if not self._connection.poll(within_s):
            raise TimeoutError(f"{self.process.name} said nothing for {within_s} s")
        return self._connection.recv()

    def kill(self) -> None:
        """SIGKILL, and wait until the system has taken its locks and sockets away."""
        self.process.kill()
        self.process.join(DEADLINE_S)

    def freeze(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def notes(self) -> Iterator[Note]:
        if self._journal.exists():
            # Behind the last line break is what is being written, or what a killed actor could not finish.
            for line in self._journal.read_bytes().rpartition(b"\n")[0].splitlines():
                yield msgspec.json.decode(line, type=Note)


class Crew:
    """Every actor of one test. Leaving the `with` kills those that still live."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._context = multiprocessing.get_context("forkserver")
        _start_fork_server()
        self.actors: list[Actor] = []

    def start(self, part: Part, *args: object) -> Actor:
        ours, theirs = self._context.Pipe()
        name = f"{getattr(part, '__name__', 'actor')}-{len(self.actors)}"
        journal = self._folder / f"{name}.journal"
        process = self._context.Process(target=_play, args=(part, theirs, journal, args), name=name, daemon=True)
        process.start()
        theirs.close()
        actor = Actor(process, ours, journal)
        self.actors.append(actor)
        return actor

    def start_many(self, count: int, part: Part, *args: object) -> list[Actor]:
        return [self.start(part, *args, number) for number in range(count)]

    def notes(self, kind: str) -> list[dict[str, Any]]:
        return [note.said for actor in self.actors for note in actor.notes() if note.kind == kind]

    def check_alive(self) -> None:
        """Raise what an actor died of on its own account, instead of waiting for what it will never do."""
        for actor in self.actors:
            if actor.process.exitcode == 1:
                said: object = None
                while not isinstance(said, BaseException):
                    said = actor._connection.recv()
                raise AssertionError(f"{actor.process.name} died of {said}")

    def dismiss(self) -> None:
        for actor in self.actors:
            actor.process.kill()
        for actor in self.actors:
            actor.process.join(DEADLINE_S)
            actor._connection.close()
            actor.process.close()


async def reports(actors: list[Actor], within_s: float = DEADLINE_S) -> list[Any]:
    """One report of each, in the order of the actors."""
    return [await actor.report(within_s) for actor in actors]


async def together(actors: list[Actor], within_s: float = DEADLINE_S) -> list[Any]:
    """All actors say that they are ready, are let go at once, and report what came of it."""
    await reports(actors, within_s)
    for actor in actors:
        actor.order()
    return await reports(actors, within_s)


async def until(condition: Callable[[], Awaitable[object]], within_s: float = DEADLINE_S) -> float:
    """Wait until the condition holds; returns the seconds it took. The nap only paces the question."""
    started = time.monotonic()
    while not await condition():
        if time.monotonic() - started > within_s:
            raise TimeoutError(f"{condition} did not come true within {within_s} s")
        await asyncio.sleep(0.01)
    return time.monotonic() - started


def _start_fork_server() -> None:
    """The fork server imports what actors need before it forks; it looks for it where this process does."""
    set_forkserver_preload(["tests.faults.breakers"])
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    try:
        ensure_running()
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


def _play(part: Part, connection: Connection, journal: Path, args: tuple[object, ...]) -> None:
    line = Line(connection, journal)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        asyncio.run(_run(part, line, args))
    except BaseException as error:
        line.report(_plain(error))
        raise


async def _run(part: Part, line: Line, args: tuple[object, ...]) -> None:
    await part(line, *args)


def _plain(error: BaseException) -> BaseException:
    """Not every exception survives the pipe; its words do, and whether it was a wait that ran out."""
    said = f"{type(error).__name__}: {error}"
    return TimeoutError(said) if isinstance(error, TimeoutError) else RuntimeError(said)
