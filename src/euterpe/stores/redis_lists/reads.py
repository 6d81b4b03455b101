"""Counts, depths and the line in front of a job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from euterpe.model.claims.presence import ClaimingWorkers
from euterpe.model.job import JobRow
from euterpe.model.reading.views import QueueDepth, StoreStats
from euterpe.model.reading.why import AHEAD_LIMIT, Explanation, Situation, explain
from euterpe.model.state import LIVE, State
from euterpe.model.submitting.submission import DEFAULT_QUEUE
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
        ages = await self._oldest_ages_us(await self._lists_by_queue(waiting), now)
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
        queues = set(self._keys.lists.values())
        for c in await self.counts():
            queues.add(c.queue)
            if c.state in LIVE and c.state is not State.SCHEDULED:
                live[c.queue, c.state] = live.get((c.queue, c.state), 0) + c.count
        depths = [QueueDepth(queue, state, count, 0) for (queue, state), count in live.items()]
        lists = await self._lists_by_queue(sorted(queues))
        lengths = dict.fromkeys(lists, 0)
        places = [(queue, name) for queue, names in lists.items() for name in names]
        for (queue, _), length in zip(
            places, await self._scripts.read_fitting(LLEN, [(name,) for _, name in places]), strict=True
        ):
            lengths[queue] += length or 0
        waiting = {queue: lists[queue] for queue, length in lengths.items() if length}
        ages = await self._oldest_ages_us(waiting, now)
        depths += [QueueDepth(queue, State.SCHEDULED, lengths[queue], ages.get(queue, 0)) for queue in waiting]
        return depths

    async def _lists_by_queue(self, queues: Sequence[str]) -> dict[str, list[str]]:
        """The lists of each queue and what is set aside of them. The default queue's leave out those that are
        queues."""
        aside: dict[str, list[str]] = {}
        for member in await self._scripts.read(SMEMBERS, f"{self._keys.prefix}:aside"):
            name, _, job_type = member.decode().partition(SEPARATOR)
            aside.setdefault(name, []).append(f"{name}:type:{job_type}")
        return {queue: self._with_aside(queue, aside) for queue in queues}

    def _with_aside(self, queue: str, aside: Mapping[str, Sequence[str]]) -> list[str]:
        lists = [name for name in self._keys.lists_of(queue) if name == queue or not self._keys.is_configured(name)]
        return lists + [one for name in lists for one in aside.get(name, ())]

    async def _oldest_ages_us(self, lists: Mapping[str, Sequence[str]], now: int) -> dict[str, int]:
        """Of the queues whose lists these are. A few round trips, however many queues there are."""
        places = [(queue, name) for queue, names in lists.items() for name in names]
        ends = await self._scripts.read_fitting(LINDEX, [(name, -1) for _, name in places])
        heads = [(queue, entry) for (queue, _), entry in zip(places, ends, strict=True) if entry is not None]
        oldest: dict[str, int] = {}
        for (queue, _), job in zip(heads, await self._jobs_of([entry for _, entry in heads]), strict=True):
            if job is not None and (at := job.scheduled_at or job.created_at):
                oldest[queue] = min(at, oldest.get(queue, at))
        return {queue: max(0, now - at) for queue, at in oldest.items()}

    async def _jobs_of(self, entries: Sequence[bytes]) -> list[JobRow | None]:
        """The job of each entry; None where it is none, or has no record yet."""
        ids = [said.id if (said := read_entry(entry)) is not None else "" for entry in entries]
        records = await self._scripts.read_fitting(HGETALL, [(self._keys.job(job_id),) for job_id in ids])
        return [
            self._rows.stored(job_id, record_of(said)) if said else None
            for job_id, said in zip(ids, records, strict=True)
        ]

    async def peek(self, queues: Sequence[str], limit: int) -> list[JobRow]:
        found: list[JobRow] = []
        lists = await self._lists_by_queue(queues)
        for queue in queues:
            for name in lists[queue] if queue != DEFAULT_QUEUE else self._keys.lists_of(queue):
                room = min(limit, PEEK_AT_MOST) - len(found)
                if room > 0:
                    entries = await self._scripts.read(LRANGE, name, -room, -1)
                    found += [job for job in await self._jobs_of(entries[::-1]) if job is not None]
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
