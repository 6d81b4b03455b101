"""A running worker: the loop, the sweeps, the webhooks, the cron clock, and how it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from signal import Signals
from typing import Any, Final

import euterpe
from euterpe import lease_keeper
from euterpe.backends.engines import connect
from euterpe.backends.rights import check_rights
from euterpe.model.claims.exchange import SettleResult
from euterpe.model.errors import EuterpeError, Unsupported
from euterpe.model.state import State
from euterpe.ports import Capability, CronStore, Store, Telemetry, Trace
from euterpe.queue.core import QueueCore
from euterpe.queue.definition.cron_clock import keep_time
from euterpe.queue.submitting.submitter import Submitter
from euterpe.queue.worker import Controls, ServiceOptions
from euterpe.runtime.signals import on_signals
from euterpe.webhook.service import WebhookService
from euterpe.worker.handling.handlers import Handlers
from euterpe.worker.handling.lifespan import opened
from euterpe.worker.heartbeat.keeper import KeeperProcess
from euterpe.worker.heartbeat.loop_watch import Block, LoopWatch, watching
from euterpe.worker.heartbeat.registration import WorkerRegistration, registered
from euterpe.worker.identity import worker_id
from euterpe.worker.loop import WorkerLoop
from euterpe.worker.settings import WorkerSettings
from euterpe.worker.sweeper import Sweeper

log = logging.getLogger("euterpe.worker")

TRACING_VARIABLES: Final = ("OBSERVABILITY_TRACING_", "EUTERPE_OBSERVABILITY_TRACING_")
FIRST_LOOK_S: Final = 2.0
UNKNOWN_TYPES_CHECK_S: Final = 60.0
SWEEP_PATIENCE_S: Final = 1.0
TELL_S: Final = 10.0
HANDS_FILES_ON: Final = os.name == "posix"
"""Whether a child can be handed an open file, as a lease keeper is. On Windows leases are renewed on the event loop."""


async def run_worker(
    submitter: Submitter,
    settings: WorkerSettings,
    service: ServiceOptions,
    *,
    signals: Sequence[Signals],
    stop: asyncio.Event | None,
    webhooks: bool,
    telemetry: Telemetry | None,
    started: Callable[[Controls], None],
) -> None:
    """Work until told to stop: `stop` or a first signal drains, `at_once` or a second one gives everything back."""
    core = submitter.core
    _check_platform(core.handlers)
    await check_rights(core.store)  # Of a database that goes away right now: the loop waits for it, as at any time.
    async with traced(service.trace, core.store) as trace, opened(core.hooks, core.handlers, core.shutdown) as hooks:
        core.store.expect_leases_of(settings.lease_ttl_us / 1e6)
        sweeper = Sweeper(core.store.sweeps, core.wakeups, telemetry, service.sweep_interval_s, settings.lease_ttl_us)
        webhook_service = WebhookService(core, settings, telemetry)
        webhooks = webhooks and Capability.OUTBOX in core.store.capabilities

        def settled(job_ids: Sequence[str], verdict: SettleResult) -> None:
            core.settled(job_ids, verdict)
            if verdict.state is State.RETRYING:
                sweeper.expect(verdict.delay_us)

        worker = WorkerLoop(
            core.store,
            core.handlers,
            settings,
            wakeups=core.wakeups,
            keeper=KeeperProcess(lease_keeper.COMMAND, core.backend_url) if service.keeper and HANDS_FILES_ON else None,
            spawn=core.spawn,
            make_submission=submitter.make_submission,
            telemetry=telemetry,
            settled=settled,
            trace=trace,
            shutdown=core.shutdown,
            circuits=None if settings.breaker is None else core.circuits_of(settings.breaker),
            completions=core.store,
            hooks=hooks,
            charge=core.charge,
            release_unbegun=core.store.sweeps.release_unbegun,
        )

        def drain() -> None:
            webhook_service.expect_end(settings.grace_s)
            worker.stop()

        def release() -> None:
            webhook_service.expect_end(0.0)
            worker.stop_at_once()

        side_work = [] if stop is None else [_when(stop, drain)]
        if service.at_once is not None:
            side_work.append(_when(service.at_once, release))
        if service.sweep:
            side_work.append(_warn_of_unknown_types(core, settings.queues))
        if core.crons:
            side_work.append(keep_time(submitter, core.crons, store=_cron_store(core.store)))
        watch = service.watch or LoopWatch()
        registration = _registration(core.store, settings.worker_id, worker, watch)
        if registration is not None:
            watch.on_block = partial(_register_block, core.backend_url, registration)
        with on_signals(signals, drain), _counted_by(telemetry, core.store), watching(watch):
            async with (
                _side_work_running(
                    core, side_work, sweeper if service.sweep else None, webhook_service if webhooks else None
                ),
                registered(registration, core.shutdown),
            ):
                started(Controls(drain, release, lambda: worker.is_stopping, lambda: worker.running))
                await worker.run()


@asynccontextmanager
async def traced(trace: Trace | None, store: Store) -> AsyncIterator[Trace | None]:
    """What opens the span of an attempt: the given one; else, as for a process that has no configuration file, what the
    environment asks for."""
    if trace is not None or not any(name.startswith(TRACING_VARIABLES) for name in os.environ):
        _expect_own_spans(trace, store)
        yield trace
        return
    from euterpe.observe.job_spans import job_spans, tracing_of

    async with job_spans(tracing_of(os.environ), worker_id(os.environ)) as asked_for:
        _expect_own_spans(asked_for, store)
        yield asked_for


def _expect_own_spans(trace: Trace | None, store: Store) -> None:
    if trace is not None:
        store.expect_own_spans()


def _check_platform(handlers: Handlers) -> None:
    in_processes = [handler.type for handler in handlers.by_type.values() if handler.mode == "process"]
    if in_processes and not HANDS_FILES_ON:
        raise Unsupported(
            f"{in_processes[0]} has process=True, which needs Unix; leave it out, and it runs in a thread"
        )


@contextmanager
def _counted_by(telemetry: Telemetry | None, store: Store) -> Iterator[None]:
    """What the store does beside the worker's own attempts (sweeps, dependents, submits) is counted in the same place,
    unless the process counts it elsewhere already."""
    if store.telemetry is not None:
        yield
        return
    store.telemetry = telemetry
    try:
        yield
    finally:
        store.telemetry = None


@asynccontextmanager
async def _side_work_running(
    core: QueueCore,
    side_work: Sequence[Coroutine[Any, Any, None]],
    sweeper: Sweeper | None,
    webhook_service: WebhookService | None,
) -> AsyncIterator[None]:
    """What runs beside the worker. Sweeps and webhooks end by themselves, the rest is cancelled."""
    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(work) for work in side_work]
    sweeping = loop.create_task(sweeper.run()) if sweeper is not None else None
    if sweeping is not None:
        tasks.append(sweeping)
    for task in tasks:
        task.add_done_callback(_report_failure)
    if webhook_service is not None:
        webhook_service.start()
    try:
        yield
    finally:
        if sweeper is not None:
            sweeper.stop()
        if webhook_service is not None:
            await webhook_service.close()
        if sweeping is not None:
            await asyncio.wait({sweeping}, timeout=core.shutdown.left_s(SWEEP_PATIENCE_S))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _report_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("a part of the worker has ended; the rest goes on", exc_info=error)


async def _when(event: asyncio.Event, act: Callable[[], None]) -> None:
    await event.wait()
    act()


def _cron_store(store: Store) -> CronStore | None:
    """Where crons are rows; None for a control plane, whose workers know their own declarations alone."""
    return store.crons if Capability.CRONS in store.capabilities else None


def _register_block(url: str, registration: WorkerRegistration, block: Block) -> None:
    """In the watching thread, with a connection of its own: nothing that needs the loop would come."""

    async def register() -> None:
        store = connect(url).store
        async with asyncio.timeout(TELL_S):
            await store.open()
            try:
                await store.workers.register([registration.presence(block.where)])
            finally:
                await store.close()

    asyncio.run(register())


def _registration(store: Store, worker_id: str, worker: WorkerLoop, watch: LoopWatch) -> WorkerRegistration | None:
    if Capability.WORKERS not in store.capabilities:
        return None

    def changes() -> int:
        return worker.breaker_changes + worker.is_stopping + watch.blocks

    return WorkerRegistration(store.workers, worker_id, euterpe.__version__, worker.facts, changes)


async def _warn_of_unknown_types(core: QueueCore, queues: Sequence[str]) -> None:
    """Jobs of types that nobody here knows wait for a worker that does; say so now and then."""
    pause_s = FIRST_LOOK_S
    while True:
        await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))
        pause_s = UNKNOWN_TYPES_CHECK_S
        try:
            unknown = await core.store.unknown_types(queues, core.handlers.types)
        except EuterpeError:
            continue
        for job_type, count in unknown.items():
            log.warning("%d jobs wait for a worker that knows their type", count, extra={"type": job_type})
