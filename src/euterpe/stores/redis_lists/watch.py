"""Watches lists for jobs of other programs while workers of this process wait.

Our own submits leave a token for a waiting worker; another program's LPUSH leaves none. So a look at the lists on one
connection has Redis tell of their next change (CLIENT TRACKING), and a second look leaves the missing tokens. It moves
no job: a process that dies here loses none, and claims alone decide by priority and pauses.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence
from typing import Final

from redis.exceptions import RedisError, ResponseError

from euterpe.model.errors import EuterpeError
from euterpe.redis.pipelined import PipelinedRedis
from euterpe.redis.settings import RedisTuning
from euterpe.stores.redis_lists.commands import WAKE
from euterpe.stores.redis_lists.scripts import RedisScripts

log = logging.getLogger("euterpe.store")

PAUSE_S: Final = 0.005
"""Before a look. Most changes are our own submits, and their claim is then over; many changes are one look."""


class ListWatch:
    """Looks only while a worker waits: a worker that is busy claims without being woken."""

    def __init__(self, url: str, tuning: RedisTuning, scripts: RedisScripts) -> None:
        self._scripts = scripts
        self._connection = PipelinedRedis(url, tuning, self._on_change)
        self._waiting: dict[str, Collection[str]] = {}
        self._watched: set[str] = set()
        """Lists whose next change Redis tells."""
        self._alarm: asyncio.TimerHandle | None = None
        self._looking: asyncio.Task[None] | None = None
        self._is_refused = False

    def begin(self, worker_id: str, lists: Collection[str]) -> None:
        self._waiting[worker_id] = lists
        if not self._watched.issuperset(lists):
            self._look_soon()

    def end(self, worker_id: str) -> None:
        self._waiting.pop(worker_id, None)

    async def close(self) -> None:
        self._waiting.clear()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait({self._looking})
        await self._connection.close()

    def _on_change(self, keys: Sequence[bytes] | None) -> None:
        if keys is None:
            self._watched.clear()
        else:
            self._watched.difference_update(key.decode() for key in keys)
        self._look_soon()

    def _look_soon(self) -> None:
        if self._waiting and self._alarm is None and self._looking is None and not self._is_refused:
            self._alarm = asyncio.get_running_loop().call_later(PAUSE_S, self._look)

    def _look(self) -> None:
        self._alarm = None
        lists = {name for waited in self._waiting.values() for name in waited} - self._watched
        if lists:
            self._looking = asyncio.get_running_loop().create_task(self._look_at(lists))

    async def _look_at(self, lists: set[str]) -> None:
        self._watched |= lists
        try:
            if await self._connection.execute("EXISTS", *lists):
                await self._scripts.run(WAKE, *lists)
        except (RedisError, OSError, EuterpeError) as error:
            # The claim behind each wait finds what no look finds, and the next wait looks again.
            self._watched.clear()
            if isinstance(error, ResponseError) or "NOPERM" in str(error):
                self._is_refused = True
                log.warning(
                    "Redis refuses CLIENT TRACKING: jobs of other programs start within worker.brpoplpush_timeout",
                    extra={"error_code": type(error).__name__},
                )
            return
        finally:
            self._looking = None
        if not all(self._watched.issuperset(waited) for waited in self._waiting.values()):
            self._look_soon()
