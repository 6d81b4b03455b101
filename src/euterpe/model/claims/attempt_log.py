"""The lines that a handler logged during one attempt: the newest are kept, and only so much of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

import msgspec

LINES_KEPT: Final = 100
"""Of one attempt, where nobody says otherwise."""
LINES_CEILING: Final = 1_000
BYTES_KEPT: Final = 16 * 1024
"""Of one attempt, whatever the number of its lines."""
MESSAGE_LIMIT: Final = 2_000
NAME_LIMIT: Final = 100


class LogLine(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """`at` is in microseconds since the epoch, by the worker's clock."""

    at: int
    level: str
    logger: str
    message: str

    @property
    def size(self) -> int:
        return len(self.logger) + len(self.message)


class AttemptLog(msgspec.Struct, frozen=True):
    """What is kept of one attempt. `dropped`: so many older lines are not."""

    claim_version: int
    lines: list[LogLine]
    dropped: int = 0


class _Stored(msgspec.Struct, frozen=True, omit_defaults=True):
    lines: list[LogLine]
    dropped: int = 0


class LogBuffer:
    """Takes lines from any thread; the oldest go when there are too many, or too long ones."""

    __slots__ = ("_dropped", "_lines", "_lines_kept", "_size")

    def __init__(self, lines_kept: int = LINES_KEPT, dropped: int = 0) -> None:
        self._lines: deque[LogLine] = deque()
        self._lines_kept = lines_kept
        self._size = 0
        self._dropped = dropped

    def add(self, line: LogLine) -> None:
        """Callers see to it that only one is in here at a time."""
        self._lines.append(line)
        self._size += line.size
        while len(self._lines) > self._lines_kept or (self._size > BYTES_KEPT and len(self._lines) > 1):
            self._size -= self._lines.popleft().size
            self._dropped += 1

    def stored(self) -> str | None:
        """As a store keeps it; None: nothing was logged."""
        if not self._lines:
            return None
        return msgspec.json.encode(_Stored(list(self._lines), self._dropped)).decode()


def line_of(at: int, level: str, logger: str, message: str) -> LogLine:
    """Cut, and fit for any database: no NUL, no lone surrogates."""
    return LogLine(at, _clean(level, NAME_LIMIT), _clean(logger, NAME_LIMIT), _clean(message, MESSAGE_LIMIT))


def stored_log(lines: Iterable[LogLine], dropped: int = 0) -> str | None:
    """The same of lines that come from elsewhere."""
    buffer = LogBuffer(dropped=dropped)
    for line in lines:
        buffer.add(line_of(line.at, line.level, line.logger, line.message))
    return buffer.stored()


def read_log(claim_version: int, stored: str) -> AttemptLog:
    """An empty one where a hand or another release wrote what nobody here can read."""
    try:
        log = msgspec.json.decode(stored, type=_Stored)
    except (msgspec.MsgspecError, UnicodeError):
        return AttemptLog(claim_version, [])
    return AttemptLog(claim_version, log.lines, log.dropped)


def _clean(text: str, limit: int) -> str:
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    return cut.replace("\x00", "").encode(errors="replace").decode()
