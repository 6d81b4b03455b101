"""The outbox part of a role: the dispatcher, from the configuration to its end."""

from __future__ import annotations

import asyncio
import os

from euterpe.config import Config
from euterpe.observe.metrics import Metrics
from euterpe.queue.queue import Queue, core_of
from euterpe.service.signals import Stop
from euterpe.webhook.dispatcher import Dispatcher
from euterpe.webhook.settings import dispatcher_of, dispatcher_settings, secrets_when_needed
from euterpe.worker.identity import worker_id


async def deliver(config: Config, queue: Queue, metrics: Metrics, stop: Stop) -> None:
    """Send webhook events until told to stop."""
    worker = config.worker
    settings = dispatcher_settings(config, worker_id(os.environ), worker.heartbeat_ttl_us, worker.grace_us / 1e6)
    core = core_of(queue)
    secrets_of = secrets_when_needed(core.backend_url, core.store, os.environ)
    async with dispatcher_of(
        config, queue.url, core.store.outbox, core.wakeups, secrets_of, settings, metrics
    ) as dispatcher:
        loop = asyncio.get_running_loop()
        watchers = [loop.create_task(_stop_when(event, dispatcher)) for event in (stop.draining, stop.at_once)]
        try:
            await dispatcher.run()
        finally:
            for task in watchers:
                task.cancel()


async def _stop_when(event: asyncio.Event, dispatcher: Dispatcher) -> None:
    await event.wait()
    dispatcher.stop()
