"""Workers are woken within milliseconds, and cost next to nothing while they wait. Polling is switched off here, so
that a job that starts at all was announced."""

from __future__ import annotations

import asyncio
import statistics
import time
from itertools import pairwise
from pathlib import Path

import psutil

from euterpe.model.state import State
from euterpe.queue.queue import Queue
from tests.patience import in_time
from tests.worker.floor import Floor, in_state, until
from tests.worker.inline import AT_ONCE, working

NEVER = "10m"
ROUNDS = 15


async def test_a_job_submitted_in_the_workers_own_process_starts_at_once(url: str) -> None:
    queue = Queue(url)
    started: asyncio.Queue[float] = asyncio.Queue()

    @queue.job("stamp")
    async def stamp() -> None:
        started.put_nowait(time.perf_counter())

    latencies = []
    async with working(queue, poll=NEVER):
        for _ in range(ROUNDS):
            submitted = time.perf_counter()
            job = await queue.submit("stamp")
            latencies.append(await started.get() - submitted)
            await job.wait("20s")
    print(f"submit -> start in one process: p50 {statistics.median(latencies) * 1e3:.1f} ms")
    in_time(statistics.median(latencies), 0.5)


async def test_a_job_submitted_by_another_process_starts_soon(client: Queue, floor: Floor) -> None:
    """NOTIFY on Postgres, a look at the WAL on SQLite; at most twenty a second, as in the benchmark."""
    await floor.start(poll=NEVER).working()
    first = await client.submit("quick")
    await in_state(client, first, State.COMPLETED)
    latencies = []
    for value in range(ROUNDS):
        submitted = time.time()
        job = await client.submit("quick", {"value": value})
        latencies.append((await floor.noted("ran", job))["at"] - submitted)
        await asyncio.sleep(0.05)
    print(f"submit -> start between processes: p50 {statistics.median(latencies) * 1e3:.1f} ms")
    in_time(statistics.median(latencies), 1.0)


async def test_a_submitter_that_ends_right_away_is_heard(url: str, floor: Floor) -> None:
    """Its wake-up must not die with it: a script opens, submits and closes."""
    await floor.start(poll=NEVER).working()
    for value in range(3):
        async with Queue(url) as script:
            job = await script.submit("quick", {"value": value})
        await floor.noted("ran", job)


async def test_a_retry_and_a_delayed_job_start_when_they_are_due(url: str) -> None:
    queue = Queue(url)
    at: list[float] = []

    @queue.job("again", backoff={"strategy": "constant", "initial": "50ms", "jitter": 0}, max_attempts=5)
    async def again() -> None:
        at.append(time.monotonic())
        if len(at) < 5:
            raise ValueError("once more")

    async with working(queue, poll=NEVER):
        await (await queue.submit("again")).wait("20s")
        gaps = [later - earlier for earlier, later in pairwise(at)]
        print(f"a retry of 50 ms started after {[f'{gap * 1e3:.0f} ms' for gap in gaps]}")
        assert min(gaps) >= 0.049
        in_time(statistics.median(gaps), 0.5)

        at.clear()
        at.extend([0.0] * 4)
        submitted = time.monotonic()
        await (await queue.submit("again", delay="300ms")).wait("20s")
        assert at[-1] - submitted >= 0.29
        in_time(at[-1] - submitted, 5)


async def test_a_dependent_and_a_retried_job_start_without_a_poll(url: str) -> None:
    queue = Queue(url)

    @queue.job("step", backoff=AT_ONCE, max_attempts=1)
    async def step(fails: bool = False) -> str:
        if fails:
            raise ValueError("as told")
        return "done"

    async with working(queue, poll=NEVER):
        jobs = await queue.chain([step.with_args() for _ in range(5)])
        assert await jobs[-1].result("20s") == "done"
        failed = await queue.submit(step.with_args(fails=True))
        await failed.wait("20s")
        replay = await queue.retry(failed.id)
        assert (await replay.wait("20s")).state is State.DEAD_LETTER


async def test_an_idle_worker_uses_less_than_a_hundredth_of_a_core(client: Queue, floor: Floor) -> None:
    """A busy machine makes everyone's work dearer, so the cheapest of a few spells counts."""
    worker = await floor.start().working()
    await in_state(client, await client.submit("quick"), State.COMPLETED)
    keeper = await until(worker.keeper, "the keeper runs")
    pids = [worker.pid, keeper.pid]
    spells = []
    for _ in range(4):
        before = [cpu_s(pid) for pid in pids]
        await asyncio.sleep(2.5)
        spells.append([(cpu_s(pid) - earlier) / 2.5 for pid, earlier in zip(pids, before, strict=True)])
        if len(spells) > 1 and sum(spells[-1]) < 0.01:
            break
    mine, keepers = min(spells, key=sum)
    sizes = [psutil.Process(pid).memory_info().rss / 1e6 for pid in pids]
    print(f"idle: worker {mine:.2%} of a core, {sizes[0]:.0f} MB; keeper {keepers:.2%}, {sizes[1]:.0f} MB")
    assert mine + keepers < 0.01
    assert sizes[0] < 80


def cpu_s(pid: int) -> float:
    """Time on a core, of all threads, in nanoseconds where psutil has steps of ten milliseconds."""
    tasks = Path(f"/proc/{pid}/task")
    if not tasks.exists():
        times = psutil.Process(pid).cpu_times()
        return float(times.user + times.system)
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()) / 1e9
