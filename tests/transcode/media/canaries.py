"""Things that nobody must touch: a file whose opening is seen by the kernel, and a listener that nobody may call."""

from __future__ import annotations

import ctypes
import os
import socket
from pathlib import Path
from types import TracebackType
from typing import Self

IN_ACCESS_OR_OPEN = 0x1 | 0x20


class Canaries:
    """`touched()` says what was opened or called since the start; the file is real media, to be worth reading."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._inotify = self._libc.inotify_init1(os.O_NONBLOCK)
        assert self._inotify >= 0
        assert self._libc.inotify_add_watch(self._inotify, bytes(file), IN_ACCESS_OR_OPEN) >= 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]

    def touched(self) -> list[str]:
        found = []
        try:
            os.read(self._inotify, 65536)
            found.append("the file was opened")
        except BlockingIOError:
            pass
        try:
            self._listener.accept()[0].close()
            found.append("the listener was called")
        except BlockingIOError:
            pass
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._inotify)
        self._listener.close()
