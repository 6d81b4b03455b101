"""Several processes of one worker: forked from a parent that imported everything, restarted when they die, and told to
stop together.

The parent has no thread, event loop or connection, before a fork or after: there is nothing that a child could inherit
by halves. Each child is in a process group of its own, so that a Ctrl-C at a terminal reaches the parent alone, and it
ends with its parent, however that ends.
"""

from __future__ import annotations

import gc
import logging
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from types import FrameType
from typing import Final, NoReturn

log: Final = logging.getLogger("euterpe.system")

SHORT_LIFE_S: Final = 10.0
"""Who lives less long than this is started again later and later."""
PAUSES_S: Final = (0.5, 30.0)
STOPPING: Final = (signal.SIGTERM, signal.SIGINT)
RunChild = Callable[[Callable[[], None]], int]
"""What a child does: is given what to call when it is up, and returns its exit code."""


@dataclass(slots=True)
class ProcessSlot:
    """One child after the other."""

    number: int
    run: RunChild
    pid: int | None = None
    started: float = 0.0
    failures: int = 0
    start_at: float | None = 0.0
    """When to start it; None: it runs, or is not wanted any more."""
    was_up: bool = False
    up: int = field(default=-1, repr=False)
    """The reading end of its pipe, until it is up."""


class Supervisor:
    """Keeps a child in every place until it is told to stop."""

    def __init__(self) -> None:
        self._slots: list[ProcessSlot] = []
        self._stop_signals = 0
        self._passed_on = 0
        self._code = 0
        self._alive, self._parent_end = os.pipe()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)

    def add(self, run: RunChild) -> None:
        self._slots.append(ProcessSlot(len(self._slots) + 1, run))

    def run(self) -> int:
        """Until all have ended after an order to stop, or one could not start at all; returns the exit code."""
        gc.freeze()  # What is shared with the children stays shared.
        before = {number: signal.signal(number, self._on_signal) for number in STOPPING}
        before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        try:
            while True:
                self._reap()
                self._pass_on()
                if self._stop_signals and all(slot.pid is None for slot in self._slots):
                    return self._code
                self._start_due()
                self._wait()
        finally:
            signal.set_wakeup_fd(-1)
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._stop_signals += 1

    def _pass_on(self) -> None:
        """Each order once to each child: the second one makes them give back what still runs."""
        while self._passed_on < min(self._stop_signals, 2):
            self._passed_on += 1
            for slot in self._slots:
                slot.start_at = None
                if slot.pid is not None:
                    with suppress(ProcessLookupError):
                        os.kill(slot.pid, signal.SIGTERM)

    def _wait(self) -> None:
        due = [slot.start_at for slot in self._slots if slot.start_at is not None]
        left_s = max(0.0, min(due) - time.monotonic()) if due else None
        pipes = [slot.up for slot in self._slots if slot.up >= 0]
        readable, _, _ = select.select([self._wake_read, *pipes], [], [], left_s)
        for slot in self._slots:
            if slot.up in readable:
                slot.was_up = slot.was_up or os.read(slot.up, 1) != b""
                os.close(slot.up)
                slot.up = -1
        if self._wake_read in readable:
            os.read(self._wake_read, 4096)

    # --- children -------------------------------------------------------------------------------------

    def _start_due(self) -> None:
        for slot in self._slots:
            if slot.start_at is not None and time.monotonic() >= slot.start_at:
                self._fork(slot)

    def _fork(self, slot: ProcessSlot) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        reads, writes = os.pipe()
        slot.start_at, slot.started = None, time.monotonic()
        pid = os.fork()
        if pid == 0:
            os.close(reads)
            self._become_child(slot, writes)
        os.close(writes)
        slot.pid, slot.up = pid, reads

    def _become_child(self, slot: ProcessSlot, up: int) -> NoReturn:
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            for number in (*STOPPING, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            os.setpgid(0, 0)
            os.close(self._parent_end)
            threading.Thread(target=self._end_with_parent, name="euterpe-parent", daemon=True).start()

            def is_up() -> None:
                with suppress(OSError):
                    os.write(up, b"1")

            code = slot.run(is_up)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def _end_with_parent(self) -> None:
        os.read(self._alive, 1)  # Nobody ever writes: it returns when the parent is gone.
        os.kill(os.getpid(), signal.SIGTERM)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for slot in self._slots:
                if slot.pid == pid:
                    slot.pid = None
                    self._ended(slot, os.waitstatus_to_exitcode(status))

    def _ended(self, slot: ProcessSlot, code: int) -> None:
        if slot.up >= 0:
            slot.was_up = slot.was_up or os.read(slot.up, 1) != b""
            os.close(slot.up)
            slot.up = -1
        if self._stop_signals:
            self._code = self._code or max(code, 0)
            return
        if not slot.was_up and code > 0:
            # It said why. What cannot start here would not start a second time either.
            self._code = code
            self._stop_signals = 1
            return
        short = time.monotonic() - slot.started < SHORT_LIFE_S
        slot.failures = slot.failures + 1 if code and short else 0
        pause_s = 0.0 if not slot.failures else min(PAUSES_S[0] * 2 ** (slot.failures - 1), PAUSES_S[1])
        slot.start_at = time.monotonic() + pause_s
        if code:
            log.error("process %d ended with code %d and is started again in %.1f s", slot.number, code, pause_s)
        else:
            log.info("process %d has done its part and is started anew", slot.number)
