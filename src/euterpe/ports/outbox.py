"""Webhook events, owned by the same protocol as jobs: claim, lease, heartbeat, fenced settle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from euterpe.model.claims.exchange import LEASE_TTL_US

if TYPE_CHECKING:  # A port is its signatures alone; whoever makes a value loads it.
    from euterpe.model.events.outbox import Delivery, DeliveryRecord, OutboxBacklog, OutboxEvent


class OutboxStore(Protocol):
    """Events of all requesters. Every write is fenced by (event_id, claim_version)."""

    async def claim(
        self,
        worker_id: str,
        limit: int,
        lease_ttl_us: int = LEASE_TTL_US,
        skip: Sequence[tuple[str, str]] = (),
        requester_id: str | None = None,
    ) -> list[OutboxEvent]:
        """Due events, oldest first, of everybody or of one requester; of each job only its first undelivered one.
        `skip`: receivers, as requester and origin, for which none are taken."""
        ...

    async def heartbeat(self, leases: Sequence[tuple[str, int]], lease_ttl_us: int = LEASE_TTL_US) -> set[str]:
        """Renew (event_id, claim_version) pairs; returns the ids that are still the caller's."""
        ...

    async def settle(self, deliveries: Sequence[Delivery]) -> set[str]:
        """Write what came of sends; returns the ids that were still the caller's."""
        ...

    async def waiting_requesters(self, after: str = "", limit: int = 100) -> list[str]:
        """Who has events that are due, by name, from `after` on."""
        ...

    async def has_waiting(self) -> bool:
        """Whether any event waits for its delivery, now or later."""
        ...

    async def depth(self) -> OutboxBacklog:
        """How many events wait for their delivery, or are being delivered."""
        ...

    async def get(self, event_id: str) -> OutboxEvent: ...

    async def search(
        self,
        requester_id: str | None = None,
        state: str | None = None,
        job_id: str | None = None,
        before: int = 2**62,
        limit: int = 50,
    ) -> list[tuple[int, OutboxEvent]]:
        """Newest first, each with its place for the next page's `before`."""
        ...

    async def deliveries(self, event_id: str) -> list[DeliveryRecord]:
        """Every POST of an event and what came of it."""
        ...

    async def redeliver(self, event_id: str, requester_id: str | None = None) -> OutboxEvent:
        """Send a delivered or dead event once more."""
        ...
