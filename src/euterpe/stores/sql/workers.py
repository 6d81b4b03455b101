"""Workers that are alive, as rows."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from euterpe.model.claims.presence import LISTED, ClaimingWorkers, LiveWorker, Presence, WorkerFacts, service_of
from euterpe.stores.sql.engine import Engine
from euterpe.stores.sql.program import Program, one


class SqlWorkers:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def register(self, workers: Sequence[Presence]) -> None:
        if workers:
            await self._engine.write(lambda: _register(workers))

    async def unregister(self, worker_id: str) -> None:
        await self._engine.write(lambda: _unregister(worker_id))

    async def list(self, limit: int = LISTED) -> list[LiveWorker]:
        return await self._engine.read(lambda: live_workers(limit))


def _register(workers: Sequence[Presence]) -> Program[None]:
    for worker in sorted(workers, key=lambda worker: worker.worker_id):
        yield one(
            "workers/register",
            worker_id=worker.worker_id,
            facts=msgspec.json.encode(worker.facts).decode(),
            up_us=worker.up_us,
            silence_us=worker.silence_us,
        )


def _unregister(worker_id: str) -> Program[None]:
    yield one("workers/unregister", worker_id=worker_id)


def forget_silent() -> Program[int]:
    """Remove what the dead have left. Nobody reads it, so that this may come late."""
    return len((yield one("workers/forget_silent")))


def live_workers(limit: int = LISTED) -> Program[list[LiveWorker]]:
    rows = yield one("workers/live", limit=limit)
    found = []
    for worker_id, started_at, seen_at, text, answers in rows:
        try:
            facts = msgspec.json.decode(text, type=WorkerFacts)
        except msgspec.MsgspecError:
            continue  # Another release wrote it; what cannot be read is not told of.
        answers = bool(answers) and facts.blocked is None
        found.append(
            LiveWorker(worker_id=worker_id, started_at=started_at, seen_at=seen_at, facts=facts, answers=answers)
        )
    return found


def service_for(queue: str, job_type: str, now: int) -> Program[ClaimingWorkers | None]:
    """Who would claim such a job; None where that cannot be told. A job of the kind that runs proves a worker: one of
    an older release tells nothing of itself, and one whose handler blocks its loop is late."""
    workers = yield from live_workers(LISTED + 1)
    service = service_of(workers, queue, job_type, now)
    if service.knowing:
        return service
    if len(workers) > LISTED or (yield one("workers/is_served", queue=queue, type=job_type))[0][0]:
        return None
    return service
