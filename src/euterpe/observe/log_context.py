"""Keys that every log line carries while something is going on: the request that is answered, the job that runs.

Here, and not with the logs: the API and the worker set them and must not know who writes them down.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Final, Protocol

_NONE: Final[Mapping[str, str]] = MappingProxyType({})
_keys: ContextVar[Mapping[str, str]] = ContextVar("euterpe_log_keys", default=_NONE)


@contextmanager
def logging_with(**keys: str) -> Iterator[None]:
    """Inside the block, and in tasks begun there, our log lines carry these keys; those of a line itself win."""
    token = _keys.set({**_keys.get(), **keys})
    try:
        yield
    finally:
        _keys.reset(token)


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
