"""Webhook events and what came of each POST; one that is over can be sent again."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from typing import Final
from urllib.parse import urlencode

import msgspec

from euterpe.dashboard.layout import JOBS, PageFrame, act, empty, grid, heading, notice, panel
from euterpe.dashboard.page_server import Form, PageServer
from euterpe.dashboard.parts import html as h
from euterpe.dashboard.parts.formatting import duration, moment, number, short_id, shown_url
from euterpe.dashboard.parts.html import Child, Html, joined
from euterpe.dashboard.parts.tree import json_tree
from euterpe.dashboard.sign_in import Visitor
from euterpe.model.errors import JobNotFound
from euterpe.model.events.outbox import DeliveryRecord, OutboxEvent
from euterpe.model.reading.overview import EventPage
from euterpe.ports import OUTBOX_CHANNEL, DashboardReads, Store, Wakeups
from euterpe.server.http.asgi import Answer, Request
from euterpe.server.routes.submissions import job_id_of

WEBHOOKS: Final = "/dashboard/webhooks"
PAGE: Final = 50
SIGNS: Final = {"scheduled": "○", "running": "▶", "retrying": "↻", "completed": "✓", "dead_letter": "†"}
WORDS: Final = {"scheduled": "waiting", "running": "being sent", "completed": "delivered", "dead_letter": "dead letter"}
SAID: Final = {"redelivered": "The event will be sent once more."}
_PLACE: Final = re.compile(r"[0-9]{1,18}", re.ASCII)
AGAIN: Final = frozenset({"completed", "dead_letter", "retrying"})
"""States in which an event can be sent again."""


class WebhooksQuery(msgspec.Struct, frozen=True):
    """What the address of the table says."""

    state: str | None = None
    before: str | None = None
    said: str | None = None


class WebhookPages:
    """The table, one event, and its redelivery."""

    def __init__(self, server: PageServer, store: Store, reads: DashboardReads, wakeups: Wakeups) -> None:
        self._server = server
        self._store = store
        self._reads = reads
        self._wakeups = wakeups

    async def many(self, visitor: Visitor, said: WebhooksQuery, _: Request) -> PageFrame:
        state = said.state if said.state in SIGNS else None
        before = int(said.before) if said.before and _PLACE.fullmatch(said.before) else None
        found, now = await asyncio.gather(self._reads.events(visitor.sees, state, before, PAGE), self._store.now_us())
        body = joined(heading("Webhooks"), _states(state), _failing(found.events), _found(found, state, before, now))
        return PageFrame("Webhooks", body, WEBHOOKS)

    async def one(self, visitor: Visitor, said: WebhooksQuery, request: Request) -> PageFrame:
        event = await self._visible(visitor, request)
        log, now = await asyncio.gather(self._store.outbox.deliveries(event.id), self._store.now_us())
        body = joined(
            heading(event.type, state_of(event), h.code(event.id)),
            notice(said.said, SAID),
            h.div(_again(visitor, event), class_="acts"),
            h.div(
                h.div(_deliveries(log, now), panel("Body", json_tree(event.body, ""))),
                h.div(_facts(event, now)),
                class_="columns",
            ),
        )
        return PageFrame(f"{event.type} {short_id(event.id)}", body, WEBHOOKS)

    async def redeliver(self, request: Request, said: Form) -> Answer:
        async def do(visitor: Visitor) -> str:
            event = await self._visible(visitor, request)
            await self._store.outbox.redeliver(event.id, visitor.sees)
            self._wakeups.announce([OUTBOX_CHANNEL])
            return f"{WEBHOOKS}/{event.id}?said=redelivered"

        return await self._server.act(request, said.csrf, do)

    async def _visible(self, visitor: Visitor, request: Request) -> OutboxEvent:
        said = request.parameters["event_id"]
        event_id = job_id_of(said)
        event = None if event_id is None else await self._store.outbox.get(event_id)
        if event is None or visitor.sees not in (None, event.requester_id):
            raise JobNotFound(said[:100], f"no event {said[:100]}")
        return event


def state_of(event: OutboxEvent) -> Html:
    kind = "scheduled" if event.state == "scheduled" else event.state
    sign = h.span(SIGNS[event.state], class_="sign", aria_hidden="true")
    return h.span(sign, WORDS.get(event.state, event.state), class_=f"state s-{kind}")


def _address(state: str | None, before: int | None = None) -> str:
    said = {name: value for name, value in (("state", state), ("before", before)) if value}
    return f"{WEBHOOKS}?{urlencode(said)}" if said else WEBHOOKS


def _states(chosen: str | None) -> Html:
    links = [h.li(h.a("any state", href=WEBHOOKS, aria_current=None if chosen else "true"))]
    for state, sign in SIGNS.items():
        told = joined(h.span(sign, class_="sign", aria_hidden="true"), WORDS.get(state, state))
        here = "true" if state == chosen else None
        links.append(h.li(h.a(told, href=_address(state), aria_current=here, class_=f"s-{state}")))
    return h.nav(h.ul(links), class_="states", aria_label="By state")


def _failing(events: list[OutboxEvent]) -> Html | None:
    """Receivers whose events on this page went wrong, worst first."""
    worst = Counter(event.origin for event in events if event.state in ("retrying", "dead_letter"))
    if not worst:
        return None
    told = ", ".join(f"{origin} ({number(count)})" for origin, count in worst.most_common(3))
    return h.p(f"Receivers that fail most on this page: {told}.", class_="soft")


def _found(found: EventPage, state: str | None, before: int | None, now: int) -> Html:
    if not found.events and found.before is None:
        if state or before:
            return empty("No event matches. ", h.a("Show all", href=WEBHOOKS))
        return empty(
            "No job has asked for webhooks yet. Submit one with ",
            h.code("callback_url"),
            " and its changes are sent there.",
        )
    rows = [
        h.tr(
            h.td(state_of(event)),
            h.td(h.a(event.type, href=f"{WEBHOOKS}/{event.id}", class_="row-link")),
            h.td(h.a(h.code(short_id(event.job_id)), href=f"{JOBS}/{event.job_id}", title=event.job_id)),
            h.td(event.requester_id, class_="name"),
            h.td(h.code(shown_url(event.url)), class_="name"),
            h.td(number(event.attempt_count), class_="num"),
            h.td(moment(event.created_at, now), class_="num"),
            h.td(event.error, class_="name"),
            id=f"e-{event.id}",
        )
        for event in found.events
    ]
    columns: list[Child] = ["State", "Event", "Job", "Requester", "Receiver", "Tries", "Created", "Error"]
    return joined(
        grid(columns, rows, "Webhook events, newest first") if rows else empty("None among those looked at; go on."),
        h.nav(
            h.a("‹ Newest", href=_address(state)) if before else None,
            h.a("Older ›", href=_address(state, found.before), rel="next") if found.before else None,
            class_="pages",
            aria_label="Pages of the table",
        ),
    )


def _again(visitor: Visitor, event: OutboxEvent) -> Html | None:
    return act(visitor, f"{WEBHOOKS}/{event.id}/redeliver", "Send again") if event.state in AGAIN else None


def _deliveries(log: list[DeliveryRecord], now: int) -> Html:
    if not log:
        return panel("Deliveries", empty("It has not been sent yet."))
    rows = [
        h.tr(
            h.td(number(record.attempt), class_="num"),
            h.td(record.outcome.replace("_", " ")),
            h.td("–" if record.http_status is None else str(record.http_status), class_="num"),
            h.td(duration(max(0, record.ended_at - record.started_at)), class_="num"),
            h.td(moment(record.started_at, now), class_="num"),
            h.td(record.error or record.answer, class_="name"),
        )
        for record in log
    ]
    columns: list[Child] = ["Try", "Outcome", "Status", "Took", "When", "Answer"]
    return panel("Deliveries", grid(columns, rows, "Deliveries"))


def _facts(event: OutboxEvent, now: int) -> Html:
    facts: list[tuple[str, Child]] = [
        ("Job", h.a(h.code(event.job_id), href=f"{JOBS}/{event.job_id}")),
        ("Requester", event.requester_id),
        ("Receiver", h.code(shown_url(event.url))),
        ("Sequence", event.sequence),
        ("Created", moment(event.created_at, now)),
        ("Next try", moment(event.run_at, now) if event.state in ("scheduled", "retrying") else None),
        ("Done", moment(event.completed_at, now)),
        ("Error", event.error),
    ]
    rows = [joined(h.dt(name), h.dd(value)) for name, value in facts if value not in (None, "")]
    return panel("Facts", h.dl(rows, class_="facts"))
