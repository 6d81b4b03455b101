"""Wake-ups through Redis Streams: a message wakes one of many processes, and the database decides who gets the job.

A message is acknowledged and deleted when the database says that its job ended or went back to wait: after the commit
of that, wherever it happened. While the job runs the message stays pending, and if its reader dies another one takes it
over. Losing messages, or all of Redis, costs latency: workers poll, and a sweep tells again of jobs that wait while
nothing in their stream is left to read. A message that its reader cannot use (no free slot, another type) is handed on.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from typing import Final

from redis.exceptions import ResponseError

from euterpe.model.errors import EuterpeError
from euterpe.model.job import JobRow
from euterpe.model.priority import PRIORITY_NAMES
from euterpe.model.state import State
from euterpe.ports import SIDE_CHANNELS
from euterpe.redis.errors import REDIS_ERRORS, is_nogroup, raise_if_cancelled
from euterpe.redis.settings import DEFAULT_TUNING, RedisTuning
from euterpe.runtime.outage import Outage
from euterpe.runtime.wait import happens_within
from euterpe.wakeups.local import LocalWakeups
from euterpe.wakeups.stream_messages import Address, Arrived, HeldMessage, Note, StreamMessages
from euterpe.wakeups.stream_ports import JobsToAnnounce, Ready, SecondaryWakeups
from euterpe.wakeups.stream_registry import MessageRegistry

log = logging.getLogger("euterpe.wakeups")

BLOCK_MS: Final = 2_000
READ_COUNT: Final = 100
HELD_LIMIT: Final = 1_000
"""Messages in hand; whoever has so many is busy, and leaves the rest to others."""
UNSENT_LIMIT: Final = 10_000
PUBLISH_BATCH: Final = 500
TIDY_WAIT_S: Final = (0.01, 0.5)
"""How soon, and at the latest, to look whether the jobs of the messages in hand were taken."""
HAND_ON_S: Final = 0.25
MAX_HOPS: Final = 4
REPUBLISH_S: Final = 5.0
REPUBLISH_LIMIT: Final = 100
OLD_US: Final = 3_000_000
VISIBILITY_S: Final = 300.0
FAREWELL_S: Final = 2.0
ADDRESS_S: Final = 1.0
"""How long a claim waits for the address of its message; without one it goes on."""


class StreamWakeups:
    """Local callbacks at once; other processes through Redis. Nothing here ever fails a submit or stops a worker."""

    def __init__(
        self,
        redis_url: str,
        jobs: JobsToAnnounce,
        *,
        secondary: SecondaryWakeups | None = None,
        prefix: str = "euterpe",
        visibility_s: float = VISIBILITY_S,
        republish_s: float = REPUBLISH_S,
        tuning: RedisTuning = DEFAULT_TUNING,
    ) -> None:
        self.messages = StreamMessages(redis_url, prefix, tuning=tuning)
        self._jobs = jobs
        self._secondary: SecondaryWakeups = secondary or LocalWakeups()
        self._visibility_s = visibility_s
        self._republish_s = republish_s
        self._local = LocalWakeups()
        self._outage = Outage(log, "the wake-up listener", server="Redis", expected=REDIS_ERRORS)
        self._unsent: deque[Note] = deque(maxlen=UNSENT_LIMIT)
        self._unsent_came = asyncio.Event()
        self._hinted: set[str] = set()
        self._registry = MessageRegistry()
        self._ended: deque[tuple[str, Address | None]] = deque(maxlen=UNSENT_LIMIT)
        self._tidy_soon = asyncio.Event()
        """For the tidier: messages came, or a hint."""
        self._has_room = asyncio.Event()
        self._sending = asyncio.Lock()
        self._wanted: list[frozenset[str]] = []
        self._wanted_changed = asyncio.Event()
        self._seen_streams: set[str] = set()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._republish_at = 0.0
        self._reclaim_at = 0.0

    # --- life -----------------------------------------------------------------------------------------

    async def open(self) -> None:
        if self._tasks:
            return
        await self._secondary.open()
        self.messages.connect()
        loop = asyncio.get_running_loop()
        # Events belong to the loop that waits for them, and a queue may be opened again on another.
        self._unsent_came, self._tidy_soon = asyncio.Event(), asyncio.Event()
        self._has_room, self._wanted_changed = asyncio.Event(), asyncio.Event()
        self._sending = asyncio.Lock()
        self._tasks = {
            "publish": loop.create_task(self._publish_forever()),
            "warm up": loop.create_task(self._warm_up()),
            "read": loop.create_task(self._read_forever()),
            "tidy": loop.create_task(self._tidy_forever()),
        }

    async def close(self) -> None:
        """Sends what still waits and leaves nothing behind, if Redis answers soon."""
        tasks, self._tasks = list(self._tasks.values()), {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with suppress(*REDIS_ERRORS, EuterpeError):  # a hint that is lost costs a poll interval
            async with asyncio.timeout(FAREWELL_S):
                await self._leave_groups()
        with suppress(*REDIS_ERRORS):
            await self.messages.close()
        await self._secondary.close()

    async def _leave_groups(self) -> None:
        await self._republish()
        while self._unsent:
            await self._send_some()
        if self._seen_streams:
            streams = self.messages.streams_of(self._queues)
            mine = {name: streams[name] for name in self._seen_streams if name in streams}
            if mine:
                self._take(await self.messages.read_own(mine, HELD_LIMIT))
            await self._drop_done()
            await self.messages.requeue(list(self._registry.waiting.values()))
            self._registry.waiting.clear()
            if not self._registry.running:
                # Whoever leaves a group takes its pending messages along: those of running jobs are for others to end.
                await self.messages.leave(self._seen_streams)

    # --- the port -------------------------------------------------------------------------------------

    def announce(self, queues: Iterable[str]) -> None:
        """Work in these queues, nobody says which: the tidier finds out and tells the others."""
        named = set(queues)
        self._local.announce(named)
        if secondary := named & SIDE_CHANNELS:
            self._secondary.announce(secondary)
            named -= SIDE_CHANNELS
        if named:
            self._hinted |= named
            self._tidy_soon.set()

    def announce_jobs(self, ready: Sequence[Ready]) -> None:
        """These jobs can be claimed. Called after their commit; never waits."""
        self._local.announce({job.queue for job in ready})
        self._unsent.extend(Note(job.queue, PRIORITY_NAMES.index(job.priority), job.job_id) for job in ready)
        self._unsent_came.set()

    def subscribe(self, wake: Callable[[], None], queues: Collection[str]) -> Callable[[], None]:
        entry = frozenset(queues)
        known = self._queues
        stops = [self._local.subscribe(wake, entry), self._secondary.subscribe(wake, entry)]
        self._wanted.append(entry)
        self._wanted_changed.set()
        if not self._queues <= known and "read" in self._tasks:
            # The one that runs waits for other streams, up to BLOCK_MS long.
            before = self._tasks["read"]
            before.cancel()
            self._tasks["read"] = asyncio.get_running_loop().create_task(self._read_forever(before))

        def unsubscribe() -> None:
            if stops:
                self._wanted.remove(entry)
            while stops:
                stops.pop()()

        return unsubscribe

    @property
    def _queues(self) -> frozenset[str]:
        return frozenset().union(*self._wanted) - SIDE_CHANNELS

    # --- messages of claims -----------------------------------------------------------------------------

    async def messages_of(self, jobs: Sequence[JobRow]) -> list[Address | None]:
        """Where the message of each of these claimed jobs lies; made where none is known. None: Redis is away."""
        with suppress(*REDIS_ERRORS):
            async with asyncio.timeout(ADDRESS_S):
                return [*await self._addresses(jobs)]
        return [None] * len(jobs)

    async def _addresses(self, jobs: Sequence[JobRow]) -> list[Address]:
        if any(self._registry.address_of(job.id) is None for job in jobs):
            await self._send_some()  # Also waits for what is being sent.
            while self._unsent:
                await self._send_some()
        known = {job.id: address for job in jobs if (address := self._registry.address_of(job.id)) is not None}
        found = await self.messages.jobs_at(list(known.values()))
        there = {job_id for job_id, found_id in zip(known, found, strict=True) if job_id == found_id}
        fresh = [Note(job.queue, job.priority, job.id, MAX_HOPS - 1) for job in jobs if job.id not in there]
        if fresh:
            self._remember(fresh, await self.messages.publish(fresh))
        addresses = [self._registry.address_of(job.id) or ("", "") for job in jobs]
        self._registry.runs(
            [held for address in addresses if (held := self._registry.waiting.get(address)) is not None]
        )
        return addresses

    def acknowledge(self, ended: Sequence[tuple[str, Address | None]]) -> None:
        """These jobs ended, or went back to wait, and that is committed: their messages may go. Never waits."""
        self._ended.extend(ended)
        self._tidy_soon.set()

    # --- publish --------------------------------------------------------------------------------------

    async def _warm_up(self) -> None:
        with suppress(*REDIS_ERRORS):
            await self.messages.warm_up()

    async def _publish_forever(self) -> None:
        while True:
            raise_if_cancelled()
            await self._unsent_came.wait()
            self._unsent_came.clear()
            while self._unsent:
                raise_if_cancelled()
                try:
                    await self._send_some()
                except REDIS_ERRORS as error:
                    await asyncio.sleep(self._outage.pause_after(error))

    async def _send_some(self) -> None:
        async with self._sending:
            await self._send()

    async def _send(self) -> None:
        notes = [self._unsent.popleft() for _ in range(min(PUBLISH_BATCH, len(self._unsent)))]
        if not notes:
            return
        try:
            self._remember(notes, await self.messages.publish(notes))
        except ResponseError as error:
            # Redis answers and says no (a key of another kind, no memory): the next try would hear the same.
            log.warning("Redis refused messages; workers find those jobs by polling", exc_info=error)
        except BaseException:
            self._unsent.extendleft(reversed(notes[: UNSENT_LIMIT - len(self._unsent)]))
            raise
        self._outage.over()

    # --- read -----------------------------------------------------------------------------------------

    async def _read_forever(self, after: asyncio.Task[None] | None = None) -> None:
        if after is not None:
            await asyncio.wait({after})
        while True:
            raise_if_cancelled()
            self._wanted_changed.clear()
            if not self._queues:
                await self._wanted_changed.wait()
                continue
            try:
                await self._read(self._queues)
            except REDIS_ERRORS as error:
                if is_nogroup(error):
                    await asyncio.sleep(random.uniform(0.01, 0.05))
                else:
                    await asyncio.sleep(self._outage.pause_after(error))

    async def _read(self, queues: frozenset[str]) -> None:
        """Until these are no longer the queues to read, or Redis goes away."""
        streams = await self.messages.ensure_groups(queues)
        self._outage.over()
        self._local.announce(queues)  # Whatever was said while nobody listened.
        if not streams:
            await asyncio.sleep(BLOCK_MS / 1000)
            return
        self._seen_streams |= set(streams)
        self._take(await self.messages.read_own(streams, HELD_LIMIT))
        while queues == self._queues:
            raise_if_cancelled()
            if len(self._registry.waiting) >= HELD_LIMIT:
                self._has_room.clear()
                await self._has_room.wait()
                continue
            self._take(await self.messages.read(streams, READ_COUNT, BLOCK_MS))

    def _take(self, arrived: Arrived) -> None:
        fresh = self._registry.take(arrived.held)
        # Nobody waits for garbage: the next look drops it.
        self._registry.take(
            HeldMessage(name, message_id, Note("", 0, "", MAX_HOPS), 0.0) for name, message_id in arrived.garbage
        )
        if fresh:
            self._local.announce({message.note.queue for message in fresh})
        if fresh or arrived.garbage:
            self._tidy_soon.set()

    # --- tidy -----------------------------------------------------------------------------------------

    async def _tidy_forever(self) -> None:
        soonest_s, latest_s = TIDY_WAIT_S
        pause_s = soonest_s
        idle_s = min(1.0, self._republish_s / 4, self._visibility_s / 4)
        while True:
            raise_if_cancelled()
            pause_s = pause_s if self._registry or self._ended else idle_s
            if await happens_within(pause_s, self._tidy_soon):
                self._tidy_soon.clear()
                pause_s = soonest_s
                await asyncio.sleep(soonest_s)  # Time for the claim that the message led to.
            try:
                done = await self._drop_done() if self._registry or self._ended else 0
                await self._do_chores()
            except REDIS_ERRORS as error:
                await asyncio.sleep(latest_s if is_nogroup(error) else self._outage.pause_after(error))
            except EuterpeError:
                await asyncio.sleep(latest_s)  # The database is away; others complain about that.
            else:
                pause_s = soonest_s if done else min(2 * pause_s, latest_s)

    async def _drop_done(self) -> int:
        """Acknowledge and delete what the database has taken care of; returns how many messages went."""
        ended = await self._drop_ended()
        held = self._registry.all()
        states = await self._jobs.states_of({message.note.job_id for message in held if message.note.job_id})
        now = time.monotonic()
        runs = {m.key for m in held if states.get(m.note.job_id) is State.RUNNING}
        waits = {m.key for m in held if states.get(m.note.job_id) is State.SCHEDULED}
        self._registry.runs(m for m in held if m.key in runs)
        self._registry.waits_again((m for m in held if m.key in waits), now)
        done = [m for m in held if m.key not in runs and m.key not in waits]
        late = [m for m in held if m.key in waits and now - m.read_at >= HAND_ON_S * 2**m.note.hops]
        # One that has been everywhere is dropped: the database still knows the job, and everyone polls.
        done += [m for m in late if m.note.hops >= MAX_HOPS]
        late = [m for m in late if m.note.hops < MAX_HOPS]
        # Out of the book first: no claim must be given the address of a message that is about to go.
        self._forget([*done, *late])
        try:
            await self.messages.drop([m.key for m in done])
            await self.messages.requeue(late)
        except BaseException:
            self._registry.take([*done, *late])
            raise
        return ended + len(done) + len(late)

    async def _drop_ended(self) -> int:
        """Messages of jobs whose end, or return to the queue, was committed through this process."""
        ended = list(self._ended)
        wanted = [(job_id, address or self._registry.address_of(job_id)) for job_id, address in ended]
        named = [(job_id, a) for job_id, a in wanted if a is not None and self.messages.is_ours(a)]
        # What a worker says is only believed of a message that names its own job.
        found = await self.messages.jobs_at([a for _, a in named])
        gone = [a for (job_id, a), found_id in zip(named, found, strict=True) if found_id == job_id]
        await self.messages.drop(gone)
        self._registry.forget(gone)
        for _ in ended:
            self._ended.popleft()
        return len(gone)

    def _forget(self, messages: Iterable[HeldMessage]) -> None:
        self._registry.forget([message.key for message in messages])
        if len(self._registry.waiting) < HELD_LIMIT:
            self._has_room.set()

    def _remember(self, notes: Iterable[Note], addresses: Iterable[Address]) -> None:
        for note, address in zip(notes, addresses, strict=True):
            self._registry.remember(note.job_id, address)

    async def _do_chores(self) -> None:
        now = time.monotonic()
        if self._hinted or now >= self._republish_at:
            await self._republish()
        if now >= self._reclaim_at and (queues := self._queues):
            self._reclaim_at = now + min(self._visibility_s / 4, 30.0) * random.uniform(0.75, 1.25)
            streams = await self.messages.ensure_groups(queues)
            self._take(await self.messages.reclaim(streams, round(self._visibility_s * 1000)))
            await self.messages.remove_dead_consumers(streams)

    async def _republish(self) -> None:
        """Tell of jobs that wait while nobody has a message to read: hinted ones now, others after a while."""
        hinted, self._hinted = self._hinted, set()
        try:
            found = list(await self._jobs.waiting_since(hinted, 0, REPUBLISH_LIMIT)) if hinted else []
            if time.monotonic() >= self._republish_at:
                self._republish_at = time.monotonic() + self._republish_s * random.uniform(0.75, 1.25)
                rest = self._queues - hinted
                found += await self._jobs.waiting_since(rest, OLD_US, REPUBLISH_LIMIT) if rest else []
            if not found:
                return
            unread = await self.messages.undelivered(self.messages.stream_of(queue, p) for queue, p, _ in found)
            in_hand = {message.note.job_id for message in self._registry.waiting.values()}
            notes = [
                Note(*job, MAX_HOPS - 1)
                for job in found
                if unread[self.messages.stream_of(*job[:2])] == 0 and job[2] not in in_hand
            ]
            if notes:
                self._remember(notes, await self.messages.publish(notes))
        except BaseException:
            self._hinted |= hinted
            raise
