"""A role is a choice of parts; the parts run side by side until the process is told to stop.

A part that has work in hand (API, worker, outbox) ends by itself when it has drained; a part that helps them (sweeps,
samples) goes on until they are done. When one fails, the rest drains, and that failure is what the process ends with.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from euterpe.backends.engines import (
    connect,
    is_control_plane,
    is_redis,
    make_room,
    redis_lists_of,
    redis_tuning_of,
    wakeups_url_of,
    with_list_settings,
)
from euterpe.config import Config, retention_of
from euterpe.model.errors import InvalidInput
from euterpe.model.submitting.submission import PAYLOAD_LIMIT
from euterpe.model.urls.hosts import AllowedHosts
from euterpe.observe.job_spans import job_spans
from euterpe.observe.metrics import Metrics
from euterpe.ports import Capability, MessageWakeups, Trace
from euterpe.queue.queue import Queue, core_of, submitter_of
from euterpe.queue.steering.circuit_breaker import CircuitBreakerOptions
from euterpe.queue.worker import ServiceOptions, Worker, WorkerOptions
from euterpe.runtime.shutdown import CLOSE_S, WRITE_S
from euterpe.service.bootstrap import FirstKey, ensure_first_key
from euterpe.service.components.outbox import deliver
from euterpe.service.components.producing import files_are_produced, job_maker, produce, tree_of
from euterpe.service.components.sampling import sample_forever
from euterpe.service.components.tasks import CannotStart, Part, Parts, port_taken
from euterpe.service.components.transcoding import TranscodingPart, transcoding
from euterpe.service.health import Health
from euterpe.service.readiness import until_ready, until_rights_are_known
from euterpe.service.recycling import Recycling, recycle
from euterpe.service.signals import Stop
from euterpe.worker.heartbeat.loop_watch import LoopWatch, watching
from euterpe.worker.identity import worker_id
from euterpe.worker.sweeper import sweep_forever

log: Final = logging.getLogger("euterpe.system")


@dataclass(frozen=True, slots=True)
class Role:
    """Which parts run in this process."""

    name: str
    serves: bool
    works: bool
    produces: bool = False
    """Files become jobs, where the configuration names a folder."""

    def needs(self, key: str) -> bool:
        """Whether this role reads a key. A variable of a key that it does not read may hold anything."""
        if key in ("api.host", "api.allowed_hosts"):  # of the metrics page too
            return True
        readers = {"api": self.serves, "quotas": self.serves, "producer": self.produces}
        if key in WORKER_ALONE:
            return self.works
        return readers.get(key.partition(".")[0], True)


WORKER_ALONE: Final = frozenset({"worker.count", "worker.poll_interval", "transcode.concurrency"})
ALL: Final = Role("all", serves=True, works=True, produces=True)
API: Final = Role("api", serves=True, works=False)
WORKER: Final = Role("worker", serves=False, works=True)
OUTBOX: Final = Role("outbox", serves=False, works=False)
"""Only what every role does: the sweeps and the webhooks."""
PRODUCER: Final = Role("producer", serves=False, works=False, produces=True)
ROLES: Final = {role.name: role for role in (ALL, API, WORKER, OUTBOX, PRODUCER)}


@dataclass(frozen=True, slots=True)
class Tuning:
    """How the worker part works: from the configuration, unless the command line says otherwise."""

    concurrency: int
    queues: tuple[str, ...]
    grace_us: int
    metrics_port: int
    metrics_needed: bool = True
    """Whether a taken metrics port stops the start; else it is a warning."""
    metrics_socket: Path | None = None
    """Where one of several processes tells its metrics, instead of on a port."""
    recycling: Recycling | None = None
    """When this process ends by itself."""


@dataclass(frozen=True, slots=True)
class Started:
    """What a process can tell once its parts are up. `port` is the API's, or that of health and metrics."""

    role: Role
    url: str
    port: int | None
    first_key: FirstKey
    types: tuple[str, ...]
    """The job types that this process runs."""
    sample: str | None = None
    """A sound in the local root to try transcoding with."""
    dashboard: str | None = None
    """Where somebody at this machine is let into the dashboard, once."""


def tuning_of(config: Config) -> Tuning:
    worker = config.worker
    return Tuning(worker.count, worker.consume, worker.grace_us, config.observability.metrics_port)


async def run_role(
    role: Role,
    config: Config,
    queue: Queue,
    tuning: Tuning,
    ready: Callable[[Started], None],
    *,
    transcodes: bool = False,
) -> None:
    """Start the parts of this role on the queue's database, and run until told to stop.

    `transcodes`: with the routes and the job type of transcoding.

    On an `http://` queue only a worker or a producer can run: its control plane sweeps, delivers and measures on its
    own side."""
    core = core_of(queue)
    remote = is_control_plane(queue.url)
    if remote and role not in (WORKER, PRODUCER):
        raise CannotStart(
            f"--role={role.name} needs the database itself, and this queue is a control plane over HTTP; "
            "only --role=worker and --role=producer run on it"
        )
    use_configured_redis(config, queue)
    role = without_lacking_parts(role, core.store.capabilities)
    stop = Stop()
    metrics = Metrics(queue_labels_of(config, core.backend_url, tuning.queues))
    make_room(queue.url)
    async with AsyncExitStack() as stack:
        stack.enter_context(stop.on_signals())
        if not await until_ready(queue, config.engine.start_timeout_us / 1e6, stop.draining):
            return
        stack.push_async_exit(queue)
        if not await until_rights_are_known(core.store, stop.draining):
            return
        core.store.telemetry = metrics
        if not remote:
            apply_store_settings(config, queue)
        trace = await stack.enter_async_context(job_spans(config.observability.tracing, worker_id(os.environ)))
        system = System(role, config, queue, tuning, stop, metrics, trace, stack)
        ready(await system.start(transcodes=transcodes))
        await system.parts.until_done()
        core.shutdown.set_in(CLOSE_S - WRITE_S)
    log.info("stopped")


class System:
    """The parts of one role in this process, and what they are made from. What it opens, `stack` closes."""

    def __init__(
        self,
        role: Role,
        config: Config,
        queue: Queue,
        tuning: Tuning,
        stop: Stop,
        metrics: Metrics,
        trace: Trace | None,
        stack: AsyncExitStack,
    ) -> None:
        self.parts = Parts(stop)
        self._role = role
        self._config = config
        self._queue = queue
        self._core = core_of(queue)
        self._tuning = tuning
        self._stop = stop
        self._metrics = metrics
        self._trace = trace
        self._stack = stack
        self._watch = LoopWatch()
        stack.enter_context(watching(self._watch))

    async def start(self, *, transcodes: bool) -> Started:
        role = self._role
        media = await self._start_transcoding() if transcodes and (role.serves or role.works) else None
        first_key, port, link = await self._start_listening(media)
        self._start_work()
        self._start_helpers()
        types = self._core.handlers.types if role.works else ()
        sample = await media.make_sample() if media is not None and role.serves and role.works else None
        return Started(role, self._queue.url, port, first_key, types, sample, link)

    async def _start_transcoding(self) -> TranscodingPart | None:
        media = await self._stack.enter_async_context(
            transcoding(self._config, self._queue, self._metrics, works=self._role.works)
        )
        if media is not None:
            self.parts.start_helper(media.tidy_forever())
        return media

    async def _start_listening(self, media: TranscodingPart | None) -> tuple[FirstKey, int | None, str | None]:
        """The API, or health and metrics alone: the first key, the port, and the link into the dashboard."""
        config, tuning, metrics, stop = self._config, self._tuning, self._metrics, self._stop
        if self._role.serves:
            from euterpe.service.components.api import ApiPart  # A worker does without its packages.

            first_key = await ensure_first_key(self._core.backend_url, self._core.store, os.environ)
            api = ApiPart(config, self._queue, metrics, self._trace, stop, tuning.grace_us / 1e6)
            port, link = await api.start(self.parts, media, first_key)
            return first_key, port, link
        if tuning.metrics_socket is not None:
            hosts = AllowedHosts("localhost", ())
            health = Health(metrics.render, self._core.store.ping, stop.draining, hosts, self._watch)
            await self._stack.enter_async_context(health.listening_at(tuning.metrics_socket))
        elif tuning.metrics_port:
            health_port = await self._listen_for_health()
            return FirstKey(), health_port, None
        return FirstKey(), None, None

    async def _listen_for_health(self) -> int | None:
        host, port = self._config.api.host, self._tuning.metrics_port
        hosts = AllowedHosts(host, self._config.api.allowed_hosts)
        health = Health(self._metrics.render, self._core.store.ping, self._stop.draining, hosts, self._watch)
        try:
            return await self._stack.enter_async_context(health.listening(host, port))
        except OSError as error:
            if self._tuning.metrics_needed:
                raise port_taken("metrics page", host, port, error, "OBSERVABILITY_METRICS_PORT") from error
            log.warning("the metrics port is taken: this worker serves no metrics", extra={"host": host, "port": port})
            return None

    def _start_work(self) -> None:
        """What has work in hand, and ends by itself once it has drained."""
        config, queue, metrics, stop = self._config, self._queue, self._metrics, self._stop
        if self._role.works:
            self.parts.start(_work(config, queue, self._tuning, stop, metrics, self._trace, self._watch))
            log.info(
                "working on jobs of %d types, %d at a time",
                len(self._core.handlers.types),
                self._tuning.concurrency,
                extra={"worker_id": worker_id(os.environ), "queue": ",".join(self._tuning.queues)},
            )
        if self._role.produces and files_are_produced(config):
            self.parts.start(_producing(config, queue, stop))
        if Capability.OUTBOX in self._core.store.capabilities:
            self.parts.start(deliver(config, queue, metrics, stop))

    def _start_helpers(self) -> None:
        """What goes on until the others are done."""
        config, store, metrics = self._config, self._core.store, self._metrics
        if not is_control_plane(self._queue.url):
            if not self._role.works:
                sweep_interval_s = config.worker.sweep_interval_us / 1e6
                self.parts.start_helper(
                    sweep_forever(
                        store.sweeps, self._core.wakeups, metrics, sweep_interval_s, config.worker.heartbeat_ttl_us
                    )
                )
            sample_interval_s = config.observability.queue_sample_interval_us / 1e6
            self.parts.start_helper(sample_forever(store, metrics, sample_interval_s))
        if self._tuning.recycling is not None:
            self.parts.start_helper(recycle(self._tuning.recycling, metrics.ended, self._stop.draining.set))


def queue_labels_of(config: Config, url: str, queues: Iterable[str]) -> Iterable[str]:
    """The queue names that metrics may carry: those that are consumed or named for it, and the lists, whose names the
    URL may change."""
    lists = redis_lists_of(url)
    named = () if lists is None else lists.by_priority.values()
    return dict.fromkeys((*named, *config.worker.consume, *config.observability.queues, *queues))


def without_lacking_parts(role: Role, capabilities: frozenset[Capability]) -> Role:
    """Redis lists serve no API: with them, `all` is producer and worker."""
    if not role.serves or Capability.CONTROL_PLANE in capabilities:
        return role
    if not role.works:
        raise CannotStart(f"--role={role.name} needs a SQL database; this engine serves no API")
    log.info("this engine serves no API: the worker and the producer run without it")
    return replace(role, serves=False)


def use_configured_redis(config: Config, queue: Queue) -> None:
    """The Redis Streams that the configuration names carry this queue's wake-ups, unless it names some of its own. A
    queue in Redis lists has the names and times of the configuration."""
    core, wakeups_url = core_of(queue), wakeups_url_of(config)
    if is_redis(queue.url):
        url = with_list_settings(config, core.backend_url)
        core.exchange_backend(connect(url, payload_limit=core.payload_limit, redis=redis_tuning_of(config)))
        return
    if wakeups_url is None or is_control_plane(queue.url) or isinstance(core.wakeups, MessageWakeups):
        return
    core.exchange_backend(
        connect(queue.url, payload_limit=core.payload_limit, wakeups_url=wakeups_url, redis=redis_tuning_of(config))
    )


def apply_store_settings(config: Config, queue: Queue) -> None:
    """The sweeps of this process remove what the configuration no longer keeps; its keys last as long as said. An API
    or a dispatcher that freezes inside a transaction holds jobs and events no longer than a worker may."""
    retention = config.retention
    store = core_of(queue).store
    store.expect_leases_of(config.worker.heartbeat_ttl_us / 1e6)
    store.sweeps.retention = retention_of(retention)
    store.key_window_us = retention.idempotency_us
    if config.engine.max_payload_bytes != PAYLOAD_LIMIT:  # Else an app's own `Queue(payload_limit=...)` stays.
        core_of(queue).payload_limit = store.payload_limit = config.engine.max_payload_bytes


async def _work(
    config: Config,
    queue: Queue,
    tuning: Tuning,
    stop: Stop,
    metrics: Metrics,
    trace: Trace | None,
    watch: LoopWatch,
) -> None:
    options = options_of(config, tuning)
    options["webhooks"] = False  # a part of its own, in every role
    options["telemetry"] = metrics
    options["stop"] = stop.draining
    sweep_interval_s = config.worker.sweep_interval_us / 1e6
    service = ServiceOptions(at_once=stop.at_once, sweep_interval_s=sweep_interval_s, trace=trace, watch=watch)
    await Worker(submitter_of(queue), tuning.concurrency, options, service).run()


def options_of(config: Config, tuning: Tuning) -> WorkerOptions:
    """The options of `queue.work()` that the configuration names. Its defaults are those of `queue.work()`."""
    return {
        "queues": tuning.queues,
        "lease": config.worker.heartbeat_ttl_us / 1e6,
        "grace": tuning.grace_us / 1e6,
        "poll": config.worker.poll_interval_us / 1e6,
        "circuit_breaker": breaker_of(config),
        "log_lines": config.worker.log_lines,
        "requester_share": config.worker.requester_share,
    }


def breaker_of(config: Config) -> CircuitBreakerOptions | bool:
    """When the worker of a role leaves a queue alone that keeps failing."""
    settings = config.circuit_breaker
    if not settings.enabled:
        return False
    return {
        "failure_threshold": settings.failure_threshold,
        "window": settings.window_us / 1e6,
        "cooldown_period": settings.cooldown_period_us / 1e6,
        "min_samples": settings.min_samples,
    }


def _producing(config: Config, queue: Queue, stop: Stop) -> Part:
    """Raises CannotStart before anything runs where the folder or a preset is not there."""
    try:
        tree = tree_of(config)
        make_job = job_maker(config, queue, tree)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise CannotStart(f"producer.scan_dir: {config.producer.scan_dir} cannot be read ({reason})") from None
    except InvalidInput as error:
        raise CannotStart(str(error)) from None
    return produce(config, queue, tree, make_job, stop.draining)
