"""Keys that every log line carries while something is going on: the request that is answered, the job that runs.

Here, and not with the logs: the API and the worker set them and must not know who writes them down.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar, Token
from types import MappingProxyType
from typing import Final, Protocol

_NONE: Final[Mapping[str, str]] = MappingProxyType({})
_keys: ContextVar[Mapping[str, str]] = ContextVar("euterpe_log_keys", default=_NONE)


class logging_with:  # used like a function; as a generator it would cost every request twice as much
    """Inside the block, and in tasks begun there, our log lines carry these keys; those of a line itself win."""

    __slots__ = ("_added", "_token")
    _token: Token[Mapping[str, str]]

    def __init__(self, **keys: str) -> None:
        self._added = keys

    def __enter__(self) -> None:
        self._token = _keys.set({**_keys.get(), **self._added})

    def __exit__(self, *_: object) -> None:
        _keys.reset(self._token)


class LoggingAttempt(Protocol):
    """An attempt whose handler may log."""

    @property
    def job_id(self) -> str: ...

    @property
    def type(self) -> str: ...

    @property
    def queue(self) -> str: ...

    @property
    def attempt(self) -> int: ...

    def keep_line(self, at_us: int, level: str, logger: str, message: str) -> None:
        """Show it with this attempt."""
        ...


running_attempt: Final[ContextVar[LoggingAttempt | None]] = ContextVar("euterpe_running_attempt", default=None)
"""The attempt whose handler runs in this task or thread. Its keys are made when a line is written, which is rare."""


def current_keys() -> Mapping[str, str | int]:
    attempt = running_attempt.get()
    if attempt is None:
        return _keys.get()
    return {
        "job_id": attempt.job_id,
        "type": attempt.type,
        "queue": attempt.queue,
        "attempt": attempt.attempt,
        **_keys.get(),
    }
