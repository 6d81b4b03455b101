"""The outbox part: the dispatcher with its egress, its secrets and its settings, made from the configuration."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from ipaddress import ip_address
from urllib.parse import urlsplit

from euterpe.config import Config
from euterpe.keychain import keyring_for
from euterpe.observe.metrics import Metrics
from euterpe.queue.queue import Queue
from euterpe.store.secrets import WebhookSecrets
from euterpe.system.stopping import Stop
from euterpe.webhook.dispatcher import Dispatcher, DispatcherSettings, SecretsOf
from euterpe.webhook.egress import Egress
from euterpe.webhook.target import EgressPolicy
from euterpe.worker.breaker import BreakerPolicy
from euterpe.worker.identity import worker_id


async def deliver(config: Config, queue: Queue, metrics: Metrics, stop: Stop) -> None:
    """Send webhook events until told to stop."""
    async with Egress(egress_policy(config, queue.url)) as egress:
        dispatcher = Dispatcher(
            queue.store.outbox,
            egress,
            secrets_of(queue),
            settings_of(config),
            wakeups=queue.wakeups,
            telemetry=metrics,
            breaker=breaker_of(config),
        )
        loop = asyncio.get_running_loop()
        told = [loop.create_task(_stop_when(event, dispatcher)) for event in (stop.draining, stop.at_once)]
        try:
            await dispatcher.run()
        finally:
            for task in told:
                task.cancel()


async def _stop_when(event: asyncio.Event, dispatcher: Dispatcher) -> None:
    await event.wait()
    dispatcher.stop()


def secrets_of(queue: Queue) -> SecretsOf:
    """Opens a requester's secrets. The keys are looked for at the first event: most workers never send one."""
    opened: list[WebhookSecrets] = []

    async def active(requester: str) -> Sequence[str]:
        if not opened:
            opened.append(WebhookSecrets(queue.store.engine, keyring_for(queue.url, os.environ, create=False)))
        return await opened[0].active(requester)

    return active


def settings_of(config: Config) -> DispatcherSettings:
    outbox = config.outbox
    return DispatcherSettings(
        worker_id=worker_id(os.environ),
        poll_min_s=outbox.poll_min_us / 1e6,
        poll_max_s=outbox.poll_max_us / 1e6,
        batch=outbox.batch,
        concurrency=outbox.concurrency,
        max_attempts=outbox.max_attempts,
        lease_ttl_us=config.worker.heartbeat_ttl_us,
        grace_s=min(20.0, config.worker.grace_us / 1e6),
    )


def breaker_of(config: Config) -> BreakerPolicy:
    said = config.circuit_breaker
    return BreakerPolicy(said.failure_threshold, said.window_us, said.cooldown_period_us, said.min_samples)


def egress_policy(config: Config, url: str) -> EgressPolicy:
    """Loopback is open where everything is on this machine anyway: a database file, and an API bound to loopback."""
    embedded = urlsplit(url).scheme == "sqlite" and is_loopback(config.api.host)
    return EgressPolicy(
        allow_private=config.egress.allow_private,
        allow_loopback=embedded,
        allow_hosts=frozenset(config.egress.allow_hosts),
    )


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
