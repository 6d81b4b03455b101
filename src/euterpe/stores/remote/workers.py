"""The registry of workers over HTTP: a worker tells of itself in a turn, an admin's key reads who is alive."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from euterpe.model.claims.presence import LISTED, BreakerState, LiveWorker, Presence, TrippedBreaker, WorkerFacts
from euterpe.stores.remote.documents import microseconds
from euterpe.stores.remote.exchange import TURN
from euterpe.stores.remote.session import ControlPlaneSession

SECOND_US: Final = 1_000_000


class BreakerReply(msgspec.Struct, frozen=True):
    """What the API tells of a breaker."""

    state: BreakerState
    until: datetime | None = None


class WorkerReply(msgspec.Struct, frozen=True, kw_only=True):
    """What the API tells of a worker."""

    worker_id: str
    queues: tuple[str, ...]
    types: tuple[str, ...] | None
    slots: int | None
    running: int | None
    host: str | None
    pid: int | None
    version: str | None
    stopping: bool
    breakers: dict[str, BreakerReply]
    started_at: datetime
    seen_at: datetime


class WorkersReply(msgspec.Struct, frozen=True):
    workers: list[WorkerReply]


class RemoteWorkers:
    def __init__(self, session: ControlPlaneSession) -> None:
        self._session = session

    async def register(self, workers: Sequence[Presence]) -> None:
        for worker in workers:
            await self._session.post(TURN, {"worker_id": worker.worker_id, "registration": _said(worker)})

    async def unregister(self, worker_id: str) -> None:
        await self._session.post(TURN, {"worker_id": worker_id, "registration": {"leaving": True}})

    async def list(self, limit: int = LISTED) -> list[LiveWorker]:
        """Raises AccessRefused for a key without scope admin: workers run the jobs of every requester."""
        reply = await self._session.get("/workers", {"limit": str(limit)})
        return [_worker(document) for document in msgspec.json.decode(reply.body, type=WorkersReply).workers]


def _said(worker: Presence) -> dict[str, Any]:
    """The control plane says itself after how much silence a worker is dead."""
    facts = worker.facts
    return {
        **msgspec.to_builtins(facts),
        "up_seconds": worker.up_us / SECOND_US,
        "breakers": {
            queue: {"state": breaker.state, "retry_in_seconds": breaker.retry_in_us / SECOND_US}
            for queue, breaker in facts.breakers.items()
        },
    }


def _worker(reply: WorkerReply) -> LiveWorker:
    seen_at = microseconds(reply.seen_at) or 0
    facts = WorkerFacts(
        queues=reply.queues,
        types=reply.types,
        slots=reply.slots,
        running=reply.running,
        host=reply.host,
        pid=reply.pid,
        version=reply.version,
        stopping=reply.stopping,
        breakers={
            queue: TrippedBreaker(breaker.state, max(0, (microseconds(breaker.until) or seen_at) - seen_at))
            for queue, breaker in reply.breakers.items()
        },
    )
    started_at = microseconds(reply.started_at) or 0
    return LiveWorker(worker_id=reply.worker_id, started_at=started_at, seen_at=seen_at, facts=facts)
