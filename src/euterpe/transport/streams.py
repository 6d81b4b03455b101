"""Wake-ups through Redis Streams: a message wakes one of many processes, and the database decides who gets the job.

A message is acknowledged and deleted when the database says that its job waits no more: after the commit of a claim,
wherever that happened. Losing messages, or all of Redis, costs latency: workers poll, and a sweep tells again of jobs
that wait while their stream is empty. A message that its reader cannot use (no free slot, another type) is handed on.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

from redis.exceptions import RedisError, ResponseError

from euterpe.model.errors import EuterpeError
from euterpe.model.priority import PRIORITY_NAMES
from euterpe.ports import OUTBOX_CHANNEL
from euterpe.transport.local import LocalWakeups
from euterpe.transport.stream_messages import Arrived, Held, Note, StreamMessages
from euterpe.waiting import happens_within

log = logging.getLogger("euterpe.transport")

BLOCK_MS: Final = 2_000
READ_COUNT: Final = 100
HELD_LIMIT: Final = 1_000
"""Messages in hand; whoever has so many is busy, and leaves the rest to others."""
UNSENT_LIMIT: Final = 10_000
PUBLISH_BATCH: Final = 500
LOOK_S: Final = (0.01, 0.5)
"""How soon, and at the latest, to look whether the jobs of the messages in hand were taken."""
HAND_ON_S: Final = 0.25
MAX_HOPS: Final = 4
REPUBLISH_S: Final = 5.0
REPUBLISH_LIMIT: Final = 100
OLD_US: Final = 3_000_000
VISIBILITY_S: Final = 300.0
FAREWELL_S: Final = 2.0
TROUBLE: Final = (RedisError, OSError, TimeoutError)


class WaitingJobs(Protocol):
    """The truth; `store.announcing.WaitingJobs` is the one."""

    async def still_waiting(self, job_ids: Collection[str]) -> set[str]: ...

    async def waiting_since(self, queues: Collection[str], age_us: int, limit: int) -> Sequence[tuple[str, int, str]]:
        """(queue, priority, job_id) of jobs that wait for longer than this."""
        ...


class Ready(Protocol):
    """A job that was stored and can be claimed; a store's receipt is one."""

    @property
    def job_id(self) -> str: ...
    @property
    def queue(self) -> str: ...
    @property
    def priority(self) -> str: ...


class Beside(Protocol):
    """Another transport, for what Redis is never told: webhook events, jobs of a caller's own transaction."""

    async def open(self) -> None: ...
    async def close(self) -> None: ...
    def announce(self, queues: Iterable[str]) -> None: ...
    def subscribe(self, wake: Callable[[], None], queues: Collection[str]) -> Callable[[], None]: ...


class StreamWakeups:
    """Local callbacks at once; other processes through Redis. Nothing here ever fails a submit or stops a worker."""

    def __init__(
        self,
        redis_url: str,
        jobs: WaitingJobs,
        *,
        beside: Beside | None = None,
        prefix: str = "euterpe",
        visibility_s: float = VISIBILITY_S,
        republish_s: float = REPUBLISH_S,
    ) -> None:
        self.messages = StreamMessages(redis_url, prefix)
        self._jobs = jobs
        self._beside: Beside = beside or LocalWakeups()
        self._visibility_s = visibility_s
        self._republish_s = republish_s
        self._local = LocalWakeups()
        self._redis_away = _Away()
        self._unsent: deque[Note] = deque(maxlen=UNSENT_LIMIT)
        self._unsent_came = asyncio.Event()
        self._hinted: set[str] = set()
        self._held: dict[tuple[str, str], Held] = {}
        self._stir = asyncio.Event()
        """For the tidier: messages came, or a hint."""
        self._room = asyncio.Event()
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
        await self._beside.open()
        loop = asyncio.get_running_loop()
        # Events belong to the loop that waits for them, and a queue may be opened again on another.
        self._unsent_came, self._stir = asyncio.Event(), asyncio.Event()
        self._room, self._wanted_changed = asyncio.Event(), asyncio.Event()
        self._tasks = {
            "publish": loop.create_task(self._publish_forever()),
            "read": loop.create_task(self._read_forever()),
            "tidy": loop.create_task(self._tidy_forever()),
        }

    async def close(self) -> None:
        """Sends what still waits and leaves nothing behind, if Redis answers soon."""
        tasks, self._tasks = list(self._tasks.values()), {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with suppress(*TROUBLE, EuterpeError):  # a hint that is lost costs a poll interval
            async with asyncio.timeout(FAREWELL_S):
                await self._farewell()
        with suppress(*TROUBLE):
            await self.messages.close()
        await self._beside.close()

    async def _farewell(self) -> None:
        await self._republish()
        while self._unsent:
            await self._send_some()
        if self._seen_streams:
            streams = self.messages.streams_of(self._queues)
            mine = {name: streams[name] for name in self._seen_streams if name in streams}
            if mine:
                self._take(await self.messages.read_own(mine, HELD_LIMIT))
            await self._look()
            await self.messages.hand_on(list(self._held.values()))
            self._held.clear()
            await self.messages.leave(self._seen_streams)

    # --- the port -------------------------------------------------------------------------------------

    def announce(self, queues: Iterable[str]) -> None:
        """Work in these queues, nobody says which: the tidier finds out and tells the others."""
        named = set(queues)
        self._local.announce(named)
        if OUTBOX_CHANNEL in named:
            self._beside.announce([OUTBOX_CHANNEL])
            named.discard(OUTBOX_CHANNEL)
        if named:
            self._hinted |= named
            self._stir.set()

    def announce_jobs(self, ready: Sequence[Ready]) -> None:
        """These jobs can be claimed. Called after their commit; never waits."""
        self._local.announce({job.queue for job in ready})
        self._unsent.extend(Note(job.queue, PRIORITY_NAMES.index(job.priority), job.job_id) for job in ready)
        self._unsent_came.set()

    def subscribe(self, wake: Callable[[], None], queues: Collection[str]) -> Callable[[], None]:
        entry = frozenset(queues)
        known = self._queues
        stops = [self._local.subscribe(wake, entry), self._beside.subscribe(wake, entry)]
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
        return frozenset().union(*self._wanted) - {OUTBOX_CHANNEL}

    # --- publish --------------------------------------------------------------------------------------

    async def _publish_forever(self) -> None:
        while True:
            _heed_cancellation()
            await self._unsent_came.wait()
            self._unsent_came.clear()
            while self._unsent:
                _heed_cancellation()
                try:
                    await self._send_some()
                except TROUBLE as error:
                    await asyncio.sleep(self._redis_away.again(error))

    async def _send_some(self) -> None:
        notes = [self._unsent.popleft() for _ in range(min(PUBLISH_BATCH, len(self._unsent)))]
        try:
            await self.messages.publish(notes)
        except ResponseError as error:
            # Redis answers and says no (a key of another kind, no memory): the next try would hear the same.
            log.warning("Redis refused messages; workers find those jobs by polling", exc_info=error)
        except BaseException:
            self._unsent.extendleft(reversed(notes[: UNSENT_LIMIT - len(self._unsent)]))
            raise
        self._redis_away.over()

    # --- read -----------------------------------------------------------------------------------------

    async def _read_forever(self, after: asyncio.Task[None] | None = None) -> None:
        if after is not None:
            await asyncio.wait({after})
        while True:
            _heed_cancellation()
            self._wanted_changed.clear()
            if not self._queues:
                await self._wanted_changed.wait()
                continue
            try:
                await self._read(self._queues)
            except TROUBLE as error:
                if _is_nogroup(error):
                    await asyncio.sleep(random.uniform(0.01, 0.05))
                else:
                    await asyncio.sleep(self._redis_away.again(error))

    async def _read(self, queues: frozenset[str]) -> None:
        """Until these are no longer the queues to read, or Redis goes away."""
        streams = await self.messages.ensure_groups(queues)
        self._redis_away.over()
        self._local.announce(queues)  # Whatever was said while nobody listened.
        if not streams:
            await asyncio.sleep(BLOCK_MS / 1000)
            return
        self._seen_streams |= set(streams)
        self._take(await self.messages.read_own(streams, HELD_LIMIT))
        while queues == self._queues:
            _heed_cancellation()
            if len(self._held) >= HELD_LIMIT:
                self._room.clear()
                await self._room.wait()
                continue
            self._take(await self.messages.read(streams, READ_COUNT, BLOCK_MS))

    def _take(self, arrived: Arrived) -> None:
        fresh = [message for message in arrived.held if message.key not in self._held]
        self._held.update((message.key, message) for message in fresh)
        for name, message_id in arrived.garbage:
            # Nobody waits for it: the next look drops it.
            self._held[(name, message_id)] = Held(name, message_id, Note("", 0, "", MAX_HOPS), 0.0)
        if fresh:
            self._local.announce({message.note.queue for message in fresh})
        if fresh or arrived.garbage:
            self._stir.set()

    # --- tidy -----------------------------------------------------------------------------------------

    async def _tidy_forever(self) -> None:
        soonest_s, latest_s = LOOK_S
        look_s = soonest_s
        idle_s = min(1.0, self._republish_s / 4, self._visibility_s / 4)
        while True:
            _heed_cancellation()
            pause_s = look_s if self._held else idle_s
            if await happens_within(pause_s, self._stir):
                self._stir.clear()
                look_s = soonest_s
                await asyncio.sleep(soonest_s)  # Time for the claim that the message led to.
            try:
                done = await self._look() if self._held else 0
                await self._do_chores()
            except TROUBLE as error:
                await asyncio.sleep(latest_s if _is_nogroup(error) else self._redis_away.again(error))
            except EuterpeError:
                await asyncio.sleep(latest_s)  # The database is away; others complain about that.
            else:
                look_s = soonest_s if done else min(2 * look_s, latest_s)

    async def _look(self) -> int:
        """Acknowledge and delete what the database has taken care of; returns how many messages went."""
        held = list(self._held.values())
        waiting = await self._jobs.still_waiting({message.note.job_id for message in held if message.note.job_id})
        now = time.monotonic()
        done = [m for m in held if m.note.job_id not in waiting]
        late = [m for m in held if m.note.job_id in waiting and now - m.read_at >= HAND_ON_S * 2**m.note.hops]
        # One that has been everywhere is dropped: the database still knows the job, and everyone polls.
        done += [m for m in late if m.note.hops >= MAX_HOPS]
        late = [m for m in late if m.note.hops < MAX_HOPS]
        await self.messages.drop([m.key for m in done])
        self._let_go(done)
        await self.messages.hand_on(late)
        self._let_go(late)
        return len(done) + len(late)

    def _let_go(self, messages: Iterable[Held]) -> None:
        for message in messages:
            self._held.pop(message.key, None)
        if len(self._held) < HELD_LIMIT:
            self._room.set()

    async def _do_chores(self) -> None:
        now = time.monotonic()
        if self._hinted or now >= self._republish_at:
            await self._republish()
        if now >= self._reclaim_at and (queues := self._queues):
            self._reclaim_at = now + min(self._visibility_s / 4, 30.0) * random.uniform(0.75, 1.25)
            streams = await self.messages.ensure_groups(queues)
            self._take(await self.messages.reclaim(streams, round(self._visibility_s * 1000)))
            await self.messages.forget_the_dead(streams)

    async def _republish(self) -> None:
        """Tell of jobs that wait while their stream is empty: hinted ones now, any other when it has waited a while."""
        hinted, self._hinted = self._hinted, set()
        try:
            found = list(await self._jobs.waiting_since(hinted, 0, REPUBLISH_LIMIT)) if hinted else []
            if time.monotonic() >= self._republish_at:
                self._republish_at = time.monotonic() + self._republish_s * random.uniform(0.75, 1.25)
                rest = self._queues - hinted
                found += await self._jobs.waiting_since(rest, OLD_US, REPUBLISH_LIMIT) if rest else []
            if not found:
                return
            lengths = await self.messages.lengths(self.messages.stream_of(queue, p) for queue, p, _ in found)
            notes = [Note(*job, MAX_HOPS - 1) for job in found if lengths[self.messages.stream_of(*job[:2])] == 0]
            if notes:
                await self.messages.publish(notes)
        except BaseException:
            self._hinted |= hinted
            raise


class _Away:
    """Redis does not answer: said once, tried again with growing pauses."""

    def __init__(self) -> None:
        self._failures = 0

    def again(self, error: BaseException) -> float:
        """Seconds until the next try."""
        if not self._failures:
            log.warning("Redis does not answer; polling goes on without it", exc_info=error)
        self._failures += 1
        return min(0.1 * 2.0 ** min(self._failures, 5), 2.0) * random.uniform(0.75, 1.25)

    def over(self) -> None:
        if self._failures:
            log.warning("Redis answers again after %d failures", self._failures)
            self._failures = 0


def _heed_cancellation() -> None:
    """A cancellation in the middle of a command may get lost inside the driver; the task still knows of it."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def _is_nogroup(error: Any) -> bool:
    """FLUSHALL, or a Redis that came back empty, takes the groups along; the next read makes them again."""
    return isinstance(error, ResponseError) and "NOGROUP" in str(error)
