"""Events that a dispatcher claimed beyond its free slots: they go out as slots become free, without another claim.

Only receivers that have proved themselves are waited for, and nothing waits for long: another dispatcher may have a
slot for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from typing import Final

from euterpe.model.events.outbox import OutboxEvent

HELD_AT_MOST_S: Final = 2.0


class Prefetched:
    """Oldest claim first. One loop owns this; it has no lock."""

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        self._monotonic_s = monotonic_s
        self._held: deque[tuple[float, OutboxEvent]] = deque()

    def __len__(self) -> int:
        return len(self._held)

    def add(self, event: OutboxEvent) -> None:
        self._held.append((self._monotonic_s(), event))

    def receivers(self) -> set[tuple[str, str]]:
        return {event.receiver for _, event in self._held}

    def in_turn(self, after_others: Collection[str]) -> list[OutboxEvent]:
        """Those of requesters who come after others come last."""
        return sorted((event for _, event in self._held), key=lambda event: event.requester_id in after_others)

    def remove(self, event: OutboxEvent) -> None:
        self._held = deque(pair for pair in self._held if pair[1] is not event)

    def overdue(self) -> list[OutboxEvent]:
        """Take out what has waited long enough."""
        limit = self._monotonic_s() - HELD_AT_MOST_S
        found = []
        while self._held and self._held[0][0] <= limit:
            found.append(self._held.popleft()[1])
        return found

    def beyond(self, count: int) -> list[OutboxEvent]:
        """Take out the latest, until so many are left."""
        return [self._held.pop()[1] for _ in range(len(self._held) - count)]
