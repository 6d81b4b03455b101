"""Events under the same protocol as jobs: claim, lease, heartbeat, reclaim, fencing by claim_version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from euterpe.model.claims.heartbeat_turns import HeartbeatTurns
from euterpe.model.errors import JobNotFound
from euterpe.model.events.outbox import Delivery, DeliveryRecord, OutboxBacklog, OutboxEvent
from euterpe.model.submitting.batch import as_stored
from euterpe.stores.sql.program import Program, each, one

_BODY: Final = OutboxEvent.__struct_fields__.index("body")
UNDELIVERED: Final = frozenset({"scheduled", "running", "retrying"})


def claim_events(
    worker_id: str,
    limit: int,
    lease_ttl_us: int,
    skip: Sequence[tuple[str, str]] = (),
    requester_id: str | None = None,
) -> Program[list[OutboxEvent]]:
    """Due events, oldest first; of each job only the first undelivered one, so that order holds."""
    arguments = {
        "worker_id": worker_id,
        "limit": limit,
        "lease_ttl_us": lease_ttl_us,
        "skip": [f"{requester} {origin}" for requester, origin in skip],
    }
    if requester_id is None:
        rows = yield one("claim_events", **arguments)
    else:
        rows = yield one("claim_events_of", requester_id=requester_id, **arguments)
    return sorted((OutboxEvent(*row) for row in rows), key=lambda e: (e.run_at, e.created_at, e.sequence))


def waiting_requesters(after: str, limit: int) -> Program[list[str]]:
    """Who has events that are due, from this name on."""
    rows = yield one("waiting_requesters", after=after, limit=limit)
    return [row[0] for row in rows]


def heartbeat_events(leases: Sequence[tuple[str, int]], lease_ttl_us: int) -> Program[set[str]]:
    """Renew; returns the ids that are still ours."""
    if not leases:
        return set()
    rows = yield each(
        "heartbeat_event",
        id=[event_id for event_id, _ in leases],
        claim_version=[version for _, version in leases],
        lease_ttl_us=[lease_ttl_us] * len(leases),
    )
    return {row[0] for row in rows}


def settle_events(deliveries: Sequence[Delivery]) -> Program[set[str]]:
    """End deliveries and log them; returns the ids whose claim still owned the event."""
    deliveries = list({(d.event_id, d.claim_version): d for d in reversed(deliveries)}.values())[::-1]
    if not deliveries:
        return set()
    rows = yield each(
        "settle_event",
        id=[d.event_id for d in deliveries],
        claim_version=[d.claim_version for d in deliveries],
        state=[d.state for d in deliveries],
        error=[d.error for d in deliveries],
        delay_us=[d.delay_us for d in deliveries],
        refund=[int(d.refund) for d in deliveries],
    )
    accepted = {(row[0], row[1]) for row in rows}
    logged = [d for d in deliveries if (d.event_id, d.claim_version) in accepted]
    if logged:
        yield each(
            "log_delivery",
            id=[d.event_id for d in logged],
            refund=[int(d.refund) for d in logged],
            outcome=[d.outcome for d in logged],
            http_status=[d.http_status for d in logged],
            answer=[d.answer for d in logged],
            error=[d.error for d in logged],
        )
    return {event_id for event_id, _ in accepted}


def reclaim_events(limit: int, turns: HeartbeatTurns | None) -> Program[int]:
    """Deliveries whose dispatcher stopped renewing are tried again at once; the receiver may see the event twice."""
    rows = yield one("expired_event_leases", limit=limit)
    lost = [OutboxEvent(*row) for row in rows] if turns is None or turns.had() else []
    again = [
        Delivery(
            event_id=e.id,
            claim_version=e.claim_version,
            state="retrying",
            outcome="lost_lease",
            error="the dispatcher stopped renewing its lease",
        )
        for e in lost
    ]
    return len((yield from settle_events(again)))


def has_waiting() -> Program[bool]:
    rows = yield one("next_event_due")
    return rows[0][0] is not None


def redeliver(event_id: str, requester_id: str | None) -> Program[OutboxEvent]:
    stored_id = as_stored(event_id)
    rows = (yield one("redeliver_event", id=stored_id, requester_id=requester_id)) if stored_id else []
    if not rows:
        raise JobNotFound(event_id, f"no event {event_id} that could be sent again")
    return OutboxEvent(*rows[0])


def get_event(event_id: str) -> Program[OutboxEvent]:
    stored_id = as_stored(event_id)
    rows = (yield one("get_event", id=stored_id)) if stored_id else []
    if not rows:
        raise JobNotFound(event_id, f"no event {event_id}")
    return OutboxEvent(*rows[0])


def search_events(
    requester_id: str | None, state: str | None, job_id: str | None, before: int, limit: int
) -> Program[list[tuple[int, OutboxEvent]]]:
    """(cursor, event) pairs, newest first. Their bodies stay where they are; `get_event` has one."""
    rows = yield one("search_events", requester_id=requester_id, state=state, job_id=job_id, before=before, limit=limit)
    return [(row[0], _without_body(list(row)[1:])) for row in rows]


def _without_body(values: list[Any]) -> OutboxEvent:
    values[_BODY] = b""
    return OutboxEvent(*values)


def deliveries(event_id: str) -> Program[list[DeliveryRecord]]:
    stored_id = as_stored(event_id)
    rows = (yield one("deliveries", id=stored_id)) if stored_id else []
    return [DeliveryRecord(*row) for row in rows]


def depth() -> Program[OutboxBacklog]:
    counts = {row[0]: row[1] for row in (yield one("outbox_depth"))}
    return OutboxBacklog(sum(counts.get(state, 0) for state in UNDELIVERED), counts.get("retrying", 0))
