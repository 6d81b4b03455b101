"""A running worker: the loop, the sweeps, the webhooks, the cron clock, and how it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from signal import Signals
from typing import Any, Final

from euterpe.model.errors import EuterpeError, InvalidInput
from euterpe.model.exchange import Verdict
from euterpe.model.state import State
from euterpe.ports import Trace
from euterpe.queue.cron import keep_time
from euterpe.webhook.service import Postman
from euterpe.worker.identity import worker_id
from euterpe.worker.maintenance import PROMOTE_S, Sweeper
from euterpe.worker.worker import Worker, WorkerSettings

log = logging.getLogger("euterpe.worker")

TRACING_VARIABLES: Final = ("OBSERVABILITY_TRACING_", "EUTERPE_OBSERVABILITY_TRACING_")
FIRST_LOOK_S: Final = 2.0
LOOK_S: Final = 60.0
SHORTEST_LEASE_US: Final = 1_000_000
SWEEP_PATIENCE_S: Final = 1.0


async def run_worker(
    queue: Any,
    *,
    signals: Sequence[Signals] = (),
    stop: asyncio.Event | None = None,
    at_once: asyncio.Event | None = None,
    sweep: bool = True,
    sweep_interval_s: float = PROMOTE_S,
    keeper: bool = True,
    webhooks: bool = True,
    telemetry: Any = None,
    trace: Trace | None = None,
    **settings: Any,
) -> None:
    """Work until told to stop: `stop` or a first signal drains, `at_once` or a second one gives everything back."""
    if not queue.handlers.types:
        raise InvalidInput("handlers", "this queue has no job types; import the module that defines them first")
    checked = settings_of(settings)
    queue.store.expect_leases_of(checked.lease_ttl_us / 1e6)
    sweeper = Sweeper(queue.store, queue.wakeups, telemetry, sweep_interval_s)
    postman = Postman(queue, checked, telemetry)
    webhooks = webhooks and queue.store.outbox is not None

    def settled(job_id: str, verdict: Verdict) -> None:
        queue.settled(job_id, verdict)
        if verdict.state is State.RETRYING:
            sweeper.expect(verdict.delay_us)

    worker = Worker(
        queue.store,
        queue.handlers,
        checked,
        wakeups=queue.wakeups,
        keeper_url=queue.backend_url if keeper else None,
        spawn=queue.spawn,
        make_submission=queue.make_submission,
        telemetry=telemetry,
        settled=settled,
        trace=trace,
        shutdown=queue.shutdown,
    )

    def drain() -> None:
        postman.expect_end(checked.grace_s)
        worker.stop()

    def leave() -> None:
        postman.expect_end(0.0)
        worker.stop_at_once()

    side_work = [] if stop is None else [_when(stop, drain)]
    if at_once is not None:
        side_work.append(_when(at_once, leave))
    if sweep:
        side_work.append(_warn_of_strangers(queue, settings["queues"]))
    if queue.crons:
        side_work.append(keep_time(queue, queue.crons))
    with _told_by(signals, drain), _counted_by(telemetry, queue.store):
        async with _beside(queue, side_work, sweeper if sweep else None, postman if webhooks else None):
            await worker.run()


@asynccontextmanager
async def traced(trace: Trace | None, store: Any) -> AsyncIterator[Trace | None]:
    """What opens the span of an attempt: the given one; else, as for a process that has no configuration file, what the
    environment asks for."""
    if trace is not None or not any(name.startswith(TRACING_VARIABLES) for name in os.environ):
        _tell_of_spans(trace, store)
        yield trace
        return
    from euterpe.observe.job_spans import job_spans, tracing_of

    async with job_spans(tracing_of(os.environ), worker_id(os.environ)) as asked_for:
        _tell_of_spans(asked_for, store)
        yield asked_for


def _tell_of_spans(trace: Trace | None, store: Any) -> None:
    """A control plane that traces too must not make a second span of the same attempt."""
    if trace is not None and hasattr(store, "tell_of_own_spans"):
        store.tell_of_own_spans()


@contextmanager
def _counted_by(telemetry: Any, store: Any) -> Iterator[None]:
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


@contextmanager
def _told_by(signals: Sequence[Signals], act: Callable[[], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    for number in signals:
        loop.add_signal_handler(number, act)
    try:
        yield
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


@asynccontextmanager
async def _beside(
    queue: Any, side_work: Sequence[Coroutine[Any, Any, None]], sweeper: Sweeper | None, postman: Postman | None
) -> AsyncIterator[None]:
    """What runs beside the worker. Sweeps and webhooks end by themselves, the rest is cancelled."""
    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(work) for work in side_work]
    sweeping = loop.create_task(sweeper.run()) if sweeper is not None else None
    if sweeping is not None:
        tasks.append(sweeping)
    for task in tasks:
        task.add_done_callback(_report_failure)
    if postman is not None:
        postman.start()
    try:
        yield
    finally:
        if sweeper is not None:
            sweeper.stop()
        if postman is not None:
            await postman.close()
        if sweeping is not None:
            await asyncio.wait({sweeping}, timeout=queue.shutdown.left_s(SWEEP_PATIENCE_S))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def settings_of(said: dict[str, Any]) -> WorkerSettings:
    """Checked settings; InvalidInput names the wrong one."""
    if unknown := sorted(set(said) - set(WorkerSettings.__struct_fields__)):
        raise InvalidInput(unknown[0], "is not a setting of a worker")
    for name in ("concurrency", "batch"):
        value = said.get(name, 1)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 100_000:
            raise InvalidInput(name, f"{value!r} is not a whole number from 1 to 100000")
    queues = said.get("queues", ("default",))
    if not queues or not all(isinstance(name, str) and name for name in queues):
        raise InvalidInput("queues", "must be a list of at least one queue name")
    if said.get("lease_ttl_us", SHORTEST_LEASE_US) < SHORTEST_LEASE_US:
        raise InvalidInput("lease", "must be at least 1s: a heartbeat needs time to arrive")
    if said.get("poll_s", 1.0) < 0.01:
        raise InvalidInput("poll", "must be at least 10ms")
    return WorkerSettings(**{"worker_id": worker_id(os.environ), **said})


def _report_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("a part of the worker has ended; the rest goes on", exc_info=error)


async def _when(event: asyncio.Event, act: Callable[[], None]) -> None:
    await event.wait()
    act()


async def _warn_of_strangers(queue: Any, queues: Sequence[str]) -> None:
    """Jobs of types that nobody here knows wait for a worker that does; say so now and then."""
    pause_s = FIRST_LOOK_S
    while True:
        await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))
        pause_s = LOOK_S
        try:
            unknown = await queue.store.unknown_types(queues, queue.handlers.types)
        except EuterpeError:
            continue
        for job_type, count in unknown.items():
            log.warning("%d jobs wait for a worker that knows their type", count, extra={"type": job_type})
