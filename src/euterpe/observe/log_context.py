"""Keys that every log line of ours carries while something is going on: the request that is being answered.

Here, and not with the logs: the API sets them and must not know who writes them down.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Final

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


def current_keys() -> Mapping[str, str]:
    return _keys.get()
