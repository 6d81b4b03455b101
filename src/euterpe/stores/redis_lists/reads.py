"""Counts, depths and the line in front of a job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from euterpe.model.claims.presence import ClaimingWorkers
from euterpe.model.job import JobRow
from euterpe.model.reading.views import QueueDepth, StoreStats
from euterpe.model.reading.why import AHEAD_LIMIT, Explanation, Situation, explain
from euterpe.model.state import LIVE, State
from euterpe.stores.redis_lists.commands import HGET, HGETALL, HMGET, LINDEX, LLEN, LPOS, LRANGE, SMEMBERS, record_of
from euterpe.stores.redis_lists.entry import SEPARATOR, Rows, read_entry
from euterpe.stores.redis_lists.scripts import RedisScripts
from euterpe.stores.redis_lists.settings import ListSettings

PEEK_AT_MOST: Final = 1_000
MINUTE_US: Final = 60_000_000
SLOT_US: Final = 5_000_000


class ListedCount(msgspec.Struct, frozen=True):
    """How many jobs of a queue and type are in a state."""

    state: State
    queue: str
    type: str
    count: int


class ListReads:
    """Looks at all jobs at once."""

    def __init__(self, scripts: RedisScripts, rows: Rows) -> None:
        self._scripts = scripts
        self._rows = rows

    @property
    def _keys(self) -> ListSettings:
        return self._scripts.settings

    async def counts(self) -> list[ListedCount]:
        said = await self._scripts.read(HGETALL, f"{self._keys.prefix}:counts")
        found = []
        for field, count in record_of(said).items():
            state, queue, type_ = field.decode().split(SEPARATOR, 2)
            found.append(ListedCount(State(state), queue, type_, int(count)))
        return found

    async def stats(self, now: int) -> StoreStats:
        by_state: dict[str, int] = {}
        by_queue: dict[str, dict[str, int]] = {}
        by_type: dict[str, dict[str, int]] = {}
        for c in await self.counts():
            by_state[c.state] = by_state.get(c.state, 0) + c.count
            for name, table in ((c.queue, by_queue), (c.type, by_type)):
                states = table.setdefault(name, {})
                states[c.state] = states.get(c.state, 0) + c.count
        waiting = [queue for queue, states in by_queue.items() if State.SCHEDULED in states]
        ages = {queue: age_us for queue in waiting if (age_us := await self._oldest_age_us(queue, now)) is not None}
        return StoreStats(by_state, by_queue, by_type, ages, await self._per_minute(now), {})

    async def _per_minute(self, now: int) -> dict[str, int]:
        """Ends of the last minute, counted in slots of `common.lua`."""
        last = now // SLOT_US
        slots = range(last - MINUTE_US // SLOT_US + 1, last + 1)
        states = (State.COMPLETED, State.FAILED, State.DEAD_LETTER)
        told = await self._scripts.read_all(HMGET, [(f"{self._keys.prefix}:ended:{slot}", *states) for slot in slots])
        return {str(state): sum(int(counts[i] or 0) for counts in told) for i, state in enumerate(states)}

    async def depths(self, now: int) -> list[QueueDepth]:
        """What waits is counted in the lists themselves, and so counts what other programs put there."""
        live: dict[tuple[str, State], int] = {}
        for c in await self.counts():
            if c.state in LIVE and c.state is not State.SCHEDULED:
                live[c.queue, c.state] = live.get((c.queue, c.state), 0) + c.count
        queues = {c.queue for c in await self.counts()} | set(self._keys.lists.values())
        depths = [QueueDepth(queue, state, count, 0) for (queue, state), count in live.items()]
        for queue in sorted(queues):
            lists = await self._every_list(queue)
            lengths = await self._scripts.read_all(LLEN, [(name,) for name in lists])
            if total := sum(lengths):
                age_us = await self._oldest_age_us(queue, now)
                depths.append(QueueDepth(queue, State.SCHEDULED, total, age_us or 0))
        return depths

    async def _every_list(self, queue: str) -> list[str]:
        """The lists of a queue and what is set aside of them. The default queue's leave out those that are queues."""
        lists = [name for name in self._keys.lists_of(queue) if name == queue or not self._keys.is_configured(name)]
        named = await self._scripts.read(SMEMBERS, f"{self._keys.prefix}:aside")
        found = [name.decode().partition(SEPARATOR) for name in named]
        aside = [f"{name}:type:{job_type}" for name, _, job_type in found if name in lists]
        return lists + aside

    async def _oldest_age_us(self, queue: str, now: int) -> int | None:
        ends = await self._scripts.read_all(LINDEX, [(name, -1) for name in await self._every_list(queue)])
        since = [at for job in await self._jobs_of(ends) if (at := job.scheduled_at or job.created_at)]
        return max(0, now - min(since)) if since else None

    async def _jobs_of(self, entries: Sequence[bytes | None]) -> list[JobRow]:
        read = [read_entry(entry) for entry in entries if entry is not None]
        ids = [e.id for e in read if e is not None]
        records = await self._scripts.read_all(HGETALL, [(self._keys.job(job_id),) for job_id in ids])
        return [self._rows.stored(job_id, record_of(said)) for job_id, said in zip(ids, records, strict=True) if said]

    async def peek(self, queues: Sequence[str], limit: int) -> list[JobRow]:
        found: list[JobRow] = []
        for queue in queues:
            for name in await self._every_list(queue) if queue != "default" else self._keys.lists_of(queue):
                room = min(limit, PEEK_AT_MOST) - len(found)
                if room > 0:
                    entries = await self._scripts.read(LRANGE, name, -room, -1)
                    found += await self._jobs_of(entries[::-1])
        return found

    async def unknown_types(self, queues: Sequence[str], types: Sequence[str]) -> dict[str, int]:
        unknown: dict[str, int] = {}
        for c in await self.counts():
            if c.state is State.SCHEDULED and c.queue in queues and c.type not in types:
                unknown[c.type] = unknown.get(c.type, 0) + c.count
        return unknown

    async def why(
        self, job: JobRow, paused: Sequence[tuple[str, str]], now: int, service: ClaimingWorkers | None
    ) -> Explanation:
        queue, claimed_as = job.queue, self._keys.claimed_as(job.queue)
        if ("queue", queue) not in paused and (("queue", claimed_as) in paused or (service and service.open_until)):
            queue = claimed_as  # What is in the way has this name.
        situation = Situation(
            job.id, job.requester_id, queue, job.type, job.state, job.priority, job.seq, job.attempt_count,
            job.max_attempts, job.run_at, job.expires_at, job.started_at, job.completed_at, job.lease_expires_at,
            job.worker_id, job.cancel_requested, 0, None, None, False, job.error, ("queue", queue) in paused,
            ("type", job.type) in paused, now,
            await self._ahead(job) if job.state is State.SCHEDULED else 0, service=service,
        )  # fmt: skip
        return explain(situation)

    async def _ahead(self, job: JobRow) -> int:
        """How many stand before it; counted up to one more than anybody wants to know."""
        lists = self._keys.lists_of(job.queue)
        own = self._keys.list_for(job.queue, job.priority)
        entry = await self._scripts.read(HGET, self._keys.job(job.id), "entry")
        urgent = lists[: lists.index(own)] if own in lists else ()
        lengths = await self._scripts.read_all(LLEN, [(name,) for name in (*urgent, own)])
        asked = ("RANK", -1, "MAXLEN", AHEAD_LIMIT + 1)
        place = None if entry is None else await self._scripts.read(LPOS, own, entry, *asked)
        here = lengths[-1] - 1 - place if place is not None else min(lengths[-1], AHEAD_LIMIT + 1)
        return int(min(sum(lengths[:-1]) + max(here, 0), AHEAD_LIMIT + 1))
