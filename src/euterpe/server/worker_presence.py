"""Which workers over HTTP are alive. Ours register themselves in an exchange; of any other a claim is taken for it.

What is learned from claims is written beside them, for all such workers at once and every now and then.
"""

from __future__ import annotations

import asyncio
import logging
import random
from typing import Final

from euterpe.model.claims.presence import Presence, WorkerFacts
from euterpe.model.errors import EuterpeError
from euterpe.ports import WorkerRegistry
from euterpe.runtime.outage import Outage
from euterpe.server.http.asgi import Request
from euterpe.wire.worker import OWN_REGISTRATION, ClaimCriteria, Registration
from euterpe.wire.workers import presence_of

log: Final = logging.getLogger("euterpe.api")

PAUSE_S: Final = (15.0, 25.0)
KNOWN: Final = 10_000
"""Workers that are remembered. Of more, those that claimed first are heard of again when they claim again."""


class WorkerPresence:
    """What the worker routes tell it; it never keeps a claim waiting."""

    def __init__(self, registry: WorkerRegistry) -> None:
        self._registry = registry
        self._known: dict[str, WorkerFacts] = {}
        self._seen: set[str] = set()
        self._writing: asyncio.Task[None] | None = None

    async def register(self, worker_id: str, registration: Registration, *, must: bool) -> None:
        """A worker registers itself, or has ended. Unless it must, a failure is logged: jobs come first."""
        self._seen.discard(worker_id)
        self._known.pop(worker_id, None)
        try:
            if registration.leaving:
                await self._registry.unregister(worker_id)
            else:
                await self._registry.register([presence_of(worker_id, registration)])
        except EuterpeError as error:
            if must:
                raise
            keys = {"worker_id": worker_id, "error_code": type(error).__name__}
            log.warning("a worker could not be registered; its reports go on", extra=keys)

    def claims(self, request: Request, worker_id: str, wanted: ClaimCriteria) -> None:
        name, own = OWN_REGISTRATION
        if request.header(name) == own:
            return
        types = None if wanted.types is None else tuple(wanted.types)
        self._known[worker_id] = WorkerFacts(queues=tuple(wanted.streams), types=types)
        while len(self._known) > KNOWN:
            del self._known[next(iter(self._known))]
        self._note_seen(worker_id)

    def beats(self, worker_id: str) -> None:
        """It works, and claims nothing meanwhile."""
        if worker_id in self._known:
            self._note_seen(worker_id)

    def _note_seen(self, worker_id: str) -> None:
        self._seen.add(worker_id)
        if self._writing is None:
            self._writing = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        """Until nobody has been heard of for a while."""
        outage = Outage(log, "the registry of workers")
        while self._seen:
            seen, self._seen = self._seen, set()
            alive = [Presence(worker_id=name, facts=self._known[name]) for name in seen if name in self._known]
            try:
                await self._registry.register(alive)
            except Exception as error:  # noqa: BLE001  # no claim depends on it
                self._seen |= seen
                pause_s = outage.pause_after(error)
            else:
                outage.over()
                pause_s = random.uniform(*PAUSE_S)
            await asyncio.sleep(pause_s)
        self._writing = None

    async def close(self) -> None:
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.cancel()
            await asyncio.wait({writing})
