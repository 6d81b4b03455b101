"""A worker that is held in the hand: started, looked at, stopped; `queue.work` is its `run`."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from euterpe.model.errors import EuterpeError, InvalidInput, StoreUnavailable
from euterpe.model.state import State
from euterpe.queue.queue import Queue
from euterpe.worker.identity import worker_id


class Held:
    """Handlers that begin and wait to be let go."""

    def __init__(self, queue: Queue) -> None:
        self.begun, self.gate = asyncio.Event(), asyncio.Event()

        @queue.job("held")
        async def held() -> str:
            self.begun.set()
            await self.gate.wait()
            return "done"

        self.job = held


@pytest.fixture
def held(queue: Queue) -> Held:
    return Held(queue)


async def test_a_worker_runs_inside_its_block_and_tells_what_it_runs(queue: Queue, held: Held) -> None:
    worker = queue.worker(concurrency=4, queues=["default"])
    assert (worker.is_running, worker.running) == (False, [])
    assert worker.id.rpartition(":")[0] == worker_id(os.environ).rpartition(":")[0]
    assert worker.id != queue.worker().id, "what one worker holds is told from what another one holds"
    before = datetime.now(UTC) - timedelta(seconds=1)
    async with worker as started:
        assert started is worker
        assert worker.is_running
        job = await held.job.submit()
        await held.begun.wait()
        (attempt,) = worker.running
        assert (attempt.job_id, attempt.id, attempt.type) == (job.id, f"{job.id}:1", "held")
        assert (attempt.queue, attempt.number) == ("default", 1)
        assert before < attempt.started_at <= datetime.now(UTC)
        assert (await queue.get(job.id)).worker_id == worker.id
        held.gate.set()
        assert await job.result("20s") == "done"
    assert (worker.is_running, worker.running) == (False, [])
    assert (await queue.get(job.id)).state is State.COMPLETED, "the queue is still open for who opened it"


async def test_stop_lets_running_jobs_finish_and_takes_no_others(queue: Queue, held: Held) -> None:
    worker = queue.worker(concurrency=4, grace="20s")
    await worker.start()
    job = await held.job.submit()
    await held.begun.wait()
    stopping = [asyncio.create_task(worker.stop()) for _ in range(2)]  # told twice, it still waits
    await asyncio.sleep(0)
    late = await held.job.submit()
    assert worker.is_running
    held.gate.set()
    await asyncio.gather(*stopping)
    assert not worker.is_running
    assert [(await queue.get(each.id)).state for each in (job, late)] == [State.COMPLETED, State.SCHEDULED]


async def test_stop_at_once_gives_running_jobs_back_without_a_charge(queue: Queue, held: Held) -> None:
    worker = queue.worker(concurrency=4, grace="10m")
    async with worker:
        job = await held.job.submit()
        await held.begun.wait()
        await worker.stop(at_once=True)
    found = await queue.get(job.id)
    assert (found.state, found.attempt) == (State.SCHEDULED, 0)
    assert [attempt.outcome for attempt in await queue.attempts(job.id)] == ["released"]


async def test_a_worker_that_has_stopped_can_be_started_again(queue: Queue, held: Held) -> None:
    worker = queue.worker(concurrency=1)
    held.gate.set()
    for _ in range(2):
        async with worker:
            assert await (await held.job.submit()).result("20s") == "done"


async def test_run_opens_the_queue_and_closes_it_again(url: str) -> None:
    queue = Queue(url)
    held = Held(queue)
    worker = queue.worker(concurrency=1)
    running = asyncio.create_task(worker.run())
    async with queue:
        job = await held.job.submit()
        await held.begun.wait()
        held.gate.set()
        assert await job.result("20s") == "done"
    await worker.stop()
    await running
    with pytest.raises(EuterpeError):
        await queue.get(job.id)


async def test_what_keeps_a_worker_from_starting_is_raised_where_it_is_started(sqlite_url: str) -> None:
    away = Queue("postgresql://nobody@127.0.0.1:1/none")
    Held(away)
    with pytest.raises(StoreUnavailable):
        await away.worker().start()
    with pytest.raises(InvalidInput) as refused:
        await Queue(sqlite_url).worker().start()
    assert refused.value.field == "handlers"


async def test_a_worker_that_runs_is_not_started_twice(queue: Queue, held: Held) -> None:
    async with queue.worker(concurrency=1) as worker:
        with pytest.raises(EuterpeError, match="runs already"):
            await worker.run()
        assert worker.is_running


async def test_a_start_that_is_cancelled_leaves_no_worker_behind(queue: Queue, held: Held) -> None:
    worker = queue.worker(concurrency=1)
    starting = asyncio.create_task(worker.start())
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert not worker.is_running


async def test_stopping_what_does_not_run_does_nothing(queue: Queue, held: Held) -> None:
    await queue.worker().stop()


@pytest.mark.parametrize(
    ("setting", "value"), [("lease", "10ms"), ("queues", "default"), ("batch", 0), ("colour", "red"), ("poll", "1ms")]
)
async def test_a_wrong_setting_is_named_before_anything_runs(queue: Queue, setting: str, value: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        queue.worker(**{setting: value})
    assert refused.value.field == setting
