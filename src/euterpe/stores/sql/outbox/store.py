"""The outbox face of the store: events owned by the same protocol as jobs."""

from __future__ import annotations

from collections.abc import Sequence

from euterpe.model.claims.exchange import LEASE_TTL_US
from euterpe.model.events.outbox import Delivery, DeliveryRecord, OutboxBacklog, OutboxEvent
from euterpe.stores.sql.engine import Engine
from euterpe.stores.sql.outbox import events


class Outbox:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def claim(
        self,
        worker_id: str,
        limit: int,
        lease_ttl_us: int = LEASE_TTL_US,
        skip: Sequence[tuple[str, str]] = (),
        requester_id: str | None = None,
    ) -> list[OutboxEvent]:
        """Of everybody's, or of one requester's."""
        return await self._engine.write(lambda: events.claim_events(worker_id, limit, lease_ttl_us, skip, requester_id))

    async def waiting_requesters(self, after: str = "", limit: int = 100) -> list[str]:
        return await self._engine.read(lambda: events.waiting_requesters(after, limit))

    async def heartbeat(self, leases: Sequence[tuple[str, int]], lease_ttl_us: int = LEASE_TTL_US) -> set[str]:
        """(event_id, claim_version) pairs; returns the ids that are still ours."""
        return await self._engine.write(lambda: events.heartbeat_events(leases, lease_ttl_us))

    async def settle(self, deliveries: Sequence[Delivery]) -> set[str]:
        return await self._engine.write(lambda: events.settle_events(deliveries))

    async def redeliver(self, event_id: str, requester_id: str | None = None) -> OutboxEvent:
        return await self._engine.write(lambda: events.redeliver(event_id, requester_id))

    async def has_waiting(self) -> bool:
        """Whether any event waits for its delivery, now or later: one look at the index of due events."""
        return await self._engine.read(events.has_waiting)

    async def get(self, event_id: str) -> OutboxEvent:
        return await self._engine.read(lambda: events.get_event(event_id))

    async def search(
        self,
        requester_id: str | None = None,
        state: str | None = None,
        job_id: str | None = None,
        before: int = 2**62,
        limit: int = 50,
    ) -> list[tuple[int, OutboxEvent]]:
        return await self._engine.read(lambda: events.search_events(requester_id, state, job_id, before, limit))

    async def deliveries(self, event_id: str) -> list[DeliveryRecord]:
        return await self._engine.read(lambda: events.deliveries(event_id))

    async def depth(self) -> OutboxBacklog:
        return await self._engine.read(events.depth)
