"""The words about workers over HTTP: who is alive."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from euterpe.model.claims.presence import LISTED, BreakerState, LiveWorker, Presence, TrippedBreaker, WorkerFacts
from euterpe.model.reading.document import rfc3339
from euterpe.wire.jobs import Timestamp
from euterpe.wire.worker import Registration

SECOND_US: Final = 1_000_000


class WorkersQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many at most."""

    limit: Annotated[int, Meta(ge=1, le=LISTED)] = LISTED


class BreakerDocument(msgspec.Struct, frozen=True):
    """A circuit breaker of a job type that is not closed. `requester` null: it is open for everybody; `place`: for what
    this requester has there alone. `until`: when it lets one job through."""

    queue: str
    type: str
    requester: str | None
    place: str | None
    state: Literal["open", "half_open"]
    until: Timestamp | None


class WorkerDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A worker that was heard of lately. What is null is not known; `types` null: it takes what it is given."""

    worker_id: str
    queues: list[str]
    types: list[str] | None
    slots: int | None
    running: int | None
    host: str | None
    pid: int | None
    version: str | None
    stopping: bool
    answers: Annotated[
        bool,
        Meta(description="False: it is silent since `seen_at`, and the leases of its jobs are renewed all the same"),
    ] = True
    blocked: Annotated[str | None, Meta(description="What blocks its event loop: job type, file and line")] = None
    breakers: list[BreakerDocument]
    started_at: Timestamp
    seen_at: Timestamp


class WorkersDocument(msgspec.Struct, frozen=True):
    """Who is alive, by name."""

    workers: list[WorkerDocument]


def worker_document(worker: LiveWorker) -> WorkerDocument:
    facts = worker.facts
    return WorkerDocument(
        worker_id=worker.worker_id,
        queues=list(facts.queues),
        types=None if facts.types is None else list(facts.types),
        slots=facts.slots,
        running=facts.running,
        host=facts.host,
        pid=facts.pid,
        version=facts.version,
        stopping=facts.stopping,
        answers=worker.answers,
        blocked=facts.blocked,
        breakers=[
            BreakerDocument(
                b.queue, b.type, b.requester, b.place, b.state.value, rfc3339(worker.seen_at + b.retry_in_us)
            )
            for b in facts.breakers
        ],
        started_at=rfc3339(worker.started_at) or "",
        seen_at=rfc3339(worker.seen_at) or "",
    )


def presence_of(worker_id: str, registration: Registration) -> Presence:
    """What a worker reports about itself in an exchange."""
    breakers = tuple(
        TrippedBreaker(
            b.queue, b.type, BreakerState(b.state), round(b.retry_in_seconds * SECOND_US), b.requester, b.place
        )
        for b in registration.breakers
    )
    up_us = round(registration.up_seconds * SECOND_US)
    return Presence(worker_id=worker_id, facts=facts_of(registration, breakers), up_us=up_us)


def facts_of(told: Registration | WorkerDocument, breakers: tuple[TrippedBreaker, ...]) -> WorkerFacts:
    """What both say alike; when a breaker lets a job through, each says in its own way."""
    return WorkerFacts(
        queues=tuple(told.queues),
        types=None if told.types is None else tuple(told.types),
        slots=told.slots,
        running=told.running,
        host=told.host,
        pid=told.pid,
        version=told.version,
        stopping=told.stopping,
        blocked=told.blocked,
        breakers=breakers,
    )


WORKERS_EXAMPLE: Final[dict[str, Any]] = {
    "workers": [
        {
            "worker_id": "web-1:6a1f1c7e-4a77-4c0f-9d77-0f3a4b1c2d3e",
            "queues": ["default"],
            "types": ["report.render"],
            "slots": 100,
            "running": 3,
            "host": "web-1",
            "pid": 4711,
            "version": "0.1.0",
            "stopping": False,
            "answers": True,
            "blocked": None,
            "breakers": [
                {
                    "queue": "default",
                    "type": "report.render",
                    "requester": None,
                    "place": None,
                    "state": "open",
                    "until": "2026-01-15T12:00:20.000000Z",
                }
            ],
            "started_at": "2026-01-15T11:00:00.000000Z",
            "seen_at": "2026-01-15T12:00:00.000000Z",
        }
    ]
}
