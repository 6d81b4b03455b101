"""`queue.work()` over HTTP: the same worker, handlers, leases and endings, while the control plane comes and goes."""

from __future__ import annotations

import asyncio
import logging
import os
import statistics
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psutil
import pytest

from euterpe import Context, PermanentError, Queue, TemporaryError
from euterpe.model.errors import JobFailed
from euterpe.model.state import State
from euterpe.queue.queue import core_of
from tests.patience import in_time
from tests.remote.conftest import Remote, make_key
from tests.server.plane import plane_process
from tests.servers.process import free_port
from tests.worker.floor import until
from tests.worker.inline import work_on


@asynccontextmanager
async def working(queue: Queue, concurrency: int = 20, **options: Any) -> AsyncIterator[None]:
    stop = asyncio.Event()
    worker = asyncio.get_running_loop().create_task(work_on(queue, concurrency, stop=stop, **options))
    try:
        yield
    finally:
        stop.set()
        await worker


async def test_handlers_run_and_their_results_come_back(queue: Queue) -> None:
    @queue.job("double")
    async def double(ctx: Context, n: int) -> dict[str, int]:
        await ctx.progress(50, "half")
        return {"n": 2 * n}

    @queue.job("plain")
    def plain(ctx: Context, n: int) -> int:
        return n + 1

    async with working(queue):
        jobs = [await double.submit(n=n) for n in range(10)]
        assert [await job.result("30s") for job in jobs] == [{"n": 2 * n} for n in range(10)]
        assert await (await plain.submit(n=1)).result("30s") == 2


async def test_a_worker_over_http_is_listed_while_it_is_alive_with_all_that_it_is(remote: Remote) -> None:
    admin = Queue(remote.base_url, token=await make_key(remote.url, "admin"))
    queue = remote.queue()

    @queue.job("double")
    async def double(n: int) -> int:
        return 2 * n

    async with admin:
        workers = core_of(admin).store.workers
        async with working(queue, 7, queues=["etl"]):
            (worker,) = await until(workers.list, "the worker is listed")
            assert (worker.facts.queues, worker.facts.types, worker.facts.slots) == (("etl",), ("double",), 7)
            assert (worker.facts.pid, worker.facts.running) == (os.getpid(), 0)
        assert await workers.list() == []


async def test_a_payload_of_bytes_reaches_its_handler_and_is_read_back_whole(queue: Queue) -> None:
    everything = bytes(range(256))
    looks_like_json = b'{"base64": "AA=="}'
    got: list[bytes] = []

    @queue.job("raw")
    async def raw(ctx: Context, payload: bytes) -> int:
        got.append(payload)
        return len(payload)

    async with working(queue):
        for payload in (everything, looks_like_json, b""):
            job = await queue.submit("raw", payload)
            stored = await queue.get(job.id)
            assert stored.payload == payload
            assert await job.result("30s") == len(payload)
    assert got == [everything, looks_like_json, b""]


async def test_what_a_handler_logs_travels_with_its_report(queue: Queue) -> None:
    @queue.job("talks", max_attempts=2, backoff={"strategy": "constant", "initial": "10ms"})
    async def talks(ctx: Context) -> int:
        logging.getLogger("shop").warning("attempt %d, token=abc", ctx.attempt)
        if ctx.attempt == 1:
            raise TemporaryError("not yet")
        return 1

    async with working(queue):
        job = await talks.submit()
        assert await job.result("30s") == 1
        logs = await core_of(queue).store.attempt_logs(job.id)
    assert [(log.claim_version, [line.message for line in log.lines]) for log in logs] == [
        (1, ["attempt 1, token=***"]),
        (2, ["attempt 2, token=***"]),
    ]


async def test_failures_are_retried_or_end_as_they_say(queue: Queue) -> None:
    seen: Counter[str] = Counter()

    @queue.job("flaky", max_attempts=3, backoff={"strategy": "constant", "initial": "10ms"})
    async def flaky(ctx: Context) -> str:
        seen["flaky"] += 1
        if ctx.attempt < 3:
            raise TemporaryError("not yet")
        return f"attempt {ctx.attempt} after {ctx.last_checkpoint}"

    @queue.job("hopeless")
    async def hopeless(ctx: Context) -> None:
        raise PermanentError("never", code="hopeless")

    async with working(queue):
        assert await (await flaky.submit()).result("30s") == "attempt 3 after None"
        with pytest.raises(JobFailed) as ended:
            await (await hopeless.submit()).result("30s")
    assert ended.value.state == "failed"
    assert ended.value.error is not None
    assert ended.value.error.code == "hopeless"


async def test_a_job_is_taken_up_soon_after_an_idle_while(queue: Queue, capsys: pytest.CaptureFixture[str]) -> None:
    started: list[float] = []

    @queue.job("t")
    async def note(ctx: Context, at: float) -> None:
        started.append(time.time() - at)

    async with working(queue, poll="10m"):
        for pause_s in (0.1, 2.5, 0.05, 0.05, 2.5):  # longer than a claim waits at the server, too
            await asyncio.sleep(pause_s)
            await (await note.submit(at=time.time())).wait("30s")
    with capsys.disabled():
        print(f"\n  submit to start over HTTP: {', '.join(f'{s * 1000:.1f}' for s in started)} ms")
    in_time(statistics.median(started), 2)


async def test_a_worker_with_free_slots_hears_of_work_from_elsewhere_after_and_beside_a_job(
    queue: Queue, remote: Remote
) -> None:
    """It polls only every ten minutes: what is quick here was waited for at the server."""
    started: asyncio.Queue[int] = asyncio.Queue()
    release = asyncio.Event()

    @queue.job("t")
    async def note(ctx: Context, n: int) -> None:
        started.put_nowait(n)
        if n == 3:
            await release.wait()

    async with remote.queue() as elsewhere, working(queue, concurrency=4, poll="10m"):
        for n in range(6):  # the job 3 goes on while the later ones come
            job = await elsewhere.submit("t", {"n": n})
            assert await asyncio.wait_for(started.get(), 30) == n
            if n != 3:
                await job.wait("30s")
        release.set()


class TestShortLeases:
    @pytest.fixture
    def lease_s(self) -> float:
        return 5.0

    async def test_the_lease_keeper_renews_over_http_and_its_key_is_on_no_command_line(
        self, queue: Queue, remote: Remote
    ) -> None:
        running = asyncio.Event()

        @queue.job("block")
        async def block(ctx: Context) -> str:
            running.set()
            await asyncio.sleep(0)
            time.sleep(11)  # noqa: ASYNC251  # more than two leases in which this process's loop stands still
            return "done"

        others = {child.pid for child in psutil.Process().children()}  # of other tests, about to end
        async with working(queue, lease="5s"):
            job = await block.submit()
            await asyncio.wait_for(running.wait(), 30)
            children = [child for child in psutil.Process().children() if child.pid not in others]
            (keeper,) = [child for child in children if "euterpe.lease_keeper" in child.cmdline()]
            assert remote.key not in " ".join(keeper.cmdline())
            assert remote.key not in "".join(keeper.environ().values())
            assert await job.result("30s") == "done"
        found = await queue.get(job.id)
        assert (found.state, found.attempt) == (State.COMPLETED, 1)

    async def test_a_cancel_reaches_the_handler(self, queue: Queue) -> None:
        running = asyncio.Event()

        @queue.job("long")
        async def long(ctx: Context) -> None:
            running.set()
            await asyncio.sleep(600)

        async with working(queue, lease="5s"):
            job = await long.submit()
            await asyncio.wait_for(running.wait(), 30)
            assert await queue.cancel(job.id) is State.RUNNING
            assert (await job.wait("30s")).state is State.CANCELLED


async def test_a_control_plane_killed_and_restarted_in_the_middle_loses_nothing(url: str, key: str) -> None:
    ran: Counter[int] = Counter()
    with plane_process(url, "--lease-s", "5", "--sweep-s", "0.2", port=free_port()) as first:
        port = first.port
        queue = Queue(first.base_url, token=key)

        @queue.job("t", max_attempts=20)
        async def note(ctx: Context, n: int) -> int:
            ran[n] += 1
            await asyncio.sleep(0.05)
            return n

        async with queue:
            jobs = await queue.submit_many([("t", {"n": n}) for n in range(400)])
            async with working(queue, 20, lease="5s", poll="200ms"):
                for killed in (60, 180):
                    await _until(lambda enough=killed: len(ran) >= enough)
                    first.kill()
                    await asyncio.sleep(0.3)
                    with plane_process(url, "--lease-s", "5", "--sweep-s", "0.2", port=port) as again:
                        first = again
                        if killed == 60:
                            await _until(lambda: len(ran) >= 180)
                            again.kill()
                            continue
                        await _until(lambda: len(ran) == 400)
                        for job in jobs:
                            assert (await job.wait("60s")).state is State.COMPLETED
                        stats = await queue.stats()
                        assert stats.by_state == {"completed": 400}
    assert sum(ran.values()) < 400 + 4 * 20  # what ran twice was in hand when the answer was lost


async def _until(true: Any, within_s: float = 60.0) -> None:
    async with asyncio.timeout(within_s):
        while not true():  # noqa: ASYNC110  # what it waits for is a count
            await asyncio.sleep(0.01)


async def test_two_workers_share_the_jobs(remote: Remote) -> None:
    ran: list[int] = []
    async with remote.queue() as one, remote.queue() as other:
        for queue in (one, other):

            @queue.job("t")
            async def note(ctx: Context, n: int) -> None:
                ran.append(n)

        jobs = await one.submit_many([("t", {"n": n}) for n in range(300)])
        async with working(one, 10), working(other, 10):
            for job in jobs:
                await job.wait("60s")
    assert sorted(ran) == list(range(300))


async def test_a_handler_spawns_children_and_a_fan_in_waits_for_them(queue: Queue) -> None:
    ran: Counter[str] = Counter()

    @queue.job("page")
    async def page(ctx: Context, n: int) -> int:
        ran["page"] += 1
        return n

    @queue.job("book")
    async def book(ctx: Context) -> list[str]:
        return [await ctx.spawn(page.with_args(n=n)) for n in range(3)]

    @queue.job("binding")
    async def binding(ctx: Context) -> int:
        return ran["page"]

    async with working(queue):
        parent, bound = await queue.fan_out([book.with_args()], then=binding.with_args())
        assert await bound.result("30s") == 3
        children = await parent.result("30s")
        assert {(await queue.get(child)).parent_id for child in children} == {parent.id}
