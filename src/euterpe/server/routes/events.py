"""Server-sent events: the state changes of a requester's jobs, as they happen.

One loop in the process looks for changes while anybody listens, whatever their number. It follows the live jobs it has
seen (at most FOLLOWED) and so misses none of their ends; of states passed between two looks only the last is told.
An event may come twice after a reconnect: `sequence` grows with every change of a job, so drop what is not higher.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import Context  # a task that outlives its request carries none of its keys
from typing import Final

import msgspec

from euterpe.model.errors import EuterpeError
from euterpe.model.reading.document import rfc3339
from euterpe.model.reading.views import Change
from euterpe.model.state import TERMINAL, status
from euterpe.ports import ControlPlaneStore
from euterpe.server.http.asgi import Request, Stream
from euterpe.server.http.problems import Refusal
from euterpe.wire.jobs import NoInput

CHANGES_POLL_S: Final = 0.5
HEARTBEAT_S: Final = 15.0
OVERLAP_US: Final = 2_000_000
"""A transaction may commit a little after the time it wrote down; so much of the past is looked at again."""
FOLLOWED: Final = 2_000
REMEMBERED: Final = 20_000
BACKLOG: Final = 1_000
RETRY_LATER: Final = ((b"retry-after", b"5"),)
EVENT_STREAM: Final = b"text/event-stream; charset=utf-8"

log: Final = logging.getLogger("euterpe.api")


StillAllowed = Callable[[Request], Awaitable[bool]]
"""Whether the key of a request that was let in earlier would still open the door."""


class Listener:
    """One open stream. One that does not read is cut off: it will come back and say where it was."""

    def __init__(self, requester_id: str) -> None:
        self.requester_id = requester_id
        self.checked_at = time.monotonic()
        self.queue: asyncio.Queue[Change | None] = asyncio.Queue(BACKLOG)
        self.cut = False

    def push(self, change: Change | None) -> None:
        if self.cut:
            return
        try:
            self.queue.put_nowait(change)
        except asyncio.QueueFull:
            self.cut = True


class Feed:
    """Everybody who listens, and the loop that looks for them."""

    def __init__(
        self,
        store: ControlPlaneStore,
        now_us: Callable[[], Awaitable[int]],
        still_allowed: StillAllowed,
        max_listeners: int,
        share: int,
    ) -> None:
        """`share`: how many of the streams one requester may have."""
        self._store = store
        self._now_us = now_us
        self._still_allowed = still_allowed
        self._max_listeners = max_listeners
        self._share = share
        self._listeners: set[Listener] = set()
        self._live: dict[str, Change] = {}
        self._ended: dict[str, int] = {}
        self._since = 0
        self._polling: asyncio.Task[None] | None = None
        self._draining = False

    async def events(self, request: Request, _: NoInput) -> Stream:
        listener = Listener(request.identity.requester_id)
        left_at = _last_event_id(request)
        self._enter(listener)
        try:
            now = await self._now_us()
            if self._polling is None:
                self._since = now - OVERLAP_US
                looking = self._poll_while_anybody_listens()
                self._polling = asyncio.get_running_loop().create_task(looking, context=Context())
            await self._catch_up(listener, now if left_at is None else left_at)
        except BaseException:
            self._leave(listener)
            raise
        return Stream(self._event_chunks(listener, request), EVENT_STREAM, on_end=lambda: self._leave(listener))

    def _enter(self, listener: Listener) -> None:
        if self._draining or len(self._listeners) >= self._max_listeners:
            raise Refusal(503, "too_many_listeners", "no further stream can be opened here", headers=RETRY_LATER)
        if sum(other.requester_id == listener.requester_id for other in self._listeners) >= self._share:
            detail = f"{self._share} streams are open for this requester; close one first"
            raise Refusal(429, "too_many_streams", detail, headers=RETRY_LATER)
        self._listeners.add(listener)

    def drain(self) -> None:
        """End all streams."""
        self._draining = True
        for listener in self._listeners:
            listener.push(None)
            listener.cut = True

    async def close(self) -> None:
        self.drain()
        if self._polling is not None:
            self._polling.cancel()
            await asyncio.wait([self._polling])

    async def _catch_up(self, listener: Listener, start: int) -> None:
        """Tell what changed since the listener left, and follow what of its requester's lives now."""
        for change in await self._store.changes([listener.requester_id], 0, []):
            if change.updated_at > start:
                listener.push(change)
            if change.state not in TERMINAL and change.job_id not in self._live:
                # What is as fresh as the next look is left for it to tell: others may be listening too.
                fresh = change.updated_at > self._since
                self._remember(msgspec.structs.replace(change, sequence=change.sequence - fresh))

    async def _event_chunks(self, listener: Listener, request: Request) -> AsyncIterator[bytes]:
        yield b"retry: 2000\n: listening\n\n"
        while not (listener.cut and listener.queue.empty()):
            chunk = b": still here\n\n"
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(HEARTBEAT_S):
                    change = await listener.queue.get()
                if change is None:
                    return
                chunk = event_of(change)
            # By the clock and not by the silence: a busy stream has no heartbeats.
            if time.monotonic() - listener.checked_at >= HEARTBEAT_S:
                if not await self._still_allowed(request):
                    return
                listener.checked_at = time.monotonic()
            yield chunk

    def _leave(self, listener: Listener) -> None:
        self._listeners.discard(listener)
        requesters = {other.requester_id for other in self._listeners}
        self._live = {job_id: change for job_id, change in self._live.items() if change.requester_id in requesters}

    async def _poll_while_anybody_listens(self) -> None:
        try:
            while self._listeners:
                await asyncio.sleep(CHANGES_POLL_S)
                try:
                    await self._poll()
                except EuterpeError:
                    log.warning("the event feed could not look for changes")
        finally:
            self._polling = None

    async def _poll(self) -> None:
        requesters = sorted({listener.requester_id for listener in self._listeners})
        if not requesters:
            return
        changes = await self._store.changes(requesters, self._since, list(self._live))
        for change in changes:
            if self._is_news(change):
                for listener in self._listeners:
                    if listener.requester_id == change.requester_id:
                        listener.push(change)
            self._remember(change)
        if changes:
            self._since = max(self._since, max(change.updated_at for change in changes) - OVERLAP_US)

    def _is_news(self, change: Change) -> bool:
        live = self._live.get(change.job_id)
        known = live.sequence if live is not None else self._ended.get(change.job_id, 0)
        return change.sequence > known

    def _remember(self, change: Change) -> None:
        if change.state in TERMINAL:
            self._live.pop(change.job_id, None)
            self._ended[change.job_id] = change.sequence
            if len(self._ended) > REMEMBERED:
                del self._ended[next(iter(self._ended))]
        elif self._ended.get(change.job_id, 0) < change.sequence:
            self._live[change.job_id] = change
            if len(self._live) > FOLLOWED:
                del self._live[next(iter(self._live))]


class ChangeDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The data of one event."""

    job_id: str
    type: str
    queue: str
    state: str
    stage: str | None
    status: str
    attempt: int
    sequence: int
    updated_at: str


def event_of(change: Change) -> bytes:
    data = ChangeDocument(
        job_id=change.job_id,
        type=change.type,
        queue=change.queue,
        state=change.state,
        stage=change.stage,
        status=status(change.state, change.stage),
        attempt=change.attempt,
        sequence=change.sequence,
        updated_at=rfc3339(change.updated_at) or "",
    )
    return b"id: %d\nevent: job.%s\ndata: %s\n\n" % (
        change.updated_at,
        change.state.encode(),
        msgspec.json.encode(data),
    )


def _last_event_id(request: Request) -> int | None:
    header = request.header(b"last-event-id")
    if header is None:
        return None
    if not header.isdigit() or len(header) > 18:
        raise Refusal(422, "invalid_input", "this Last-Event-ID did not come from here", pointer="/last-event-id")
    return int(header) - OVERLAP_US
