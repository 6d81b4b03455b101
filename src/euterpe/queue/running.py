"""A running worker: the loop, the sweeps, the cron clock, and how it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import Sequence
from signal import Signals
from typing import Any

from euterpe.model.errors import EuterpeError, InvalidInput
from euterpe.queue.schedule import keep_time
from euterpe.worker.identity import worker_id
from euterpe.worker.loop import Worker, WorkerSettings
from euterpe.worker.sweeper import sweep_forever

log = logging.getLogger("euterpe.worker")


async def run_worker(
    queue: Any,
    *,
    signals: Sequence[Signals] = (),
    stop: asyncio.Event | None = None,
    at_once: asyncio.Event | None = None,
    sweep: bool = True,
    keeper: bool = True,
    telemetry: Any = None,
    **settings: Any,
) -> None:
    """Work until told to stop: once to drain, twice to give everything back."""
    if not queue.handlers.by_type:
        raise InvalidInput("handlers", "this queue has no job types; import the module that defines them first")
    if settings["concurrency"] < 1:
        raise InvalidInput("concurrency", "must be at least 1")
    worker = Worker(
        queue.store,
        queue.handlers,
        WorkerSettings(worker_id=worker_id(os.environ), **settings),
        wakeups=queue.wakeups,
        keeper_url=queue.url if keeper and ":memory:" not in queue.url else None,
        spawn=queue.spawn,
        make_submission=queue.make_submission,
        telemetry=telemetry,
        settled=queue.settled,
    )
    loop = asyncio.get_running_loop()
    for number in signals:
        loop.add_signal_handler(number, worker.stop)
    told = [event for event in (stop, at_once) if event is not None]
    side_work = [loop.create_task(_stop_when(event, worker)) for event in told]
    if sweep:
        side_work.append(loop.create_task(sweep_forever(queue.store, queue.wakeups, telemetry)))
        side_work.append(loop.create_task(_warn_of_strangers(queue, settings["queues"])))
    if queue.crons:
        side_work.append(loop.create_task(keep_time(queue, queue.crons)))
    try:
        await worker.run()
    finally:
        for task in side_work:
            task.cancel()
        await asyncio.gather(*side_work, return_exceptions=True)
        for number in signals:
            loop.remove_signal_handler(number)


async def _stop_when(stop: asyncio.Event, worker: Worker) -> None:
    await stop.wait()
    worker.stop()


async def _warn_of_strangers(queue: Any, queues: Sequence[str]) -> None:
    """Jobs of types that nobody here knows wait for a worker that does; say so now and then."""
    while True:
        await asyncio.sleep(60 * random.uniform(0.1, 1.0))
        try:
            unknown = await queue.store.unknown_types(queues, queue.handlers.types)
        except EuterpeError:
            continue
        for job_type, count in unknown.items():
            log.warning("%d jobs wait for a worker that knows their type", count, extra={"type": job_type})
