"""Watches one file for writes: Linux's inotify, without a package for it."""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
import sys
from collections.abc import Callable
from typing import Final

IN_MODIFY: Final = 0x2
IN_ATTRIB: Final = 0x4
EVENT: Final = struct.Struct("iIII")
EVENTS_AT_ONCE: Final = 64 * 1024


class FileWatch:
    """Calls `written` on this loop when the file is, and `touched` when only its times are set. OSError where that
    cannot be had."""

    def __init__(self, path: str, *, touched: Callable[[], None], written: Callable[[], None]) -> None:
        if not sys.platform.startswith("linux"):
            raise OSError("only Linux has inotify")
        self._library = ctypes.CDLL(None, use_errno=True)
        self._path = os.fsencode(path)
        self._mask = 0
        self._descriptor: int = self._library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor < 0:
            raise _last_error("inotify_init1")
        if not self.hear(writes=True):
            error = _last_error("inotify_add_watch")
            os.close(self._descriptor)
            raise error
        self._touched = touched
        self._written = written
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._descriptor, self._read)

    def hear(self, *, writes: bool) -> bool:
        """Of touches always, of writes if asked for; whether that could be had. A large commit is thousands of writes,
        and each that is heard of wakes the loop."""
        mask = IN_ATTRIB | IN_MODIFY if writes else IN_ATTRIB
        if mask != self._mask and self._library.inotify_add_watch(self._descriptor, self._path, mask) >= 0:
            self._mask = mask
        return self._mask == mask

    def _read(self) -> None:
        try:
            events = os.read(self._descriptor, EVENTS_AT_ONCE)
        except BlockingIOError:
            return
        masks = {mask for _, mask, _, _ in EVENT.iter_unpack(events)}  # A file's events bring no names along.
        if any(mask & IN_ATTRIB for mask in masks):
            self._touched()
        else:
            self._written()

    def close(self) -> None:
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)


def _last_error(call: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{call}: {os.strerror(number)}")
