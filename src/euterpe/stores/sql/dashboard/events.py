"""Webhook events, newest first, by cursor: each state is its part of an index, and one page looks only so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from euterpe.model.events.outbox import OutboxEvent
from euterpe.model.reading.overview import LOOKED_AT, EventPage
from euterpe.stores.sql.program import Program, one

EVENT_STATES: Final = ("scheduled", "running", "retrying", "completed", "dead_letter")


def events_page(requester_id: str | None, states: Sequence[str], before: int, limit: int) -> Program[EventPage]:
    """Of one requester or of everybody. A page can be short, or empty, and its cursor still go on."""
    found: list[tuple[int, OutboxEvent]] = []
    floor = 0
    for state in states:
        edge = 0
        if requester_id is not None:
            rows = yield one("dashboard/events_edge", state=state, before=before, skip=LOOKED_AT)
            edge = rows[0][0] if rows else 0
        rows = yield one(
            "dashboard/events_page",
            state=state,
            before=before,
            down_to=edge,
            requester_id=requester_id,
            limit=limit + 1,
        )
        found += [(row[0], OutboxEvent(*list(row)[1:])) for row in rows]
        floor = max(floor, edge)
    found = sorted((pair for pair in found if pair[0] > floor), key=lambda pair: -pair[0])
    if len(found) > limit:
        return EventPage([event for _, event in found[:limit]], found[limit - 1][0])
    return EventPage([event for _, event in found], floor + 1 if floor else None)
