"""Watches the event loop from a thread: a handler that blocks it also blocks claims, timeouts and settling.

The thread logs what blocks, once a block, and tells it to whoever asks (`/healthz`, `/readyz`) or wants to be told
(the registry of workers). A handler that holds the interpreter lock holds this thread up as well; that is logged when
it lets go.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final, NamedTuple

log = logging.getLogger("euterpe.worker")

BEAT_S: Final = 0.5
BLOCKED_S: Final = 5.0
"""A loop that does not turn for so long is blocked: the log says so, and the registry."""
_PACKAGES: Final = tuple({sysconfig.get_path(name) for name in ("purelib", "platlib")})
_OURS: Final = (
    *{sysconfig.get_path(name) for name in ("stdlib", "platstdlib")},
    f"{Path(__file__).parents[2]}{os.sep}",
    "<",
)


class Block(NamedTuple):
    """For how long the loop has been blocked, the type of the job that does, and the line of its code."""

    seconds: float
    type: str | None
    place: str

    @property
    def where(self) -> str:
        return self.place if self.type is None else f"{self.type} ({self.place})"

    def __str__(self) -> str:
        return f"event loop blocked for {self.seconds:.0f} s in {self.where}"


class LoopWatch:
    """Of the loop that runs when `begin` is called. `on_block` is called in the watching thread."""

    def __init__(self, on_block: Callable[[Block], None] | None = None) -> None:
        self.on_block = on_block
        self.blocks = 0
        """How many blocks were told."""
        self._beat_at = time.monotonic()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def is_begun(self) -> bool:
        return self._thread is not None

    def begin(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._beat()
        self._thread = threading.Thread(target=self._watch, name="euterpe-loop-watch", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """The loop need not turn any more."""
        self._ended.set()
        self._timer.cancel()

    def _beat(self) -> None:
        self._beat_at = time.monotonic()
        self._timer = self._loop.call_later(BEAT_S, self._beat)

    def blocked(self, at_least_s: float = 2.0) -> Block | None:
        """What blocks the loop, if it has not turned for so long. May be asked in any thread."""
        seconds = time.monotonic() - self._beat_at
        if self._ended.is_set() or seconds < at_least_s + BEAT_S:
            return None
        return self._block(seconds)

    def _watch(self) -> None:
        told = False
        woke_at = time.monotonic()
        while not self._ended.wait(BEAT_S):
            now = time.monotonic()
            stood_still_s, woke_at = now - woke_at, now
            if stood_still_s >= BLOCKED_S:
                block = self._block(stood_still_s)
                log.warning(
                    "the process stood still for %.0f s: it was stopped, or a handler held the interpreter lock",
                    stood_still_s,
                    extra={"type": block.type, "place": block.place},
                )
                continue
            if (now_blocked := self.blocked(BLOCKED_S - BEAT_S)) is not None and not told:
                log.warning(
                    "event loop blocked for %.0f s; declare the handler as a plain `def` or with process=True",
                    now_blocked.seconds,
                    extra={"type": now_blocked.type, "place": now_blocked.place},
                )
                self._tell(now_blocked)
            elif now_blocked is None and told:
                log.warning("the event loop is free again")
            told = now_blocked is not None

    def _tell(self, block: Block) -> None:
        try:
            if self.on_block is not None:
                self.on_block(block)
        except Exception as error:  # noqa: BLE001  # the log has it; a registry may be out of reach
            log.info("a blocked event loop could not be told of", extra={"error_code": type(error).__name__})
        self.blocks += 1

    def _block(self, seconds: float) -> Block:
        place = _place(sys._current_frames().get(self._loop_thread))  # noqa: SLF001  # there is no other way
        task = asyncio.current_task(self._loop)
        name = "" if task is None else task.get_name()
        return Block(seconds, None if not name or name.startswith("Task-") else name, place)


@contextmanager
def watching(watch: LoopWatch) -> Iterator[None]:
    """While this lasts; one that is begun already goes on afterwards."""
    if watch.is_begun:
        yield
        return
    watch.begin()
    try:
        yield
    finally:
        watch.end()


def _place(frame: FrameType | None) -> str:
    """The innermost line of an application, or of an installed package, where there is none."""
    if frame is None:
        return "unknown code"
    found = _innermost(frame, (*_OURS, *_PACKAGES)) or _innermost(frame, _OURS) or frame
    return f"{Path(found.f_code.co_filename).name}:{found.f_lineno}"


def _innermost(frame: FrameType | None, outside: tuple[str, ...]) -> FrameType | None:
    while frame is not None and frame.f_code.co_filename.startswith(outside):
        frame = frame.f_back
    return frame
