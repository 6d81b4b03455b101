"""The control plane as one ASGI application: the parts put together, started and stopped."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Final

import msgspec

from euterpe.model.accounts import Scope
from euterpe.observe.log_context import logging_with
from euterpe.ports import Store, Telemetry, Trace
from euterpe.server.auth import Authenticator, Keys
from euterpe.server.docs_page import docs_page
from euterpe.server.http.asgi import AsgiScope, Receive, Send
from euterpe.server.http.limits import Limits, RequestRate
from euterpe.server.http.request_ids import request_id_of, with_request_id
from euterpe.server.http.router import AnyRoute, Router
from euterpe.server.job_types import JobTypes
from euterpe.server.long_poll import LongPoll
from euterpe.server.openapi import openapi_document
from euterpe.server.quotas import Quotas
from euterpe.server.routes.admin import AdminRoutes, admin_routes
from euterpe.server.routes.bulk import BulkRoutes
from euterpe.server.routes.bulk_table import bulk_routes
from euterpe.server.routes.events import Feed
from euterpe.server.routes.jobs import JobRoutes
from euterpe.server.routes.outbox import OutboxRoutes
from euterpe.server.routes.spawn import SpawnRoutes
from euterpe.server.routes.system import Check, Description, MetricsRender, SystemRoutes
from euterpe.server.routes.table import event_routes, job_routes, system_routes, worker_routes
from euterpe.server.routes.worker import WorkerRoutes
from euterpe.server.worker_presence import WorkerPresence
from euterpe.wakeups.local import LocalWakeups

DISTRIBUTION: Final = "euterpe-queue"
DEFAULT_LIMITS: Final = Limits()
TakeRequest = Callable[[str, str], None]
"""Count a request of a key and its requester. Raises Refusal (429) when it comes too fast."""
MoreRoutes = Callable[[Quotas, TakeRequest], Sequence[AnyRoute]]
"""Routes of a part that the server knows nothing of; they count against the same quotas."""

log: Final = logging.getLogger("euterpe.api")


class ControlPlane:
    """An ASGI application over an open store, which its maker opens and closes."""

    def __init__(
        self,
        router: Router,
        coordinator: LongPoll,
        feed: Feed,
        system: SystemRoutes,
        presence: WorkerPresence,
    ) -> None:
        self._router = router
        self._presence = presence
        self._coordinator = coordinator
        self._feed = feed
        self._system = system

    @property
    def routes(self) -> tuple[AnyRoute, ...]:
        return self._router.routes

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            request_id = request_id_of(scope)
            with logging_with(request_id=request_id):
                await self._router.serve(scope, receive, with_request_id(request_id, send))
        elif scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        else:
            raise NotImplementedError(f"no {scope['type']} here")

    def drain(self) -> None:
        """Before stopping: not ready any more, long polls are answered at once, streams end."""
        self._system.draining = True
        self._coordinator.drain()
        self._feed.drain()

    async def close(self) -> None:
        """After the last request: give back what nobody took and end what runs in the background."""
        self.drain()
        await self._coordinator.close()
        await self._feed.close()
        await self._presence.close()

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await self.close()
                await send({"type": "lifespan.shutdown.complete"})
                return


def create_app(
    store: Store,
    keys: Keys,
    *,
    metrics_render: MetricsRender | None = None,
    readiness: Mapping[str, Check] | None = None,
    limits: Limits = DEFAULT_LIMITS,
    telemetry: Telemetry | None = None,
    trace: Trace | None = None,
    job_types: JobTypes = {},  # noqa: B006  # read only
    more_routes: MoreRoutes = lambda _quotas, _take: (),
) -> ControlPlane:
    """The control plane. `readiness` adds named checks to that of the store; `/metrics` is there with a render.

    `job_types`: those of the application, if it is known here; what they declare applies to submissions.
    `more_routes`: those of parts that the server knows nothing of."""
    if store.wakeups is None:
        store.wakeups = LocalWakeups()
    if store.telemetry is None:
        store.telemetry = telemetry
    claims = store.control_plane
    coordinator = LongPoll(
        claims.claim_for,
        store.settle,
        store.wakeups,
        lease_ttl_us=limits.lease_ttl_us,
        poll_s=(limits.poll_min_s, limits.poll_max_s),
    )
    authenticator = Authenticator(
        keys,
        RequestRate(limits.rate_per_s, limits.rate_burst),
        limits.key_ttl_s,
        requester_limit=RequestRate(limits.requester_rate_per_s, limits.rate_burst),
    )
    feed = Feed(
        claims,
        store.now_us,
        lambda request: authenticator.still_allows(request, Scope.READ),
        limits.max_listeners,
        limits.max_listeners_per_requester,
    )
    presence = WorkerPresence(store.workers)
    workers = WorkerRoutes(
        claims,
        store.sweeps,
        coordinator,
        store.wakeups,
        telemetry,
        presence,
        max_wait_ms=limits.max_wait_ms,
        lease_ttl_us=limits.lease_ttl_us,
        trace=trace,
    )
    checks: dict[str, Check] = {"store": store.ping, **(readiness or {})}
    system = SystemRoutes(checks, limits.ready_timeout_s, metrics_render)
    quotas = Quotas(claims, limits.quota)
    routes = [
        *job_routes(JobRoutes(store, store.wakeups, quotas, job_types)),
        *bulk_routes(BulkRoutes(store, quotas)),
        *event_routes(feed, OutboxRoutes(store.outbox)),
        *admin_routes(AdminRoutes(store, store.wakeups)),
        *worker_routes(workers, SpawnRoutes(store, claims, job_types)),
        *more_routes(quotas, authenticator.take_request),
        *system_routes(system, with_metrics=metrics_render is not None),
    ]
    system.describe = lambda: _description(routes)
    return ControlPlane(Router(routes, authenticator, limits), coordinator, feed, system, presence)


def _description(routes: Sequence[AnyRoute]) -> Description:
    document = openapi_document([route for route in routes if not route.is_page], _version())
    return Description(msgspec.json.encode(document), docs_page(document))


def _version() -> str:
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:  # run from a source tree that was never installed
        return "0"
