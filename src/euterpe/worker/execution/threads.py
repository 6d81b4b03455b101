"""Threads for plain `def` handlers: started when needed, used again, and never waited for at exit.

The standard executor joins its threads when the interpreter ends, so one handler that hangs would keep a stopped
worker alive. A thread cannot be stopped; an abandoned one lingers, and is counted until it is through.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from euterpe.worker.failures import HandlerFailed, HandlerNotStarted, failure_of

log = logging.getLogger("euterpe.worker")

PAUSE_S: Final = 1.0
WARN_AGAIN_S: Final = 60.0

T = TypeVar("T")


@dataclass(slots=True)
class _Call:
    function: Callable[[], Any]
    future: asyncio.Future[Any]
    context: contextvars.Context


class Threads:
    """Runs functions in threads of its own; as many as there are calls at once."""

    def __init__(self, on_freed: Callable[[], None] = lambda: None) -> None:
        self._on_freed = on_freed
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._started = 0
        self.lingering = 0
        """Threads whose caller has given up waiting."""

    async def call(self, function: Callable[[], T]) -> T:
        """Run it and wait. Cancelled: the thread goes on alone, and counts as lingering until it ends."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        with self._lock:
            if self._idle:
                self._idle -= 1
            else:
                name = f"euterpe-handler-{self._started + 1}"
                try:
                    threading.Thread(target=self._serve, name=name, daemon=True).start()
                except (RuntimeError, MemoryError) as error:  # A limit of processes, or no memory for a stack.
                    raise HandlerNotStarted(f"no thread for the handler: {error}") from error
                self._started += 1
        self._calls.put(_Call(function, future, contextvars.copy_context()))
        try:
            return await future
        except asyncio.CancelledError:
            if future.cancelled():
                self.lingering += 1
            raise

    def close(self) -> None:
        """Idle threads end now, busy ones after their call."""
        for _ in range(self._started):
            self._calls.put(None)

    def _serve(self) -> None:
        while (call := self._calls.get()) is not None:
            value, error = None, None
            try:
                value = call.context.run(call.function)
            except BaseException as raised:  # noqa: BLE001  # whatever it is, it belongs to the caller
                error = _settable(raised)
            loop, future = call.future.get_loop(), call.future
            del call  # An idle thread holds on to nobody's arguments.
            with self._lock:
                self._idle += 1
            try:
                loop.call_soon_threadsafe(self._finish, future, value, error)
            except RuntimeError:
                return  # The loop is closed: nobody waits for anything any more.
            del future, value, error

    def _finish(self, future: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
        if future.cancelled():
            self.lingering -= 1
            self._on_freed()
        elif error is not None:
            future.set_exception(error)
        else:
            future.set_result(value)


class Shortage:
    """No thread, descriptor or memory is left for a handler: all `slots` are withheld for a moment. `on_over` is called
    afterwards."""

    def __init__(self, slots: int, on_over: Callable[[], None]) -> None:
        self.withheld = 0
        self._slots = slots
        self._on_over = on_over
        self._warned_at = -WARN_AGAIN_S

    def begin(self, running: int) -> None:
        if not self.withheld:
            self.withheld = self._slots
            asyncio.get_running_loop().call_later(PAUSE_S, self._end)
        if time.monotonic() - self._warned_at >= WARN_AGAIN_S:
            self._warned_at = time.monotonic()
            log.error(
                "no thread or process for a handler, %d run: jobs go back uncharged; claiming slows down", running
            )

    def _end(self) -> None:
        self.withheld = 0
        self._on_over()


def _settable(error: BaseException) -> BaseException:
    """A future refuses StopIteration, which would end whatever generator waits for it. And what ends a thread must
    not end the loop: a KeyboardInterrupt that a handler raised is no Ctrl-C."""
    kind = type(error)
    if issubclass(kind, StopIteration):
        wrapped = RuntimeError("the handler raised StopIteration")
        wrapped.__cause__ = error
        return wrapped
    return error if issubclass(kind, (Exception, asyncio.CancelledError)) else HandlerFailed(failure_of(error))
