"""Workers that are alive: what each tells of itself in a hash, and until when it counts as alive in a sorted set."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import msgspec

from euterpe.model.claims.presence import LISTED, ClaimingWorkers, LiveWorker, Presence, WorkerFacts, service_of
from euterpe.model.job import JobRow
from euterpe.model.state import State
from euterpe.stores.redis_lists.commands import GET, HDEL, HGET, HMGET, REGISTER, ZRANGEBYSCORE, ZREM
from euterpe.stores.redis_lists.entry import SEPARATOR
from euterpe.stores.redis_lists.scripts import Argument, RedisScripts


class ListWorkers:
    """`now`: a test's own time, or nothing; `now_us`: the time in any case."""

    def __init__(
        self, scripts: RedisScripts, now: Callable[[], Argument], now_us: Callable[[], Awaitable[int]]
    ) -> None:
        self._scripts = scripts
        self._now = now
        self._now_us = now_us

    @property
    def _alive(self) -> str:
        return f"{self._scripts.settings.prefix}:registry"

    @property
    def _told(self) -> str:
        return f"{self._alive}:told"

    async def register(self, workers: Sequence[Presence]) -> None:
        arguments: list[Argument] = [self._now()]
        for worker in workers:
            arguments += (worker.worker_id, msgspec.json.encode(worker.facts), worker.up_us, worker.silence_us)
        if workers:
            await self._scripts.run(REGISTER, *arguments)

    async def unregister(self, worker_id: str) -> None:
        await self._scripts.read(HDEL, self._told, worker_id)
        await self._scripts.read(ZREM, self._alive, worker_id)

    async def list(self, limit: int = LISTED) -> list[LiveWorker]:
        now = await self._now_us()
        names = await self._scripts.read(ZRANGEBYSCORE, self._alive, f"({now}", "+inf", "LIMIT", 0, limit)
        silent = await self._scripts.read(ZRANGEBYSCORE, self._alive, "-inf", now, "LIMIT", 0, limit)
        names += (held := [name for name in silent if await self._keeps_leases(name.decode(), now)])
        told = await self._scripts.read(HMGET, self._told, *names) if names else []
        found = [
            _read(name.decode(), text, answers=name not in held)
            for name, text in zip(names, told, strict=True)
            if text is not None
        ]
        return sorted((worker for worker in found if worker is not None), key=lambda worker: worker.worker_id)[:limit]

    async def _keeps_leases(self, worker_id: str, now: int) -> bool:
        """Whether somebody renews the leases of jobs that it runs."""
        until = await self._scripts.read(GET, self._scripts.settings.heartbeat(worker_id))
        return until is not None and until.isdigit() and int(until) > now

    async def service_for(self, job: JobRow, now: int) -> ClaimingWorkers | None:
        """Who would claim this job; None where that cannot be told. A list may be a queue of its own, too. A job of the
        kind that runs speaks for a worker that tells nothing of itself."""
        keys = self._scripts.settings
        own = keys.list_for(job.queue, job.priority)

        def listens(worker: LiveWorker) -> bool:
            return any(own in keys.lists_of(queue) for queue in worker.facts.queues)

        workers = await self.list(LISTED + 1)
        service = service_of(workers, keys.claimed_as(job.queue), job.type, now, listens)
        if service.knowing:
            return service
        running = await self._scripts.read(
            HGET, f"{keys.prefix}:counts", SEPARATOR.join((State.RUNNING, job.queue, job.type))
        )
        return None if running or len(workers) > LISTED else service


def _read(worker_id: str, text: bytes, *, answers: bool) -> LiveWorker | None:
    started_at, seen_at, facts = text.split(b" ", 2)
    try:
        told = msgspec.json.decode(facts, type=WorkerFacts)
    except msgspec.MsgspecError:
        return None  # Another release wrote it; what cannot be read is not told of.
    answers = answers and told.blocked is None
    return LiveWorker(
        worker_id=worker_id, started_at=int(started_at), seen_at=int(seen_at), facts=told, answers=answers
    )
