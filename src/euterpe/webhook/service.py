"""Webhooks inside a worker: an open ear until the first event is there, and from then on the dispatcher.

Most queues never have an event. So the cipher library, the HTTP client and the polls of a dispatcher come with the
first one; until then there is a look when a hint comes, and a rare one for events that come without.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
from typing import TYPE_CHECKING, Final, Protocol

from euterpe.model.errors import EuterpeError, MissingExtra
from euterpe.model.extras import needing
from euterpe.ports import OUTBOX_CHANNEL, Store, Telemetry, Wakeups
from euterpe.runtime.outage import Outage
from euterpe.runtime.shutdown import WRITE_S, ShutdownDeadline
from euterpe.runtime.wait import happens_within
from euterpe.worker.settings import WorkerSettings

if TYPE_CHECKING:  # They bring the cipher library and the HTTP client.
    from euterpe.config import Config
    from euterpe.webhook.dispatcher import Dispatcher
    from euterpe.webhook.settings import OpenedSecrets

log = logging.getLogger("euterpe.outbox")

EVENTS_CHECK_S: Final = 10.0
"""How long an event may lie unnoticed whose hint was lost, or that came without one."""
SPACING_S: Final = 0.5
"""On SQLite every commit is a hint; a busy worker without events shall not look at each."""
LAST_SENDS_S: Final = 2.0
"""For sends under way when the worker is cancelled: cut off, they would arrive twice."""


class OpenQueue(Protocol):
    """The queue whose events are delivered."""

    url: str
    shutdown: ShutdownDeadline

    @property
    def backend_url(self) -> str: ...
    @property
    def store(self) -> Store: ...
    @property
    def wakeups(self) -> Wakeups: ...


class WebhookService:
    """Delivers the webhooks of one worker's database, beside every other process that does."""

    def __init__(self, queue: OpenQueue, settings: WorkerSettings, telemetry: Telemetry | None = None) -> None:
        self._queue = queue
        self._settings = settings
        self._telemetry = telemetry
        self._loop = asyncio.get_running_loop()
        self._hint = asyncio.Event()
        self._leaving = asyncio.Event()
        self._leave_at: float | None = None
        self._dispatcher: Dispatcher | None = None
        self._warned = False
        self._outage = Outage(log, "the look for webhook events")
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = self._loop.create_task(self._run())

    def expect_end(self, within_s: float) -> None:
        """The worker is told to leave. Sends have so long, those of the jobs that finish meanwhile too; told again,
        none at all."""
        again = self._leave_at is not None
        self._leave_at = self._loop.time() + (0.0 if again else within_s)

    async def close(self) -> None:
        """Claim no more events; what is under way is sent and settled in the time that is left, or given back."""
        if self._task is None:
            return
        left_s = LAST_SENDS_S if self._leave_at is None else max(0.0, self._leave_at - self._loop.time())
        self._leaving.set()
        self._hint.set()
        if self._dispatcher is not None:
            self._dispatcher.stop(left_s)
        left_s += WRITE_S  # for the last settles, when the sends are over
        await asyncio.wait({self._task}, timeout=self._queue.shutdown.left_s(left_s))
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while not self._leaving.is_set():
            try:
                means = await self._until_needed()
                if means is not None:
                    await self._deliver(*means)
            except Exception as error:  # a service that stays away is worse than one that complains
                log.error("the delivery of webhooks failed and begins anew", exc_info=error)
                await happens_within(EVENTS_CHECK_S, self._leaving)

    async def _until_needed(self) -> tuple[Config, OpenedSecrets] | None:
        """The configuration and the opened secrets, once there is an event; None when the worker leaves."""
        unsubscribe = self._queue.wakeups.subscribe(self._hint.set, [OUTBOX_CHANNEL])
        try:
            while not self._leaving.is_set():
                self._hint.clear()
                if await self._has_events() and (means := self._means()) is not None:
                    return means
                await happens_within(SPACING_S, self._leaving)
                await happens_within(EVENTS_CHECK_S * random.uniform(0.5, 1.0), self._hint)
            return None
        finally:
            unsubscribe()

    async def _has_events(self) -> bool:
        try:
            found = await self._queue.store.outbox.has_waiting()
        except EuterpeError as error:
            self._outage.pause_after(error)
            return False
        self._outage.over()
        return found

    def _means(self) -> tuple[Config, OpenedSecrets] | None:
        """Who lacks the keys claims nothing: deliveries that must fail would use up the attempts of those who can."""
        try:
            with needing("the delivery of webhooks", "webhooks"):
                from euterpe.webhook.settings import OpenedSecrets, config_of
            return config_of(os.environ), OpenedSecrets(self._queue.backend_url, self._queue.store, os.environ)
        except MissingExtra:
            if not self._warned:
                self._warned = True
                log.warning(
                    "webhooks wait, this worker cannot send them: pip install 'euterpe-queue[webhooks]'; "
                    "queue.work(webhooks=False) leaves sending to other processes"
                )
            return None
        except EuterpeError as error:
            if not self._warned:
                self._warned = True
                log.warning(
                    "webhooks wait, this worker cannot send them: `euterpe keys create` makes the keys with a "
                    "requester's secret; queue.work(webhooks=False) leaves sending to other processes",
                    exc_info=error,
                )
            return None

    async def _deliver(self, config: Config, secrets: OpenedSecrets) -> None:
        from euterpe.webhook.settings import dispatcher_of, dispatcher_settings

        queue, mine = self._queue, self._settings
        settings = dispatcher_settings(config, mine.worker_id, mine.lease_ttl_us, mine.grace_s)
        async with dispatcher_of(
            config, queue.url, queue.store.outbox, queue.wakeups, secrets.active, settings, self._telemetry
        ) as dispatcher:
            self._dispatcher = dispatcher
            try:
                if not self._leaving.is_set():
                    log.info("an event is there: this worker delivers webhooks from now on")
                    await dispatcher.run()
            finally:
                self._dispatcher = None
