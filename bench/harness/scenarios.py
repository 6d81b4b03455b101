"""What is measured, once for all subjects: a peer only submits, works and counts what is left.

Every clock reading is taken here or in `bench/peers/serve.py` and `adapter.mjs`, never by an adapter.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial

from bench.harness.catalogue import Subject
from bench.harness.peer_process import PeerProcess
from bench.harness.progress import Progress
from bench.harness.shapes import BULK, SHAPES, Shape
from bench.harness.statistics import percentile
from bench.harness.stores import PostgresWork, Stores

Figures = dict[str, float]
Circumstance = Callable[[str], AbstractAsyncContextManager[None]]
"""What a measurement takes place in: entered with the store's URL once the schema is there, left at the very end."""
WARM_UP_JOBS = 50
STALL_TIMEOUT_S = 60.0


class Stalled(Exception):
    """The workers are alive but start nothing more."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much to measure: `jobs` replaces the catalogue's counts, else `jobs_scale` multiplies them."""

    jobs: int | None = None
    jobs_scale: float = 1.0
    latency_per_second: float = 20.0
    latency_s: float = 10.0
    settle_s: float = 3.0
    """Between a worker's last job and the idle measurement."""
    idle_s: float = 10.0
    history_jobs: int = 1_000_000
    """How many finished jobs lie in the table of which a drain is to be as fast as of an empty one."""

    def count(self, usual: int) -> int:
        return self.jobs if self.jobs is not None else max(100, round(usual * self.jobs_scale))


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    measure: Callable[[Subject, Stores, Sizes], Awaitable[Figures]]
    fits: Callable[[Subject], bool] = lambda _: True
    """Which subjects it makes sense for."""


@contextlib.asynccontextmanager
async def nothing_special(_url: str) -> AsyncIterator[None]:
    yield


@contextlib.asynccontextmanager
async def submitting(
    subject: Subject, stores: Stores, circumstance: Circumstance = nothing_special
) -> AsyncIterator[tuple[str, PeerProcess]]:
    """A fresh store with the peer's schema: its URL, and a process that is connected to it."""
    url = await stores.fresh(subject.store)
    async with PeerProcess(subject, url) as client:
        await client.call("setup")
        async with circumstance(url):
            await client.call("open")
            yield url, client


async def submit_one(subject: Subject, stores: Stores, sizes: Sizes) -> Figures:
    jobs = sizes.count(subject.single_jobs)
    async with submitting(subject, stores) as (_, client):
        await client.call("submit_one", jobs=WARM_UP_JOBS)
        answer = await client.call("submit_one", jobs=jobs)
    return {"submit_one": jobs / answer["seconds"]}


async def submit_bulk(subject: Subject, stores: Stores, sizes: Sizes) -> Figures:
    jobs = sizes.count(subject.bulk_jobs)
    async with submitting(subject, stores) as (_, client):
        await client.call("submit_bulk", jobs=WARM_UP_JOBS)
        answer = await client.call("submit_bulk", jobs=jobs)
    return {"submit_bulk": jobs / answer["seconds"]}


async def all_started(
    workers: Sequence[PeerProcess], reported: asyncio.Event, jobs: int, progress: Progress | None = None
) -> None:
    while True:
        reported.clear()  # before the look at the counts, so that no report falls between look and wait
        started = sum(worker.started for worker in workers)
        if progress is not None:
            progress.note(started)
        if started >= jobs:
            return
        for worker in workers:
            worker.require_alive()
        try:
            await asyncio.wait_for(reported.wait(), STALL_TIMEOUT_S)
        except TimeoutError:
            raise Stalled(f"{started} of {jobs} jobs started, and none for {STALL_TIMEOUT_S:.0f} s") from None


@dataclass(frozen=True, slots=True)
class Drain:
    """What a drain came to: jobs a second, and the server's work for it where the store is a Postgres."""

    rate: float
    jobs: int
    work: PostgresWork | None
    worker_cpu_s: float
    """Of the workers and their children, from the end of their imports on."""
    progress: Progress


async def drain(
    subject: Subject,
    stores: Stores,
    jobs: int,
    processes: int = 1,
    circumstance: Circumstance = nothing_special,
    shape: Shape = BULK,
) -> Drain:
    """From the first handler start to the moment at which the peer's own store holds nothing unfinished."""
    async with submitting(subject, stores, circumstance) as (url, client):
        await client.call("submit_one" if shape.one_by_one else "submit_bulk", jobs=jobs)
        await asyncio.sleep(shape.due_after_s)
        before = await stores.postgres_work() if subject.store == "postgres" else None
        async with contextlib.AsyncExitStack() as at_work:
            reported, progress = asyncio.Event(), Progress(jobs * shape.starts)
            crew = [PeerProcess(subject, url, reported) for _ in range(processes)]
            workers = [await at_work.enter_async_context(worker) for worker in crew]
            await asyncio.gather(*(worker.ready() for worker in workers))
            cpu_before_s = sum(worker.cpu_s() for worker in workers)
            await asyncio.gather(*(worker.call("work") for worker in workers))
            await all_started(workers, reported, jobs * shape.starts, progress)
            drained = await client.call("await_drained", timeout_s=STALL_TIMEOUT_S)
            worker_cpu_s = sum(worker.cpu_s() for worker in workers) - cpu_before_s
        first_ns = min(worker.first_ns for worker in workers if worker.started)
        # Only now: a backend adds its commits to the statistics when it ends.
        work = None if before is None else (await stores.postgres_work()).since(before)
    return Drain(jobs / ((drained["drained_ns"] - first_ns) / 1e9), jobs, work, worker_cpu_s, progress)


async def drain_x1(subject: Subject, stores: Stores, sizes: Sizes) -> Figures:
    return drain_figures(BULK, await drain(subject, stores, sizes.count(subject.drain_jobs)))


async def drain_shape(shape: Shape, subject: Subject, stores: Stores, sizes: Sizes) -> Figures:
    return drain_figures(shape, await drain(shape.of(subject), stores, sizes.count(shape.jobs), shape=shape))


def drain_figures(shape: Shape, drained: Drain) -> Figures:
    figures = {shape.metric: drained.rate, f"{shape.metric}_worker_cpu": 1e6 * drained.worker_cpu_s / drained.jobs}
    if drained.work is not None:
        figures[f"{shape.metric}_server_cpu"] = 1e6 * drained.work.cpu_s / drained.jobs
        figures[f"{shape.metric}_wal"] = drained.work.wal_bytes / drained.jobs
        figures[f"{shape.metric}_commits"] = 1000 * drained.work.commits / drained.jobs
    return figures


async def drain_x2(subject: Subject, stores: Stores, sizes: Sizes) -> Figures:
    return {"drain_x2": (await drain(subject, stores, sizes.count(subject.drain_jobs), processes=2)).rate}


@contextlib.asynccontextmanager
async def idle_worker(
    subject: Subject, stores: Stores
) -> AsyncIterator[tuple[PeerProcess, PeerProcess, asyncio.Event]]:
    """A submitter and a worker process that has proved, by running some jobs, that it is up."""
    reported = asyncio.Event()
    async with submitting(subject, stores) as (url, client), PeerProcess(subject, url, reported) as worker:
        await worker.call("work")
        await client.call("submit_one", jobs=WARM_UP_JOBS)
        await all_started([worker], reported, WARM_UP_JOBS)
        await client.call("await_drained", timeout_s=STALL_TIMEOUT_S)
        yield client, worker, reported


async def latency(subject: Subject, stores: Stores, sizes: Sizes) -> Figures:
    """From just before the submit call to the handler's first line, in another, idle process."""
    jobs = round(sizes.latency_per_second * sizes.latency_s)
    async with idle_worker(subject, stores) as (client, worker, reported):
        await client.call("submit_paced", per_second=sizes.latency_per_second, jobs=jobs)
        await all_started([worker], reported, WARM_UP_JOBS + jobs)
        seen_ms = [value_us / 1000 for value_us in worker.latencies_us]
    return {"latency_p50": percentile(seen_ms, 50), "latency_p99": percentile(seen_ms, 99)}


async def idle(subject: Subject, stores: Stores, sizes: Sizes) -> Figures:
    """CPU time and resident memory of the worker's whole process tree, while nothing is submitted."""
    async with idle_worker(subject, stores) as (_, worker, _):
        await asyncio.sleep(sizes.settle_s)
        cpu_before_s = worker.cpu_s()
        await asyncio.sleep(sizes.idle_s)
        cpu_s = worker.cpu_s() - cpu_before_s
        return {"idle_cpu": 100 * cpu_s / sizes.idle_s, "idle_rss": worker.rss_bytes() / 1e6}


async def start(subject: Subject, stores: Stores, _sizes: Sizes) -> Figures:
    """From the spawn of a worker process to the first line of the handler of a job that waits for it, and the CPU time
    of its whole process tree until then: a deployment, or a scaler's new pod."""
    reported = asyncio.Event()
    async with submitting(subject, stores) as (url, client):
        await client.call("submit_one", jobs=1)
        spawned_ns = time.monotonic_ns()
        async with PeerProcess(subject, url, reported) as worker:
            await worker.call("work")
            await all_started([worker], reported, 1)
            return {"start": (worker.first_ns - spawned_ns) / 1e6, "start_cpu": 1000 * worker.cpu_s()}


SCENARIOS = (
    Scenario("submit-one", submit_one),
    Scenario("submit-bulk", submit_bulk, fits=lambda subject: subject.bulk_jobs > 0),
    Scenario("drain-x1", drain_x1),
    Scenario("drain-x2", drain_x2),
    *(Scenario(f"drain-{shape.name}", partial(drain_shape, shape), shape.fits) for shape in SHAPES),
    Scenario("latency", latency),
    Scenario("idle", idle),
    Scenario("start", start),
)
