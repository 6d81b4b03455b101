"""Whatever a handler does to its worker: every slot is free afterwards, no lease is left, and the worker still stops.

The job of each test ends with an error of its own; after it, as many jobs as there are slots run at the same time.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from euterpe.model.errors import InvalidInput
from euterpe.model.state import State
from euterpe.queue.job import Job
from euterpe.queue.queue import Queue
from euterpe.worker.context import Context
from tests.worker.conftest import ON_SQLITE_ALONE
from tests.worker.floor import Floor, in_state, until
from tests.worker.hostile import RAISES, RESULTS, PanicException
from tests.worker.inline import AT_ONCE
from tests.worker.test_one_keeper import keepers

SLOTS = 3
ENDS_WITHIN_S = 15.0


@asynccontextmanager
async def unharmed(queue: Queue) -> AsyncIterator[None]:
    """A worker with three slots and a keeper. After the block all slots run at once, and nothing is left behind."""
    together = asyncio.Event()
    running: set[str] = set()

    @queue.job("healthy")
    async def healthy(ctx: Context) -> None:
        running.add(ctx.job_id)
        if len(running) == SLOTS:
            together.set()
        await together.wait()

    stop = asyncio.Event()
    async with queue:
        work = asyncio.create_task(
            queue.work(concurrency=SLOTS, stop=stop, grace="2s", webhooks=False, circuit_breaker=False)
        )
        try:
            yield
            jobs = await queue.submit_many([healthy.with_args() for _ in range(SLOTS)])
            for job in jobs:
                await job.result("20s")
            assert len(keepers()) == 1
        finally:
            stop.set()
            _, still = await asyncio.wait({work}, timeout=ENDS_WITHIN_S)
        assert not still, "the worker does not stop"
        await work
        assert keepers() == []
        assert (await queue.stats()).by_state.get("running", 0) == 0


def register(queue: Queue, mode: str, act: Callable[[], Any], **options: Any) -> None:
    if mode == "async":

        @queue.job("hostile", backoff=AT_ONCE, **options)
        async def on_the_loop() -> Any:
            return act()
    else:

        @queue.job("hostile", backoff=AT_ONCE, **options)
        def in_a_thread() -> Any:
            return act()


async def ended(queue: Queue, job_type: str = "hostile", **options: Any) -> Job:
    job = await (await queue.submit(job_type, **options)).wait("30s")
    return job


@pytest.fixture
def sigint_goes_to_the_loop() -> Any:
    """As under asyncio.run and in our roles: where Python's own handler is installed, a KeyboardInterrupt on the loop
    is taken for Ctrl-C."""
    before = signal.signal(signal.SIGINT, lambda *_: None)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("sigint_goes_to_the_loop")
@pytest.mark.parametrize("mode", ["async", "thread"])
async def test_whatever_is_raised_frees_its_slot_and_is_the_error_of_its_job(sqlite_url: str, mode: str) -> None:
    queue = Queue(sqlite_url)
    for name, (act, _) in RAISES.items():

        def make(act: Callable[[], Any] = act) -> Callable[[], Any]:
            async def on_the_loop() -> Any:
                return act()

            def in_a_thread() -> Any:
                return act()

            return on_the_loop if mode == "async" else in_a_thread

        queue.job(name, max_attempts=2, backoff=AT_ONCE)(make())
    async with unharmed(queue):
        jobs = {name: await queue.submit(name) for name in RAISES}
        ends = {name: await job.wait("30s") for name, job in jobs.items()}
    codes = {name: end.error and end.error.code for name, end in ends.items()}
    assert codes == {name: code for name, (_, code) in RAISES.items()}
    assert {end.state for end in ends.values()} == {State.DEAD_LETTER}
    assert {end.attempt for end in ends.values()} == {2}


@pytest.mark.parametrize("mode", ["async", "thread"])
async def test_a_result_that_cannot_be_stored_frees_its_slot_and_fails_its_job(sqlite_url: str, mode: str) -> None:
    queue = Queue(sqlite_url)
    for name, act in RESULTS.items():

        def make(act: Callable[[], Any] = act) -> Callable[[], Any]:
            async def on_the_loop() -> Any:
                return act()

            def in_a_thread() -> Any:
                return act()

            return on_the_loop if mode == "async" else in_a_thread

        queue.job(name, backoff=AT_ONCE)(make())
    async with unharmed(queue):
        jobs = {name: await queue.submit(name) for name in RESULTS}
        ends = {name: await job.wait("30s") for name, job in jobs.items()}
    found = {name: (end.state, end.error and end.error.code) for name, end in ends.items()}
    assert found == dict.fromkeys(RESULTS, (State.FAILED, "bad_result"))


@pytest.mark.usefixtures("sigint_goes_to_the_loop")
@pytest.mark.parametrize("mode", ["async", "thread"])
async def test_a_panic_and_an_interrupt_free_their_slots_on_every_engine(url: str, mode: str) -> None:
    queue = Queue(url)
    raised = iter([PanicException("lost"), KeyboardInterrupt(), GeneratorExit()] * 2)

    def act() -> None:
        raise next(raised)

    register(queue, mode, act, max_attempts=6)
    async with unharmed(queue):
        end = await ended(queue)
    assert (end.state, end.attempt) == (State.DEAD_LETTER, 6)


def test_a_generator_function_is_refused_where_it_is_registered(sqlite_url: str) -> None:
    queue = Queue(sqlite_url)

    def gives() -> Any:
        yield 1

    async def gives_later() -> Any:
        yield 1

    for function in (gives, gives_later):
        with pytest.raises(InvalidInput, match="is a generator; a handler returns its result"):
            queue.job("hostile")(function)


async def test_arguments_that_raise_while_they_are_read_free_their_slot(sqlite_url: str) -> None:
    queue = Queue(sqlite_url)

    class Argument:
        def __init__(self, n: int) -> None:
            self.n = n

        def __eq__(self, other: object) -> bool:
            raise PanicException

        __hash__ = None  # type: ignore[assignment]

    @queue.job("hostile", max_attempts=1)
    async def hostile(argument: list[int]) -> bool:
        return Argument(argument[0]) == 1

    async with unharmed(queue):
        end = await (await queue.submit("hostile", {"argument": [1]})).wait("30s")
    assert (end.error and end.error.code) == "PanicException"


async def test_a_handler_that_cancels_its_own_task_ends_its_own_job_alone(sqlite_url: str) -> None:
    queue = Queue(sqlite_url)

    @queue.job("waits", max_attempts=1)
    async def waits() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    @queue.job("returns", max_attempts=1)
    async def returns() -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return "done"

    async with unharmed(queue):
        waited, returned = await ended(queue, "waits"), await ended(queue, "returns")
    assert (waited.error and waited.error.code) == "CancelledError"
    assert returned.state is State.COMPLETED


async def test_a_handler_that_closes_the_loops_executor_stops_nothing_of_ours(sqlite_url: str) -> None:
    queue = Queue(sqlite_url)

    @queue.job("hostile")
    async def hostile() -> str:
        await asyncio.get_running_loop().shutdown_default_executor()
        return "closed"

    async with unharmed(queue):
        assert (await ended(queue)).state is State.COMPLETED


async def test_a_handler_that_swallows_its_cancellation_gives_its_slot_back_when_it_ends(sqlite_url: str) -> None:
    queue = Queue(sqlite_url)
    enough = asyncio.Event()

    @queue.job("hostile", timeout="50ms", max_attempts=1)
    async def hostile() -> None:
        while not enough.is_set():
            try:
                await enough.wait()
            except asyncio.CancelledError:
                continue

    async with unharmed(queue):
        end = await ended(queue)
        enough.set()
    assert (end.error and end.error.code) == "timeout"


async def test_a_handler_that_blocks_the_loop_past_its_timeout_is_settled_and_frees_its_slot(sqlite_url: str) -> None:
    queue = Queue(sqlite_url)

    @queue.job("hostile", timeout="50ms", max_attempts=1)
    async def hostile() -> str:
        time.sleep(0.3)  # noqa: ASYNC251  # the very mistake
        return "late"

    async with unharmed(queue):
        assert (await ended(queue)).state in (State.COMPLETED, State.DEAD_LETTER)


async def test_threads_that_never_end_take_their_slots_and_it_is_said_and_the_worker_stops(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    queue = Queue(url)
    release = threading.Event()

    @queue.job("hostile", timeout="50ms", max_attempts=1)
    def hostile() -> None:
        release.wait(60)

    stop = asyncio.Event()
    async with queue:
        work = asyncio.create_task(queue.work(concurrency=2, stop=stop, webhooks=False))
        jobs = [await queue.submit("hostile") for _ in range(2)]
        ends = [await job.wait("30s") for job in jobs]
        await until(lambda: "no slot is left" in caplog.text, "the worker says that no slot is left")
        waiting = await queue.submit("hostile")
        stop.set()
        await asyncio.wait_for(work, ENDS_WITHIN_S)
        untouched = await queue.get(waiting.id)
    release.set()
    assert [end.error and end.error.code for end in ends] == ["timeout"] * 2
    assert (untouched.state, untouched.attempt) == (State.SCHEDULED, 0)
    assert caplog.text.count("no slot is left") == 1
    assert keepers() == []


async def test_a_slot_that_a_lingering_thread_held_is_used_again_when_it_ends(sqlite_url: str) -> None:
    queue = Queue(sqlite_url)
    release = threading.Event()

    @queue.job("hostile", timeout="50ms", max_attempts=1)
    def hostile() -> None:
        release.wait(60)

    async with unharmed(queue):
        jobs = [await queue.submit("hostile") for _ in range(SLOTS)]
        for job in jobs:
            await job.wait("30s")
        release.set()


@ON_SQLITE_ALONE
@pytest.mark.parametrize("kind", ["dies_on_the_loop", "dies_in_a_thread"])
async def test_a_job_that_ends_its_worker_each_time_is_dead_lettered_after_its_attempts(
    client: Queue, floor: Floor, kind: str
) -> None:
    job = await client.submit(kind, max_attempts=2)
    for number in range(2):
        worker = floor.start(lease="3s", sweep_interval_s=0.1)
        await floor.noted("begun", job, count=number + 1)
        assert await worker.ended() == 7
        assert worker.keeper() is None
    await floor.start(lease="3s", sweep_interval_s=0.1).working()
    end = await in_state(client, job, State.DEAD_LETTER)
    assert end.attempt_count == 2
    assert len(floor.journal("begun", job)) == 2


@ON_SQLITE_ALONE
async def test_a_process_handler_that_ends_its_process_ends_its_job_alone(client: Queue, floor: Floor) -> None:
    worker = await floor.start(lease="8s").working()
    job = await client.submit("dies_in_a_process", max_attempts=2)
    end = await in_state(client, job, State.DEAD_LETTER)
    assert (end.attempt_count, (end.error_document or {})["code"]) == (2, "process_died")
    panicked = await client.submit("panics_in_a_process", max_attempts=1)
    end = await in_state(client, panicked, State.DEAD_LETTER)
    assert (end.error_document or {})["code"] == "PanicException"
    assert (await in_state(client, await client.submit("quick"), State.COMPLETED)).result == b"0"
    worker.signal(signal.SIGTERM)
    assert await worker.ended() == 0


async def test_ctrl_c_in_an_async_handler_still_stops_the_process_and_gives_the_job_back(
    sqlite_url: str, tmp_path: Path
) -> None:
    """Without a signal handler of ours and without asyncio.run's: a real SIGINT raises inside the handler."""
    begun = tmp_path / "begun"
    script = f"""
import asyncio, pathlib, signal, time, euterpe
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's job in the background ignores it
queue = euterpe.Queue({sqlite_url!r})
@queue.job("spins")
async def spins():
    pathlib.Path({str(begun)!r}).touch()
    while True:
        time.sleep(0.01)  # a loop that never lets go of the interpreter may not see a signal that another thread took
loop = asyncio.new_event_loop()
work = loop.create_task(queue.work(webhooks=False))
try:
    loop.run_until_complete(work)
except KeyboardInterrupt:
    work.cancel()
    loop.run_until_complete(asyncio.wait({{work}}))
    print("interrupted", flush=True)
"""
    async with Queue(sqlite_url) as client:
        job = await client.submit("spins")
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", script, stdout=subprocess.PIPE)
        await until(begun.exists, "the handler runs")
        process.send_signal(signal.SIGINT)
        said, _ = await asyncio.wait_for(process.communicate(), 30)
        found = await client.get(job.id)
    assert said == b"interrupted\n"
    assert process.returncode == 0
    assert (found.state, found.attempt) == (State.SCHEDULED, 0)
