"""Wake-ups of Redis lists: a worker that has nothing to do waits at the lists' tokens.

Whoever puts a job into a list leaves a token beside it. One waiting worker takes it and looks. What another program
puts there has no token, and is found when the wait ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from typing import Final

from euterpe.redis.outage import TROUBLE, RedisOutage, heed_cancellation
from euterpe.redis.pipelined import PipelinedRedis
from euterpe.redis.settings import RedisTuning
from euterpe.wakeups.local import LocalWakeups

REST_S: Final = 0.002
"""After a token: the worker it woke finds what comes meanwhile by itself."""


class TokenWakeups:
    """Callbacks in the process, and tokens in Redis for those that come from elsewhere."""

    def __init__(
        self, url: str, tuning: RedisTuning, lists_of: Callable[[str], tuple[str, ...]], wait_s: float
    ) -> None:
        self._url = url
        self._tuning = tuning
        self._lists_of = lists_of
        self._wait_s = wait_s
        self._local = LocalWakeups()
        self._waiting: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Nothing waits before somebody subscribes."""

    async def close(self) -> None:
        for task in self._waiting:
            task.cancel()
        if self._waiting:
            await asyncio.wait(self._waiting)

    def announce(self, queues: Iterable[str]) -> None:
        """Those of this process. The scripts that write jobs leave tokens for the others."""
        self._local.announce({name for queue in queues for name in self._lists_of(queue)})

    def subscribe(self, wake: Callable[[], None], queues: Collection[str]) -> Callable[[], None]:
        lists = list(dict.fromkeys(name for queue in queues for name in self._lists_of(queue)))
        unsubscribe = self._local.subscribe(wake, lists)
        task = asyncio.get_running_loop().create_task(self._wait(wake, lists))
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

        def stop() -> None:
            unsubscribe()
            task.cancel()

        return stop

    async def _wait(self, wake: Callable[[], None], lists: list[str]) -> None:
        """A list is waited at for so long; then the worker looks by itself, as it would without tokens."""
        client = PipelinedRedis(self._url, self._tuning)
        outage = RedisOutage()
        tokens = [f"{name}:wake" for name in lists]
        try:
            while True:
                try:
                    await client.execute("BLPOP", *tokens, repr(self._wait_s), wait_s=self._wait_s)
                except TROUBLE as error:
                    heed_cancellation()
                    await asyncio.sleep(outage.again(error))
                    continue
                heed_cancellation()
                outage.over()
                wake()
                await asyncio.sleep(REST_S)
        finally:
            await client.close()
