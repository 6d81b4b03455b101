"""The registry of workers over HTTP: a worker registers in an exchange, an admin's key reads who is alive."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from euterpe.model.claims.presence import LISTED, BreakerState, LiveWorker, Presence, TrippedBreaker
from euterpe.stores.remote.documents import microseconds
from euterpe.stores.remote.exchange import EXCHANGE_ROUTE
from euterpe.stores.remote.session import ControlPlaneSession
from euterpe.wire.workers import WorkerDocument, WorkersDocument, facts_of

SECOND_US: Final = 1_000_000


class RemoteWorkers:
    def __init__(self, session: ControlPlaneSession) -> None:
        self._session = session

    async def register(self, workers: Sequence[Presence]) -> None:
        for worker in workers:
            await self._session.post(
                EXCHANGE_ROUTE, {"worker_id": worker.worker_id, "registration": _registration_of(worker)}
            )

    async def unregister(self, worker_id: str) -> None:
        await self._session.post(EXCHANGE_ROUTE, {"worker_id": worker_id, "registration": {"leaving": True}})

    async def list(self, limit: int = LISTED) -> list[LiveWorker]:
        """Raises AccessRefused for a key without scope admin: workers run the jobs of every requester."""
        reply = await self._session.get("/workers", {"limit": str(limit)})
        return [_worker(document) for document in msgspec.json.decode(reply.body, type=WorkersDocument).workers]


def _registration_of(worker: Presence) -> dict[str, Any]:
    """The control plane says itself after how much silence a worker is dead."""
    facts = worker.facts
    return {
        **msgspec.to_builtins(facts),
        "up_seconds": worker.up_us / SECOND_US,
        "breakers": [
            {**msgspec.to_builtins(breaker), "retry_in_seconds": breaker.retry_in_us / SECOND_US}
            for breaker in facts.breakers
        ],
    }


def _worker(document: WorkerDocument) -> LiveWorker:
    seen_at = _us(document.seen_at)
    breakers = tuple(
        TrippedBreaker(
            b.queue,
            b.type,
            BreakerState(b.state),
            0 if b.until is None else max(0, _us(b.until) - seen_at),
            b.requester,
            b.place,
        )
        for b in document.breakers
    )
    return LiveWorker(
        worker_id=document.worker_id,
        started_at=_us(document.started_at),
        seen_at=seen_at,
        facts=facts_of(document, breakers),
        answers=document.answers,
    )


def _us(timestamp: str) -> int:
    return microseconds(msgspec.convert(timestamp, datetime)) or 0
