"""Errors of Redis: those that are waited out, and those that say what it has lost."""

from __future__ import annotations

import asyncio
from typing import Final

from redis.exceptions import RedisError, ResponseError

REDIS_ERRORS: Final = (RedisError, OSError, TimeoutError)


def raise_if_cancelled() -> None:
    """A cancellation in the middle of a command may get lost inside the driver; the task still knows of it."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def is_nogroup(error: BaseException) -> bool:
    """FLUSHALL, or a Redis that came back empty, takes the groups along; the next read makes them again."""
    return isinstance(error, ResponseError) and "NOGROUP" in str(error)
