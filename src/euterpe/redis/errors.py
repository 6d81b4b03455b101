"""Errors of Redis: those that are waited out, those that say what it has lost, and what they mean for a caller."""

from __future__ import annotations

import asyncio
from typing import Final

from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    BusyLoadingError,
    MaxConnectionsError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)

from euterpe.model.errors import CommitUnknown, EuterpeError, ServerNotReady, StoreUnavailable

REDIS_ERRORS: Final = (RedisError, OSError, TimeoutError)


def raise_if_cancelled() -> None:
    """A cancellation in the middle of a command may get lost inside the driver; the task still knows of it."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def is_nogroup(error: BaseException) -> bool:
    """FLUSHALL, or a Redis that came back empty, takes the groups along; the next read makes them again."""
    return isinstance(error, ResponseError) and "NOGROUP" in str(error)


def unavailable(error: BaseException, *, wrote: bool, opening: bool = False) -> EuterpeError:
    """An error of Redis as what it means for a caller. `opening`: of a connection that was of no use yet; the server is
    perhaps about to start, or to end."""
    text = str(error)
    if (said := _meaning_of(error, text)) is not None:
        return said
    if isinstance(error, MaxConnectionsError):
        return StoreUnavailable("every connection to Redis is in use; raise redis.pool_size_multiplier")
    if "connecting to" in text or isinstance(error, ConnectionRefusedError):
        return ServerNotReady(f"Redis cannot be reached: {text}")
    if wrote:
        return CommitUnknown("the answer of Redis was lost; what was asked may have been done")
    kind = ServerNotReady if opening else StoreUnavailable
    return kind(f"Redis does not answer: {text or type(error).__name__}")


def _meaning_of(error: BaseException, text: str) -> EuterpeError | None:
    """What Redis answered. An error inside a script comes as text alone, its code somewhere in it."""
    if isinstance(error, BusyLoadingError):
        return ServerNotReady("Redis is loading its data; try again when it is done", "LOADING")
    if isinstance(error, ReadOnlyError) or "-READONLY" in text:
        return StoreUnavailable(
            "Redis is read-only: it is a replica, or its primary was moved; name the primary", "READONLY"
        )
    if isinstance(error, OutOfMemoryError) or "-OOM" in text:
        return StoreUnavailable(
            "Redis is out of memory (maxmemory) and refuses writes; nothing was written. Give it more, or prune", "OOM"
        )
    if isinstance(error, (AuthenticationError, AuthorizationError)):
        return StoreUnavailable(f"Redis refuses this user or password: {text}", "NOAUTH")
    return _refused(text) if isinstance(error, ResponseError) else None


def _refused(text: str) -> EuterpeError:
    code, _, rest = text.partition(" ")
    if code == "NOLIST":
        return StoreUnavailable(
            f"the Redis key {rest}; another program uses it. Rename or delete it, or configure another name",
            "WRONGTYPE",
        )
    if code == "WRONGTYPE":
        return StoreUnavailable(f"a key of this queue holds something else in Redis: {rest}", code)
    if "MISCONF" in text:
        return StoreUnavailable(f"Redis cannot save to its disk and refuses writes: {rest}", "MISCONF")
    return StoreUnavailable(f"Redis refuses: {text}", code)
