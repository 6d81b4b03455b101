"""The Redis side of the wake-ups: a stream for each queue and priority, and messages that name a job.

A message holds `job_id` and `enqueue_id`, and how often it was handed on. Whatever else lies in a stream is drained.
Every method may raise a RedisError; nothing here decides what that means.
"""

from __future__ import annotations

import re
import secrets
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final, NamedTuple

from redis.exceptions import ResponseError

from euterpe.redis.connection import open_idle, redis_client
from euterpe.redis.settings import DEFAULT_TUNING, RedisTuning

GROUP: Final = "workers"
PRIORITIES: Final = 5
MAXLEN: Final = 100_000
"""About as many messages as a stream may hold; past that the oldest go, and the sweep makes up for them."""
ID_LENGTH: Final = 36
HOPS_LIMIT: Final = 100
FORGOTTEN_MS: Final = 3_600_000
_OUR_ID: Final = re.compile(r"[0-9]{1,20}-[0-9]{1,20}")


class Note(NamedTuple):
    """A job to tell of."""

    queue: str
    priority: int
    job_id: str
    hops: int = 0


class HeldMessage(NamedTuple):
    """A message that was read and not acknowledged yet."""

    stream: str
    message_id: str
    note: Note
    read_at: float

    @property
    def key(self) -> tuple[str, str]:
        return self.stream, self.message_id


Address = tuple[str, str]
"""(stream, message_id)"""


class Arrived(NamedTuple):
    """What a read brought: messages, and what only looks like one."""

    held: list[HeldMessage]
    garbage: list[Address]


class StreamMessages:
    """Publish, read, acknowledge. `consumer` is this process in the group."""

    def __init__(self, redis_url: str, prefix: str, maxlen: int = MAXLEN, tuning: RedisTuning = DEFAULT_TUNING) -> None:
        self.consumer = secrets.token_hex(8)
        self._url = redis_url
        self._prefix = prefix
        self._maxlen = maxlen
        self._tuning = tuning
        self._redis: Any = redis_client(redis_url, tuning)

    def connect(self) -> None:
        """A pool belongs to the loop that waits for it, and a queue may be opened again on another."""
        self._redis = redis_client(self._url, self._tuning)

    async def warm_up(self) -> None:
        await open_idle(self._redis, self._tuning.min_idle)

    async def close(self) -> None:
        await self._redis.aclose()

    def stream_of(self, queue: str, priority: int) -> str:
        return f"{self._prefix}:{queue}:{priority}"

    def streams_of(self, queues: Collection[str]) -> dict[str, tuple[str, int]]:
        """Stream names with the queue and priority that each stands for, most urgent first."""
        return {self.stream_of(q, p): (q, p) for p in range(PRIORITIES) for q in sorted(queues)}

    # --- producers ------------------------------------------------------------------------------------

    async def publish(self, notes: Sequence[Note]) -> list[Address]:
        """Where each of them lies now."""
        pipe = self._redis.pipeline(transaction=False)
        for note in notes:
            self._add(pipe, note)
        ids = await pipe.execute()
        return [(self.stream_of(n.queue, n.priority), message_id) for n, message_id in zip(notes, ids, strict=True)]

    async def undelivered(self, streams: Iterable[str]) -> dict[str, int]:
        """How many messages nobody has read yet: what is acknowledged is deleted, so the others are pending."""
        names = sorted(set(streams))
        pipe = self._redis.pipeline(transaction=False)
        for name in names:
            pipe.xlen(name)
            pipe.xpending(name, GROUP)
        answers = await pipe.execute(raise_on_error=False)
        counts = {}
        for name, length, pending in zip(names, answers[::2], answers[1::2], strict=True):
            if isinstance(length, Exception):
                raise length
            # Without a group nothing was delivered.
            counts[name] = length - (0 if isinstance(pending, Exception) else pending["pending"])
        return counts

    async def jobs_at(self, addresses: Sequence[Address]) -> list[str | None]:
        """The job that each message names; None where there is no message."""
        pipe = self._redis.pipeline(transaction=False)
        for name, message_id in addresses:
            pipe.xrange(name, message_id, message_id, 1)
        answers = await pipe.execute(raise_on_error=False) if addresses else []
        return [_job_in(answer) for answer in answers]

    def is_ours(self, address: Address) -> bool:
        """Whether this can be one of our messages at all: a worker may say anything."""
        name, message_id = address
        return bool(_OUR_ID.fullmatch(message_id)) and name.startswith(f"{self._prefix}:")

    def _add(self, pipe: Any, note: Note) -> None:
        fields = {"job_id": note.job_id, "enqueue_id": secrets.token_hex(16)}
        if note.hops:
            fields["hops"] = str(note.hops)
        pipe.xadd(self.stream_of(note.queue, note.priority), fields, maxlen=self._maxlen, approximate=True)

    # --- consumers ------------------------------------------------------------------------------------

    async def ensure_groups(self, queues: Collection[str]) -> dict[str, tuple[str, int]]:
        """Make what is missing; returns the streams that can be read. A key of another kind under our name is left out:
        it is not ours to delete, and the database tells of those jobs too."""
        usable = {}
        for name, meaning in self.streams_of(queues).items():
            try:
                await self._redis.xgroup_create(name, GROUP, id="0", mkstream=True)
            except ResponseError as error:
                if "WRONGTYPE" in str(error):
                    continue
                if "BUSYGROUP" not in str(error):
                    raise
            usable[name] = meaning
        return usable

    async def read(self, streams: dict[str, tuple[str, int]], count: int, block_ms: int) -> Arrived:
        """New messages; waits for the first, and never as long as an answer may take."""
        block_ms = max(1, min(block_ms, round(self._tuning.read_timeout_s * 500)))
        answer = await self._redis.xreadgroup(GROUP, self.consumer, dict.fromkeys(streams, ">"), count, block_ms)
        return self._arrived(streams, answer)

    async def read_own(self, streams: dict[str, tuple[str, int]], count: int) -> Arrived:
        """What was delivered to this process before and is not acknowledged: the answer to a read may get lost."""
        answer = await self._redis.xreadgroup(GROUP, self.consumer, dict.fromkeys(streams, "0"), count)
        return self._arrived(streams, answer)

    async def reclaim(self, streams: dict[str, tuple[str, int]], idle_ms: int, count: int = 100) -> Arrived:
        """Take over what other consumers left lying for so long. Of a message that was trimmed away only the pending
        entry is left, which is garbage."""
        arrived = Arrived([], [])
        for name in streams:
            ids = await self._redis.xautoclaim(name, GROUP, self.consumer, idle_ms, count=count, justid=True)
            if not ids:
                continue
            pipe = self._redis.pipeline(transaction=False)
            for message_id in ids:
                pipe.xrange(name, message_id, message_id, 1)
            found = [entries[0] if entries else (message_id, {})
                     for message_id, entries in zip(ids, await pipe.execute(), strict=True)]  # fmt: skip
            more = self._arrived(streams, [(name, found)])
            arrived.held.extend(more.held)
            arrived.garbage.extend(more.garbage)
        return arrived

    async def drop(self, addresses: Iterable[Address]) -> None:
        """Acknowledge and delete."""
        by_stream: defaultdict[str, list[str]] = defaultdict(list)
        for name, message_id in addresses:
            by_stream[name].append(message_id)
        if not by_stream:
            return
        pipe = self._redis.pipeline(transaction=False)
        for name, ids in by_stream.items():
            pipe.xack(name, GROUP, *ids)
            pipe.xdel(name, *ids)
        await pipe.execute()

    async def requeue(self, held: Sequence[HeldMessage]) -> None:
        """Put messages back for another process: a copy in and the original out, together."""
        if not held:
            return
        pipe = self._redis.pipeline(transaction=True)
        for message in held:
            self._add(pipe, message.note._replace(hops=message.note.hops + 1))
            pipe.xack(message.stream, GROUP, message.message_id)
            pipe.xdel(message.stream, message.message_id)
        await pipe.execute()

    async def leave(self, streams: Iterable[str]) -> None:
        """Take this process out of the groups; what it has not acknowledged must be gone by then."""
        pipe = self._redis.pipeline(transaction=False)
        for name in streams:
            pipe.xgroup_delconsumer(name, GROUP, self.consumer)
        await pipe.execute(raise_on_error=False)

    async def remove_dead_consumers(self, streams: Iterable[str]) -> None:
        """Names of processes that are long gone and hold nothing."""
        for name in streams:
            for consumer in await self._redis.xinfo_consumers(name, GROUP):
                if consumer["pending"] == 0 and consumer["idle"] > FORGOTTEN_MS:
                    await self._redis.xgroup_delconsumer(name, GROUP, consumer["name"])

    def _arrived(self, streams: dict[str, tuple[str, int]], answer: Iterable[tuple[str, Any]]) -> Arrived:
        arrived = Arrived([], [])
        now = time.monotonic()
        for name, entries in answer:
            queue, priority = streams[name]
            for message_id, fields in entries:
                job_id = (fields or {}).get("job_id", "").lower()
                if len(job_id) == ID_LENGTH and job_id.isascii():
                    note = Note(queue, priority, job_id, _hops(fields.get("hops", "0")))
                    arrived.held.append(HeldMessage(name, message_id, note, now))
                else:
                    arrived.garbage.append((name, message_id))
        return arrived


def _job_in(entries: Any) -> str | None:
    if not isinstance(entries, list) or not entries:
        return None
    job_id = (entries[0][1] or {}).get("job_id")
    return None if job_id is None else str(job_id).lower()


def _hops(text: str) -> int:
    return min(int(text), HOPS_LIMIT) if text.isascii() and text.isdigit() and len(text) < 4 else HOPS_LIMIT
