"""When Redis does not answer, or has lost what we made there."""

from __future__ import annotations

import asyncio
import logging
import random
from typing import Any, Final

from redis.exceptions import RedisError, ResponseError

log = logging.getLogger("euterpe.transport")

TROUBLE: Final = (RedisError, OSError, TimeoutError)


class RedisOutage:
    """Redis does not answer: said once, tried again with growing pauses."""

    def __init__(self) -> None:
        self._failures = 0

    def again(self, error: BaseException) -> float:
        """Seconds until the next try."""
        if not self._failures:
            log.warning("Redis does not answer; polling goes on without it", exc_info=error)
        self._failures += 1
        return min(0.1 * 2.0 ** min(self._failures, 5), 2.0) * random.uniform(0.75, 1.25)

    def over(self) -> None:
        if self._failures:
            log.warning("Redis answers again after %d failures", self._failures)
            self._failures = 0


def heed_cancellation() -> None:
    """A cancellation in the middle of a command may get lost inside the driver; the task still knows of it."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def is_nogroup(error: Any) -> bool:
    """FLUSHALL, or a Redis that came back empty, takes the groups along; the next read makes them again."""
    return isinstance(error, ResponseError) and "NOGROUP" in str(error)
