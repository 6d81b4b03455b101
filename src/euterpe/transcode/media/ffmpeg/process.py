"""One child process from start to end: bounded, watched, and gone when this function returns, however it returns."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from euterpe.model.failures.failure import Category
from euterpe.transcode.media.errors import MediaError
from euterpe.transcode.media.ffmpeg import sandbox
from euterpe.transcode.media.ffmpeg.limits import MediaLimits

STDERR_TAIL_BYTES = 64 * 1024
STDOUT_MOST_BYTES = 32 * 1024 * 1024
CHUNK_BYTES = 64 * 1024
# Nothing of our environment, which may hold secrets, reaches a program that reads hostile files. A static ffmpeg
# crashes when it loads the converters of this system's C library, as it does for MPEG-TS: it must not find any.
ENVIRONMENT = {
    "PATH": os.defpath,
    "LC_ALL": "C.UTF-8",
    "AV_LOG_FORCE_NOCOLOR": "1",
    "HOME": "/nonexistent",
    "GCONV_PATH": "/nonexistent",
}


@dataclass(frozen=True, slots=True)
class Finished:
    returncode: int
    stdout: bytes
    stderr: str
    """Its last 64 KB. For us, never for the requester: it may name files."""


async def no_check() -> None:
    """Finds nothing wrong."""


@dataclass(slots=True)
class Watch:
    """What kills a run early: a wall clock, a stall, or what `check` raises; it is asked twice a second."""

    deadline: float
    """On time.monotonic()."""
    stall_s: float
    on_stdout: Callable[[bytes], bool] = field(default=lambda _: True)
    """Gets what the child writes; True when that was progress."""
    check: Callable[[], Awaitable[None]] = field(default=no_check)


class Pipe:
    """The child writes into `write_fd`; `consume` reads the other end in a thread until it closes."""

    def __init__(self, consume: Callable[[int], None]) -> None:
        self._consume = consume
        self._read_fd, self.write_fd = os.pipe()
        self._open = {self._read_fd, self.write_fd}

    def read(self) -> None:
        try:
            self._consume(self._read_fd)
        finally:
            self._close(self._read_fd)

    def close_write(self) -> None:
        self._close(self.write_fd)

    def close(self) -> None:
        for fd in tuple(self._open):
            self._close(fd)

    def _close(self, fd: int) -> None:
        if fd in self._open:
            self._open.remove(fd)
            os.close(fd)


async def run_contained(
    argv: Sequence[str],
    *,
    limits: MediaLimits,
    file_bytes: int,
    cwd: Path,
    watch: Watch,
    pass_fds: Sequence[int] = (),
    pipes: Sequence[Pipe] = (),
    collect: bool = False,
) -> Finished:
    """In the sandbox script: limits, nice, no network where that can be had, and dead when this process dies.

    `collect` keeps what the child writes to its standard output, up to `STDOUT_MOST_BYTES` and a chunk.
    """
    cpu_seconds = max(60, int(watch.deadline - time.monotonic()) * (os.cpu_count() or 1) + 1)
    wrapped = [
        *(sys.executable, "-I", "-S", sandbox.__file__),
        *(str(figure) for figure in (os.getpid(), limits.memory_bytes, file_bytes, cpu_seconds, limits.nice)),
        *argv,
    ]
    return await _run(wrapped, cwd=cwd, watch=watch, pass_fds=pass_fds, pipes=pipes, collect=collect)


async def _run(
    argv: Sequence[str],
    *,
    cwd: Path,
    watch: Watch,
    pass_fds: Sequence[int],
    pipes: Sequence[Pipe],
    collect: bool,
) -> Finished:
    process = await _start(argv, cwd, [*pass_fds, *(pipe.write_fd for pipe in pipes)])
    for pipe in pipes:
        pipe.close_write()  # ours; the child's own end is what the reader waits for
    readers = _Readers(process, watch, collect)
    threads = ThreadPoolExecutor(max_workers=max(1, len(pipes)))
    loop = asyncio.get_running_loop()
    consumers = [loop.run_in_executor(threads, pipe.read) for pipe in pipes]
    try:
        await _watched(process, readers, watch)
        await asyncio.gather(*consumers)
    finally:
        kill_group(process)
        await asyncio.shield(_ended(process, readers, consumers))
        threads.shutdown(wait=False)
    assert process.returncode is not None
    if process.returncode == sandbox.NOT_STARTED:
        raise _not_started()
    return Finished(process.returncode, bytes(readers.stdout), readers.stderr.decode(errors="replace"))


async def _start(argv: Sequence[str], cwd: Path, fds: Sequence[int]) -> asyncio.subprocess.Process:
    try:
        return await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=cwd,
            env=ENVIRONMENT,
            pass_fds=tuple(fds),
            start_new_session=True,
        )
    except OSError:
        raise _not_started() from None


def _not_started() -> MediaError:
    return MediaError("tools.not_started", Category.SYSTEM, "ffmpeg could not be started")


def kill_group(process: asyncio.subprocess.Process) -> None:
    """The child leads its own session, so its number is the group's, and stays taken until we have waited for it."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


class _Readers:
    def __init__(self, process: asyncio.subprocess.Process, watch: Watch, collect: bool) -> None:
        self.stdout = bytearray()
        self.stderr = bytearray()
        self.moved_at = time.monotonic()
        self._watch = watch
        self._collect = collect
        assert process.stdout is not None
        assert process.stderr is not None
        self.tasks = (
            asyncio.create_task(self._read_stdout(process.stdout)),
            asyncio.create_task(self._read_stderr(process.stderr)),
        )

    async def _read_stdout(self, stream: asyncio.StreamReader) -> None:
        while chunk := await stream.read(CHUNK_BYTES):
            if self._collect and len(self.stdout) <= STDOUT_MOST_BYTES:
                self.stdout += chunk
            if self._watch.on_stdout(chunk):
                self.moved_at = time.monotonic()

    async def _read_stderr(self, stream: asyncio.StreamReader) -> None:
        while chunk := await stream.read(CHUNK_BYTES):
            self.stderr += chunk
            del self.stderr[:-STDERR_TAIL_BYTES]


async def _watched(process: asyncio.subprocess.Process, readers: _Readers, watch: Watch) -> None:
    ending = asyncio.ensure_future(process.wait())
    tick = min(0.5, watch.stall_s / 4)
    while True:
        done, _ = await asyncio.wait({ending}, timeout=min(tick, max(0.0, watch.deadline - time.monotonic())))
        if done:
            await asyncio.gather(*readers.tasks)
            return
        now = time.monotonic()
        if now >= watch.deadline:
            raise MediaError("encode.timeout", Category.TIMEOUT, "the work took longer than it may")
        if now - readers.moved_at > watch.stall_s:
            raise MediaError("encode.stalled", Category.TIMEOUT, f"no progress for {watch.stall_s:g} seconds")
        await watch.check()


async def _ended(
    process: asyncio.subprocess.Process, readers: _Readers, consumers: Sequence[asyncio.Future[None]]
) -> None:
    await process.wait()
    await asyncio.gather(*readers.tasks, *consumers, return_exceptions=True)
