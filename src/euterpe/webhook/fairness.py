"""Whose events are claimed next: everybody's oldest first while all goes well, and by turns when it does not.

A requester whose receivers hang, or who has far more events than the others, comes after those who wait behind it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from typing import Final

from euterpe.model.errors import EuterpeError
from euterpe.model.events.outbox import OutboxEvent
from euterpe.ports import OutboxStore
from euterpe.webhook.endpoints import Endpoints, Receiver

REQUESTERS_SEEN: Final = 100
ALONE_S: Final = 0.25
"""How long it is believed that nobody else waits."""


class FairClaims:
    """Claims for one dispatcher."""

    def __init__(
        self,
        outbox: OutboxStore,
        endpoints: Endpoints,
        worker_id: str,
        lease_ttl_us: int,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._outbox = outbox
        self._endpoints = endpoints
        self._worker_id = worker_id
        self._lease_ttl_us = lease_ttl_us
        self._monotonic_s = monotonic_s
        self._last_served = ""
        self._alone_until = 0.0

    async def claim(self, want: int, held: Collection[Receiver] = ()) -> list[OutboxEvent]:
        """`held`: the receivers of events that were claimed before and still wait for a slot."""
        skip = list({*self._endpoints.crowded(), *held})
        events: list[OutboxEvent] = []
        try:
            for requester_id in await self._others_first(want):
                self._last_served = requester_id
                events += await self._outbox.claim(self._worker_id, 1, self._lease_ttl_us, skip, requester_id)
            if len(events) < want:
                events += await self._outbox.claim(self._worker_id, want - len(events), self._lease_ttl_us, skip)
        except EuterpeError:
            if not events:
                raise
        return events

    async def _others_first(self, want: int) -> Sequence[str]:
        """Requesters who wait behind those who come after others."""
        last = self._endpoints.after_others()
        if not last or not self._endpoints.takes_newcomers or self._monotonic_s() < self._alone_until:
            return ()
        waiting = await self._outbox.waiting_requesters(self._last_served, REQUESTERS_SEEN)
        if self._last_served and len(waiting) < REQUESTERS_SEEN:
            waiting += await self._outbox.waiting_requesters("", REQUESTERS_SEEN)
        others = [name for name in dict.fromkeys(waiting) if name not in last]
        self._endpoints.saw(others)
        if not others:
            self._endpoints.begin_round()
            self._alone_until = self._monotonic_s() + ALONE_S
        return others[:want]
