"""The API and the dashboard as a part of a role: made from the configuration, and listening before anybody is told."""

from __future__ import annotations

import asyncio
from typing import Final

from euterpe.backends.accounts import api_keys
from euterpe.config import Config
from euterpe.dashboard.dashboard import Dashboard
from euterpe.observe.metrics import Metrics
from euterpe.ports import Trace
from euterpe.queue.queue import Queue, core_of
from euterpe.server.app import ControlPlane, create_app
from euterpe.server.http.connections import ConnectionLimits, OpenConnections
from euterpe.server.http.limits import Limits
from euterpe.server.http.uvicorn_server import serve
from euterpe.server.quotas import Quota
from euterpe.service.bootstrap import FirstKey
from euterpe.service.components.dashboard import dashboard_of, one_time_link
from euterpe.service.components.tasks import CannotStart, Parts, port_taken
from euterpe.service.components.transcoding import TranscodingPart
from euterpe.service.signals import Stop

LONGEST_GRACE_S: Final = 10.0


class ApiPart:
    """What the API is made from."""

    def __init__(
        self, config: Config, queue: Queue, metrics: Metrics, trace: Trace | None, stop: Stop, grace_s: float
    ) -> None:
        self._config = config
        self._queue = queue
        self._metrics = metrics
        self._trace = trace
        self._stop = stop
        self._grace_s = min(LONGEST_GRACE_S, grace_s)

    async def start(self, parts: Parts, media: TranscodingPart | None, first_key: FirstKey) -> tuple[int, str | None]:
        """Start and wait until it listens. The port it got, should the configuration say 0, and where somebody at this
        machine is let into the dashboard."""
        local_root = None if media is None else self._config.transcode.local_root or None
        dashboard = dashboard_of(self._queue, self._stop.draining, local_root)
        app = self._app(dashboard, media)
        return await self._listen(app, parts), one_time_link(dashboard, self._config.api.host, first_key)

    def _app(self, dashboard: Dashboard, media: TranscodingPart | None) -> ControlPlane:
        core = core_of(self._queue)
        return create_app(
            core.store,
            api_keys(core.store),
            metrics_render=self._metrics.render,
            telemetry=self._metrics,
            trace=self._trace,
            job_types=core.definitions,
            more_routes=lambda quotas, take_request: [
                *dashboard.routes(quotas, take_request),
                *(() if media is None else media.routes(quotas)),
            ],
            limits=limits_of(self._config),
        )

    async def _listen(self, app: ControlPlane, parts: Parts) -> int:
        api = self._config.api
        loop = asyncio.get_running_loop()
        listening: asyncio.Future[int] = loop.create_future()
        serving = loop.create_task(
            serve(
                app,
                api.host,
                api.port,
                stop=self._stop.draining,
                started=listening.set_result,
                grace_s=self._grace_s,
                at_once=self._stop.at_once,
                connections=OpenConnections(ConnectionLimits(max_connections=api.max_connections)),
                allowed_hosts=api.allowed_hosts,
            )
        )
        await asyncio.wait((listening, serving), return_when=asyncio.FIRST_COMPLETED)
        if listening.done():
            parts.add(serving)
            return listening.result()
        try:
            await serving
        except OSError as error:
            raise port_taken("API", api.host, api.port, error, "API_PORT") from error
        raise CannotStart("the API ended before it had begun")


def limits_of(config: Config) -> Limits:
    return Limits(
        max_body_bytes=config.api.max_body_bytes,
        rate_per_s=config.api.rate_limit,
        rate_burst=config.api.rate_burst,
        requester_rate_per_s=config.quotas.requests,
        quota=Quota(
            waiting_jobs=config.quotas.waiting_jobs,
            waiting_bytes=config.quotas.waiting_bytes,
            idempotency_keys=config.quotas.idempotency_keys,
        ),
        lease_ttl_us=config.worker.heartbeat_ttl_us,
    )
