"""The measures: submit one by one, many at once and in bulk; drain what that left; then latency on an idle worker.

All of it by the public API in one process, each submit durable when its await returns, metrics on. Phases end by their
count or by the clock, so that a far-away database costs no more time than a near one.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from euterpe.cli.bench.counter import Counter
from euterpe.cli.bench.disk_probe import probe_disk
from euterpe.cli.bench.sandbox import open_sandbox
from euterpe.observe.metrics import Metrics
from euterpe.queue.definition.job_type import JobType
from euterpe.queue.queue import Queue, core_of

SUBMITTERS: Final = 64
WARM_UP_JOBS: Final = 20
PADDING: Final = "x" * 52
PROBE_S: Final = 1.0
PHASE_S: Final = 5.0
"""At most so long for a phase of submitting."""
LATENCY_PER_S: Final = 20
LATENCY_JOBS: Final = 200
POLL_S: Final = 0.002


@dataclass(frozen=True, slots=True)
class Plan:
    jobs: int = 20_000
    concurrency: int = 1_000
    batch: int = 1000


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number; `about` says of how many it was taken."""

    key: str
    title: str
    value: float
    unit: str
    about: str = ""


@dataclass(frozen=True, slots=True)
class BenchReport:
    figures: tuple[Figure, ...]
    remarks: tuple[str, ...]


async def bench(url: str, plan: Plan, begin: Callable[[str], None], on_figure: Callable[[Figure], None]) -> BenchReport:
    """Measure on the engine of `url`; `begin` hears in which place of its own, `tell` each figure as it comes."""
    figures: list[Figure] = []

    def found(key: str, title: str, value: float, unit: str, about: str = "") -> None:
        figures.append(Figure(key, title, value, unit, about))
        on_figure(figures[-1])

    async with open_sandbox(url) as place:
        begin(place.name)
        ground = await probe_disk(place, PROBE_S)
        found("ground", ground.title, ground.per_s, "/s")
        await Measures(Queue(place.url), plan, found).run()
    return BenchReport(tuple(figures), ground.remarks)


class Measures:
    """One queue, its one job type, and what has been submitted to it so far."""

    def __init__(self, queue: Queue, plan: Plan, found: Callable[..., None]) -> None:
        self._queue = queue
        self._plan = plan
        self._found = found
        self._counter = Counter()
        self._job: JobType[..., Any] = queue.job("euterpe.bench")(self._handle)
        self._submitted = 0

    async def _handle(self, number: int, sent_ns: int, padding: str) -> None:  # noqa: ARG002  # as a payload has them
        self._counter.saw(sent_ns)

    async def run(self) -> None:
        async with self._queue:
            await self._warm_up()
            await self._submit_singly("submit_one", "submit one by one", 1, self._plan.jobs // 10)
            await self._submit_singly("submit_64", "submit, 64 at once", SUBMITTERS, self._plan.jobs)
            await self._submit_bulk()
            async with self._worker() as working:
                await self._drain(working)
                await self._latency(working)

    async def _warm_up(self) -> None:
        """Connections and prepared statements are made once in a process's life, and not for every job."""
        for number in range(WARM_UP_JOBS):
            await self._job.submit(**payload(number))
            self._submitted += 1

    async def _submit_singly(self, key: str, title: str, submitters: int, most: int) -> None:
        """So many tasks, each awaiting its own submits one after the other."""
        before, start = self._submitted, time.monotonic()
        left = max(submitters, most)

        async def submitter() -> None:
            nonlocal left
            while left > 0 and time.monotonic() - start < PHASE_S:
                left -= 1
                await self._job.submit(**payload(left))
                self._submitted += 1

        await asyncio.gather(*(submitter() for _ in range(submitters)))
        self._report_rate(key, title, self._submitted - before, time.monotonic() - start)

    async def _submit_bulk(self) -> None:
        before, start = self._submitted, time.monotonic()
        for first in range(0, self._plan.jobs, self._plan.batch):
            numbers = range(first, min(first + self._plan.batch, self._plan.jobs))
            await self._queue.submit_many([self._job.with_args(**payload(number)) for number in numbers])
            self._submitted += len(numbers)
            if time.monotonic() - start > PHASE_S:
                break
        title = f"submit in bulk, {self._plan.batch} a call"
        self._report_rate("submit_bulk", title, self._submitted - before, time.monotonic() - start)

    @asynccontextmanager
    async def _worker(self) -> AsyncIterator[asyncio.Task[None]]:
        stop = asyncio.Event()
        work = self._queue.work(
            self._plan.concurrency, batch=self._plan.batch, stop=stop, telemetry=Metrics({"default"})
        )
        working = asyncio.create_task(work)
        try:
            yield working
            stop.set()
            await working
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)

    async def _drain(self, working: asyncio.Task[None]) -> None:
        """From the first handler's start until the store itself says that nothing is left."""
        await self._counter.until(self._submitted, working)
        while sum(depth.count for depth in await core_of(self._queue).store.depths()):  # noqa: ASYNC110  # it is no event of ours
            await asyncio.sleep(POLL_S)
        seconds = (time.monotonic_ns() - self._counter.first_ns) / 1e9
        self._report_rate("drain", "drain, this one process", self._submitted, seconds)

    async def _latency(self, working: asyncio.Task[None]) -> None:
        """From just before the submit call to the handler's first line, on a worker that has nothing else to do."""
        jobs = min(LATENCY_JOBS, max(LATENCY_PER_S, self._plan.jobs // 100))
        start = time.monotonic()
        for number in range(jobs):
            await asyncio.sleep(max(0.0, start + number / LATENCY_PER_S - time.monotonic()))
            await self._job.submit(**payload(number, time.monotonic_ns()))
            self._submitted += 1
        await self._counter.until(self._submitted, working)
        about = f"submit to handler start, {jobs} jobs at {LATENCY_PER_S}/s"
        for percent in (50, 99):
            value = percentile(self._counter.latencies_ms, percent)
            self._found(f"latency_p{percent}_ms", f"latency p{percent}", value, "ms", about)

    def _report_rate(self, key: str, title: str, jobs: int, seconds: float) -> None:
        self._found(key, title, jobs / seconds, "jobs/s", f"{jobs:,} jobs in {seconds:.1f} s")


def payload(number: int, sent_ns: int = 0) -> dict[str, Any]:
    """About 100 bytes of JSON."""
    return {"number": number, "sent_ns": sent_ns, "padding": PADDING}


def percentile(values: Sequence[float], percent: int) -> float:
    """By nearest rank: a value that was really seen."""
    return sorted(values)[math.ceil(percent / 100 * len(values)) - 1]
