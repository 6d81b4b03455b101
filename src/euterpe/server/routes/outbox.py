"""Webhook events as their requester sees them: what is waiting, what was sent, and `send it again`."""

from __future__ import annotations

import msgspec

from euterpe.model.errors import JobNotFound
from euterpe.model.events.outbox import DeliveryRecord, OutboxEvent
from euterpe.model.reading.document import rfc3339
from euterpe.ports import OutboxStore
from euterpe.server.http.asgi import Answer, Request
from euterpe.server.routes.jobs import requester_asked_for
from euterpe.server.routes.submissions import job_id_of
from euterpe.wire.jobs import (
    DeliveryDocument,
    NoInput,
    OutboxEventDetail,
    OutboxEventDocument,
    OutboxPage,
    OutboxQuery,
    RequesterScope,
)


class OutboxRoutes:
    """Handlers over the outbox."""

    def __init__(self, outbox: OutboxStore) -> None:
        self._outbox = outbox

    async def search(self, request: Request, query: OutboxQuery) -> Answer:
        job_id = None
        if query.job_id is not None:
            job_id = job_id_of(query.job_id)
            if job_id is None:
                return Answer(200, msgspec.json.encode(OutboxPage([], None)))
        found = await self._outbox.search(
            requester_id=requester_asked_for(request, query),
            state=query.state,
            job_id=job_id,
            before=2**62 if query.cursor is None else int(query.cursor),
            limit=query.limit + 1,
        )
        page = found[: query.limit]
        cursor = str(page[-1][0]) if len(found) > query.limit else None
        return Answer(200, msgspec.json.encode(OutboxPage([_document(event) for _, event in page], cursor)))

    async def get(self, request: Request, whose: RequesterScope) -> Answer:
        event_id = _event_id(request)
        event = await self._outbox.get(event_id)
        requester_id = requester_asked_for(request, whose)
        if requester_id is not None and event.requester_id != requester_id:
            raise _no_event(event_id)
        log = await self._outbox.deliveries(event_id)
        detail = OutboxEventDetail(
            event=_document(event), body=msgspec.Raw(event.body), deliveries=[_delivery(record) for record in log]
        )
        return Answer(200, msgspec.json.encode(detail))

    async def redeliver(self, request: Request, _: NoInput) -> Answer:
        event = await self._outbox.redeliver(_event_id(request), request.identity.requester_id)
        return Answer(202, msgspec.json.encode(_document(event)))


def _event_id(request: Request) -> str:
    text = request.parameters["event_id"]
    event_id = job_id_of(text)
    if event_id is None:
        raise _no_event(text[:100])
    return event_id


def _no_event(event_id: str) -> JobNotFound:
    return JobNotFound(event_id, f"no event {event_id}")


def _document(event: OutboxEvent) -> OutboxEventDocument:
    waits = event.state in ("scheduled", "retrying")
    return OutboxEventDocument(
        event_id=event.id,
        job_id=event.job_id,
        type=event.type,
        sequence=event.sequence,
        url=event.url,
        state=event.state,  # type: ignore[arg-type]  # a CHECK of the table holds it to these words
        attempts=event.attempt_count,
        created_at=rfc3339(event.created_at) or "",
        next_attempt_at=rfc3339(event.run_at) if waits else None,
        completed_at=rfc3339(event.completed_at),
        error=event.error,
    )


def _delivery(record: DeliveryRecord) -> DeliveryDocument:
    return DeliveryDocument(
        attempt=record.attempt,
        worker_id=record.worker_id,
        started_at=rfc3339(record.started_at) or "",
        ended_at=rfc3339(record.ended_at) or "",
        outcome=record.outcome,
        http_status=record.http_status,
        answer=record.answer,
        error=record.error,
    )
