"""Wake-ups inside one process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from typing import Final

from euterpe.ports import OPERATIONS_CHANNEL

OPERATIONS_ALONE: Final = frozenset({OPERATIONS_CHANNEL})


class LocalWakeups:
    """Callbacks by queue. Safe to announce from any thread; a callback runs on the loop that subscribed it."""

    def __init__(self) -> None:
        self._listeners: list[tuple[frozenset[str], asyncio.AbstractEventLoop, Callable[[], None]]] = []

    async def open(self) -> None:
        return None

    async def close(self) -> None:
        return None

    def announce(self, queues: Iterable[str]) -> None:
        named = frozenset(queues)
        for wanted, loop, wake in self._listeners:
            if wanted & named:
                _call(loop, wake)

    def announce_any(self) -> None:
        """Something changed and nobody knows where. Operations are rare and every process that takes orders works on
        them itself: who waits for nothing else is left alone."""
        for wanted, loop, wake in self._listeners:
            if wanted != OPERATIONS_ALONE:
                _call(loop, wake)

    def announce_here(self, queue: str) -> bool:
        """Tell those of this very loop; whether that was everyone."""
        here = asyncio.get_running_loop()
        listeners = [(loop, wake) for wanted, loop, wake in self._listeners if queue in wanted]
        for loop, wake in listeners:
            if loop is here:
                wake()
        return all(loop is here for loop, _ in listeners)

    def has_listeners(self, queue: str) -> bool:
        return any(queue in wanted for wanted, _, _ in self._listeners)

    def subscribe(self, wake: Callable[[], None], queues: Collection[str]) -> Callable[[], None]:
        entry = (frozenset(queues), asyncio.get_running_loop(), wake)
        self._listeners = [*self._listeners, entry]

        def unsubscribe() -> None:
            self._listeners = [e for e in self._listeners if e is not entry]

        return unsubscribe


def _call(loop: asyncio.AbstractEventLoop, wake: Callable[[], None]) -> None:
    try:
        here = asyncio.get_running_loop() is loop
    except RuntimeError:
        here = False
    if here:
        wake()
    elif not loop.is_closed():
        loop.call_soon_threadsafe(wake)
