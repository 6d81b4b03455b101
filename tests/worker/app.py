"""A small application for real worker processes: `python -m tests.worker.app URL SETTINGS`.

Its handlers note what they do in a journal, one line an act, so that a test sees what ran where, also in a process
that was killed. They wait for files and not for time where a test must choose the moment.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from datetime import date
from pathlib import Path
from typing import Any, cast

import pytest

import euterpe
from euterpe.observe.logs import configure_logging
from euterpe.queue.queue import Queue, core_of
from euterpe.stores.sql.program import Program, one
from euterpe.stores.sql.store import SqlStore
from euterpe.worker.claiming.prefetch import Pace
from tests.worker.inline import work_on

FOLDER = Path(os.environ.get("EUTERPE_TEST_FOLDER") or tempfile.mkdtemp())
AT_ONCE = {"strategy": "constant", "initial": "10ms", "jitter": 0}
NAP_S = 0.01

log = logging.getLogger("shop")
queue = Queue(os.environ.get("EUTERPE_TEST_URL", "sqlite:///:memory:"))


def note(ctx: euterpe.Context, act: str, **said: Any) -> None:
    """A line of the journal outlives the SIGKILL of whoever wrote it."""
    line = {"act": act, "job": ctx.job_id, "attempt": ctx.attempt, "pid": os.getpid(), "at": time.time(), **said}
    descriptor = os.open(FOLDER / "journal", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(descriptor, json.dumps(line).encode() + b"\n")
    os.close(descriptor)


def is_open(gate: str) -> bool:
    return (FOLDER / gate).exists()


def hold_the_interpreter(seconds: float) -> None:
    """C code that does not release the interpreter lock: no other thread of this process runs a line meanwhile."""
    ctypes.PyDLL(None).usleep(int(seconds * 1_000_000))


@queue.job("quick", backoff=AT_ONCE)
async def quick(ctx: euterpe.Context, value: int = 0) -> int:
    note(ctx, "ran", value=value)
    return value


@queue.job("block_loop", backoff=AT_ONCE)
async def block_loop(ctx: euterpe.Context, seconds: float) -> str:
    note(ctx, "begun")
    time.sleep(seconds)  # noqa: ASYNC251  # the very mistake that must cost nothing
    return "done"


@queue.job("hold_gil", backoff=AT_ONCE)
async def hold_gil(ctx: euterpe.Context, seconds: float) -> str:
    note(ctx, "begun")
    hold_the_interpreter(seconds)
    return "done"


@queue.job("hold_gil_in_a_write", backoff=AT_ONCE)
async def hold_gil_in_a_write(ctx: euterpe.Context, seconds: float) -> str:
    """Hold the interpreter lock while the writer thread of this process is in the middle of a transaction."""
    in_transaction, go_on = threading.Event(), threading.Event()

    def stalled() -> Program[None]:
        yield one("promote_due", limit=1)
        in_transaction.set()
        go_on.wait()

    note(ctx, "begun")
    engine = cast("SqlStore", core_of(queue).store).engine
    writing = asyncio.get_running_loop().create_task(engine.write(stalled))
    while not in_transaction.is_set():  # noqa: ASYNC110  # it is set by another thread
        await asyncio.sleep(NAP_S)
    hold_the_interpreter(seconds)
    go_on.set()
    await writing
    return "done"


@queue.job("block_thread", backoff=AT_ONCE)
def block_thread(ctx: euterpe.Context, seconds: float) -> str:
    note(ctx, "begun")
    hold_the_interpreter(seconds)
    return "done"


@queue.job("gated", backoff=AT_ONCE)
async def gated(ctx: euterpe.Context, gate: str = "gate") -> int:
    """Runs until the test opens the gate."""
    note(ctx, "begun")
    try:
        while not is_open(gate):  # noqa: ASYNC110  # the gate is opened by another process
            await asyncio.sleep(NAP_S)
    except asyncio.CancelledError:
        note(ctx, "cancelled")
        raise
    note(ctx, "done")
    return ctx.attempt


@queue.job("gated_thread", backoff=AT_ONCE)
def gated_thread(ctx: euterpe.Context, gate: str = "gate", heeds: bool = True) -> str:
    """Likewise in a thread; `heeds` says whether it looks at `ctx.cancelled`."""
    note(ctx, "begun")
    while not is_open(gate):
        if heeds and ctx.cancelled:
            note(ctx, "stopped")
            return "stopped"
        time.sleep(NAP_S)
    note(ctx, "done")
    return "done"


@queue.job("gated_process", process=True, backoff=AT_ONCE)
def gated_process(ctx: euterpe.Context, gate: str = "gate", heeds: bool = True) -> str:
    """Likewise in a process, with a child of its own that must not outlive it."""
    grandchild = subprocess.Popen(["sleep", "1000"])
    note(ctx, "begun", grandchild=grandchild.pid)
    while not is_open(gate):
        if heeds and ctx.cancelled:
            grandchild.kill()
            note(ctx, "stopped")
            return "stopped"
        time.sleep(NAP_S)
    grandchild.kill()
    grandchild.wait()
    return "done"


@queue.job("whole_context", process=True, backoff=AT_ONCE, stages=["claimed", "thinking"])
def whole_context(ctx: euterpe.Context, day: date, seen: bytes | None = None) -> dict[str, Any]:
    """Everything a context can do, in a process; told in its result."""
    if ctx.attempt == 1:
        ctx.checkpoint(b"\x00raw")
        raise euterpe.TemporaryError("once more")
    ctx.stage("thinking").wait(20)
    ctx.progress(75, "nearly").wait(20)
    child = ctx.spawn(quick.with_args(value=5)).wait(20)
    return {
        "pid": os.getpid(),
        "seen": [None, ctx.last_checkpoint.decode()],
        "weekday": day.weekday(),
        "attempt": ctx.attempt,
        "previous": ctx.previous_attempt_id,
        "tags": ctx.tags,
        "correlation_id": ctx.correlation_id,
        "child": child,
    }


@queue.job("environment_of_the_process", process=True)
def environment_of_the_process() -> list[str]:
    return sorted(os.environ)


@queue.job("misbehave", process=True, backoff=AT_ONCE)
def misbehave(how: str) -> Any:
    match how:
        case "permanent":
            raise euterpe.PermanentError("gone", code="no_such_file")
        case "value_error":
            raise ValueError("odd \x00 \ud800")
        case "exit":
            sys.exit(3)
        case "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "unencodable":
            return object()
        case "too_large":
            return "x" * 1_000_001
        case "prints":
            print('["returned", "a lie"]', flush=True)
    return os.getpid()


@queue.job("dies_on_the_loop", backoff=AT_ONCE)
async def dies_on_the_loop(ctx: euterpe.Context) -> None:
    note(ctx, "begun")
    os._exit(7)


@queue.job("dies_soon", backoff=AT_ONCE)
async def dies_soon(ctx: euterpe.Context) -> None:
    """Its neighbours run when it dies."""
    note(ctx, "begun")
    await asyncio.sleep(0.1)
    os._exit(7)


@queue.job("naps", backoff=AT_ONCE)
async def naps(ctx: euterpe.Context, seconds: float) -> None:
    note(ctx, "begun")
    await asyncio.sleep(seconds)
    note(ctx, "ran")


@queue.job("dies_in_a_thread", backoff=AT_ONCE)
def dies_in_a_thread(ctx: euterpe.Context) -> None:
    note(ctx, "begun")
    os._exit(7)


@queue.job("talks_in_a_process", process=True, backoff=AT_ONCE, max_attempts=2)
def talks_in_a_process(ctx: euterpe.Context) -> str:
    """The first attempt is killed in the middle of its talk."""
    log.warning("attempt %d: password=hunter2", ctx.attempt)
    if ctx.attempt == 1:
        os._exit(7)
    return "done"


@queue.job("dies_in_a_process", process=True, backoff=AT_ONCE)
def dies_in_a_process() -> None:
    os._exit(7)


class PanicException(BaseException):
    """What a Rust extension raises."""


@queue.job("panics_in_a_process", process=True, backoff=AT_ONCE)
def panics_in_a_process() -> None:
    raise PanicException("index out of bounds")


def hidden() -> None:
    """Has another name in its module when it is registered."""


queue.job("not_importable", process=True)(hidden)
del hidden


@queue.job("deaf", backoff=AT_ONCE)
async def deaf(ctx: euterpe.Context, gate: str = "gate") -> str:
    """Swallows every cancellation."""
    note(ctx, "begun")
    while not is_open(gate):
        try:
            await asyncio.sleep(NAP_S)
        except asyncio.CancelledError:
            note(ctx, "ignored")
    return "done"


@queue.job("alone", concurrency_limit=1, backoff=AT_ONCE)
async def alone(ctx: euterpe.Context, seconds: float = 0.02) -> None:
    """Never two at once, over all workers."""
    note(ctx, "begun")
    await asyncio.sleep(seconds)
    note(ctx, "done")


@queue.job("keyed", backoff=AT_ONCE)
async def keyed(ctx: euterpe.Context, key: str, seconds: float = 0.02) -> None:
    note(ctx, "begun", key=key)
    await asyncio.sleep(seconds)
    note(ctx, "done", key=key)


@queue.job("tick")
async def tick(ctx: euterpe.Context) -> None:
    note(ctx, "ticked")


def claim_ahead(types: list[str]) -> None:
    """From the first turn on, and for as long as a test takes: jobs of these types, whatever they took so far."""
    patch = pytest.MonkeyPatch()
    patch.setattr(Pace, "ahead", lambda _: 20)
    patch.setattr(Pace, "short_types", property(lambda _: tuple(types)))
    patch.setattr("euterpe.worker.attempts.PATIENCE_S", 3600.0)


async def main() -> None:
    settings = json.loads(sys.argv[2])
    if types := settings.pop("ahead", None):
        claim_ahead(types)
    if settings.pop("cron", False):
        queue.cron("* * * * * *")(tick)
    print("working", flush=True)
    await work_on(queue, signals=(signal.SIGTERM, signal.SIGINT), **settings)
    print("ended", flush=True)


if __name__ == "__main__":
    configure_logging("info", "json", strict=True)
    asyncio.run(main())
