"""What delivering webhooks takes beside the dispatcher: its egress policy, its settings and the opened secrets.

Every process that delivers takes them from here, be it a role of the command line or a worker in a user's own process.
Apart from both because it brings the cipher library and the HTTP client, which most processes never need.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import urlsplit

from euterpe.backends.accounts import webhook_secrets
from euterpe.backends.keychain import keyring_for
from euterpe.config import Config, load_config
from euterpe.egress.client import Egress
from euterpe.egress.target import EgressPolicy
from euterpe.model.accounts import UnknownSecret
from euterpe.model.failures.circuit_breaker import BreakerPolicy
from euterpe.model.urls.hosts import is_loopback
from euterpe.ports import OutboxStore, Store, Wakeups
from euterpe.webhook.dispatcher import Dispatcher, DispatcherSettings, OutboxTelemetry, SecretsOf

log = logging.getLogger("euterpe.outbox")

LONGEST_GRACE_S: Final = 20.0
KEPT_OPEN_S: Final = 5.0
"""How long a rotated or retired secret may take to be noticed; receivers know both while one is rotated."""


OURS: Final = ("OUTBOX_", "EGRESS_", "CIRCUIT_BREAKER_")


def config_of(environ: Mapping[str, str]) -> Config:
    """What the environment says of deliveries, for a process that has no configuration file.

    Nothing else of it is read: an unrelated process may have an API_PORT or a REDIS_DB of another meaning."""
    mine = {
        name: value
        for name, value in environ.items()
        if (bare := name.removeprefix("EUTERPE_")).startswith(OURS) or bare == "API_HOST"
    }
    return load_config(None, mine)


class OpenedSecrets:
    """The active secrets of each requester, kept open for a moment: events come in bursts, secrets change in months."""

    def __init__(
        self, url: str, store: Store, environ: Mapping[str, str], monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        """Raises InvalidKeyring when there are no keys to open them with."""
        self._monotonic_s = monotonic_s
        self._secrets = webhook_secrets(store, keyring_for(url, environ, create=False))
        self._open: dict[str, tuple[float, Sequence[str]]] = {}
        self._complained: set[str] = set()

    async def active(self, requester: str) -> Sequence[str]:
        now = self._monotonic_s()
        expires_at, kept = self._open.get(requester, (0.0, ()))
        if now < expires_at:
            return kept
        found = await self._secrets.active(requester)
        if not found:
            raise self._unknown(requester)
        self._open = {name: entry for name, entry in self._open.items() if now < entry[0]}
        self._open[requester] = (now + KEPT_OPEN_S, found)
        return found

    def _unknown(self, requester: str) -> UnknownSecret:
        error = UnknownSecret(
            f"there is none yet, so webhooks wait; `euterpe keys secrets rotate --requester {requester}` makes one"
        )
        if requester not in self._complained:
            self._complained.add(requester)
            log.warning(
                "no webhook secret, so webhooks wait: `euterpe keys secrets rotate --requester` makes one",
                extra={"requester_id": requester},
            )
        return error


def secrets_when_needed(url: str, store: Store, environ: Mapping[str, str]) -> SecretsOf:
    """Opens a requester's secrets. The keys are looked for at the first event: most processes never send one."""
    opened: list[OpenedSecrets] = []

    async def active(requester: str) -> Sequence[str]:
        if not opened:
            opened.append(OpenedSecrets(url, store, environ))
        return await opened[0].active(requester)

    return active


@asynccontextmanager
async def dispatcher_of(
    config: Config,
    url: str,
    outbox: OutboxStore,
    wakeups: Wakeups | None,
    secrets_of: SecretsOf,
    settings: DispatcherSettings,
    telemetry: OutboxTelemetry | None = None,
) -> AsyncIterator[Dispatcher]:
    """A dispatcher that is ready to run, with an egress of its own."""
    async with Egress(egress_policy(config, url)) as egress:
        yield Dispatcher(
            outbox,
            egress,
            secrets_of,
            settings,
            wakeups=wakeups,
            telemetry=telemetry,
            breaker=breaker_policy(config),
        )


def dispatcher_settings(config: Config, worker_id: str, lease_ttl_us: int, grace_s: float) -> DispatcherSettings:
    outbox = config.outbox
    return DispatcherSettings(
        worker_id=worker_id,
        poll_min_s=outbox.poll_min_us / 1e6,
        poll_max_s=outbox.poll_max_us / 1e6,
        batch=outbox.batch,
        concurrency=outbox.concurrency,
        max_attempts=outbox.max_attempts,
        lease_ttl_us=lease_ttl_us,
        grace_s=min(LONGEST_GRACE_S, grace_s),
    )


def breaker_policy(config: Config) -> BreakerPolicy:
    settings = config.circuit_breaker
    return BreakerPolicy(
        settings.failure_threshold, settings.window_us, settings.cooldown_period_us, settings.min_samples
    )


def egress_policy(config: Config, url: str) -> EgressPolicy:
    """Loopback is open where everything is on this machine anyway: a database file, and an API bound to loopback;
    unless the operator says that nothing private may be called."""
    embedded = urlsplit(url).scheme == "sqlite" and is_loopback(config.api.host)
    return EgressPolicy(
        allow_private=config.egress.allow_private is True,
        allow_loopback=embedded and config.egress.allow_private is not False,
        allow_hosts=frozenset(config.egress.allow_hosts),
    )
