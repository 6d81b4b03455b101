"""Webhook events and their deliveries."""

from __future__ import annotations

import msgspec


class OutboxEvent(msgspec.Struct, frozen=True):
    """A row of `job_outbox_events`, in the order of `event_columns.sql`. Its id and body never change."""

    id: str
    job_id: str
    requester_id: str
    sequence: int
    type: str
    url: str
    origin: str
    body: bytes
    state: str
    attempt_count: int
    claim_version: int
    worker_id: str | None
    lease_expires_at: int | None
    run_at: int
    created_at: int
    updated_at: int
    completed_at: int | None
    error: str | None

    @property
    def receiver(self) -> tuple[str, str]:
        """A requester and the origin that it is called at."""
        return self.requester_id, self.origin


class OutboxBacklog(msgspec.Struct, frozen=True):
    """Events that are not delivered yet. `retrying`: those of them that were tried and wait for another try."""

    pending: int
    retrying: int


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """One POST and what came of it. `state` is completed, retrying or dead_letter."""

    event_id: str
    claim_version: int
    state: str
    outcome: str
    delay_us: int = 0
    refund: bool = False
    http_status: int | None = None
    answer: str | None = None
    error: str | None = None


class DeliveryRecord(msgspec.Struct, frozen=True):
    """A row of the delivery log."""

    claim_version: int
    attempt: int
    worker_id: str | None
    started_at: int
    ended_at: int
    outcome: str
    http_status: int | None
    answer: str | None
    error: str | None
