"""SIGTERM drains, a second one gives everything back; nothing is lost and nothing unbegun is charged."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from typing import Any

import pytest

from euterpe.model.state import State
from euterpe.queue.queue import Queue, core_of
from tests.worker.conftest import ON_SQLITE_ALONE
from tests.worker.floor import Floor, in_state, until
from tests.worker.inline import work_on, working


async def test_sigterm_lets_running_work_finish_and_leaves_the_rest_untouched(client: Queue, floor: Floor) -> None:
    worker = await floor.start(concurrency=2).working()
    running = [await client.submit("gated") for _ in range(2)]
    await floor.noted("begun", count=2)
    waiting = await client.submit_many([("quick", {"value": i}) for i in range(20)])
    worker.signal(signal.SIGTERM)
    await until(lambda: worker.said("shutting down"), "the worker says that it stops")
    floor.open_gate()
    assert await worker.ended() == 0
    assert [(await client.get(job.id)).state for job in running] == [State.COMPLETED] * 2
    untouched = [await core_of(client).get(job.id) for job in waiting]
    assert {(job.state, job.attempt_count, job.claim_version) for job in untouched} == {(State.SCHEDULED, 0, 0)}


async def test_when_the_grace_time_is_over_running_work_is_given_back_unharmed(client: Queue, floor: Floor) -> None:
    worker = await floor.start(concurrency=4, grace="300ms").working()
    jobs = [await client.submit(kind, {"gate": "never"}) for kind in ("gated", "gated_thread")]
    jobs.append(await client.submit("gated_process", {"gate": "never", "heeds": False}))
    await floor.noted("begun", count=3)
    worker.signal(signal.SIGTERM)
    assert await worker.ended() == 0
    for job in jobs:
        found = await core_of(client).get(job.id)
        assert (found.state, found.attempt_count, found.release_count) == (State.SCHEDULED, 0, 1)
        assert [a.outcome for a in await client.attempts(job.id)] == ["released"]
    assert len(worker.said("unfinished jobs are given back")) == 1


async def test_a_second_sigterm_gives_everything_back_at_once(client: Queue, floor: Floor) -> None:
    worker = await floor.start(grace="10m").working()
    job, thread = await client.submit("gated"), await client.submit("gated_thread")
    await floor.noted("begun", count=2)
    worker.signal(signal.SIGTERM)
    await until(lambda: worker.said("shutting down"), "the first signal is heard")
    assert (await client.get(job.id)).state is State.RUNNING
    worker.signal(signal.SIGTERM)
    assert await worker.ended() == 0
    for given_back in (job, thread):
        found = await core_of(client).get(given_back.id)
        assert (found.state, found.attempt_count) == (State.SCHEDULED, 0)


async def test_the_job_of_a_thread_that_does_not_stop_is_nobody_elses_while_its_process_lives(
    client: Queue, floor: Floor
) -> None:
    """Nothing is written about it; when the process is gone its lease runs out, and the job runs again."""
    leaving = await floor.start(grace="0s", lease="2s").working()
    job = await client.submit("gated_thread", {"heeds": False})
    await floor.noted("begun", job)
    await floor.start(lease="2s", sweep_interval_s=0.1).working()
    leaving.signal(signal.SIGTERM)
    assert await leaving.ended() == 0
    gone_at = time.time()
    assert [line["job_id"] for line in leaving.said("a thread still runs at shutdown")] == [job.id]
    second = await floor.noted("begun", job, count=2)
    assert second["at"] > gone_at - 0.2  # the process was seen to be gone a little after it was
    floor.open_gate()
    ended = await in_state(client, job, State.COMPLETED)
    assert (ended.claim_version, len(floor.journal("done", job))) == (2, 1)
    assert [a.outcome for a in await client.attempts(job.id)] == ["system", "completed"]


async def test_a_thread_that_ends_after_the_grace_time_without_looking_has_its_result_kept(url: str) -> None:
    queue = Queue(url)
    begun, release = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    @queue.job("slow")
    def slow() -> str:
        loop.call_soon_threadsafe(begun.set)
        release.wait(30)
        return "done"

    async with queue:
        at_once = asyncio.Event()
        job = await queue.submit("slow")
        work = asyncio.create_task(work_on(queue, keeper=False, at_once=at_once, webhooks=False))
        await begun.wait()
        at_once.set()
        for _ in range(20):  # as often as a release would need, and more
            assert (await queue.get(job.id)).state is State.RUNNING
        release.set()
        await work
        found = await core_of(queue).get(job.id)
    assert (found.state, found.result) == (State.COMPLETED, b'"done"')


async def test_what_one_worker_gave_back_another_completes_as_its_first_attempt(client: Queue, floor: Floor) -> None:
    leaving = await floor.start(grace="0s").working()
    job = await client.submit("gated", max_attempts=1)
    await floor.noted("begun", job)
    leaving.signal(signal.SIGTERM)
    assert await leaving.ended() == 0
    floor.open_gate()
    await floor.start().working()
    ended = await in_state(client, job, State.COMPLETED)
    assert (ended.attempt_count, ended.claim_version, ended.result) == (1, 2, b"1")


async def test_nothing_is_lost_or_charged_when_a_busy_worker_is_stopped(client: Queue, floor: Floor) -> None:
    """The signal comes at any point of the claiming and settling of a thousand jobs; a second worker does the rest."""
    await client.submit_many([("quick", {"value": i}) for i in range(1000)])
    first = await floor.start(concurrency=20).working()
    await floor.noted("ran", count=50)
    first.signal(signal.SIGTERM)
    assert await first.ended() == 0
    await floor.start(concurrency=20).working()

    async def all_done() -> bool:
        return (await client.stats()).by_state == {"completed": 1000}

    await until(all_done, "all are completed")
    ran = [line["job"] for line in floor.journal("ran")]
    assert len(ran) == len(set(ran)) == 1000
    assert {line["attempt"] for line in floor.journal("ran")} == {1}


async def test_a_cancelled_work_task_gives_its_jobs_back_before_it_ends(url: str) -> None:
    queue = Queue(url)
    begun = asyncio.Event()

    @queue.job("long")
    async def long() -> None:
        begun.set()
        await asyncio.Event().wait()

    async with queue:
        job = await queue.submit("long")
        worker = asyncio.create_task(work_on(queue, keeper=False))
        await begun.wait()
        worker.cancel()
        await asyncio.wait({worker})
        assert worker.cancelled()
        found = await core_of(queue).get(job.id)
        assert (found.state, found.attempt_count, found.release_count) == (State.SCHEDULED, 0, 1)


async def test_a_job_claimed_while_the_order_to_stop_comes_in_goes_back_unbegun(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = Queue(url)
    ran: list[str] = []

    @queue.job("short")
    async def short() -> None:
        ran.append("ran")

    async with queue:
        job = await queue.submit("short")
        turn = core_of(queue).store.exchange

        async with working(queue) as stop:

            async def turn_during_which_the_order_comes(*args: Any) -> Any:
                answer = await turn(*args)
                if answer[1]:
                    stop.set()
                    await asyncio.sleep(0)
                    await asyncio.sleep(0)
                return answer

            monkeypatch.setattr(core_of(queue).store, "exchange", turn_during_which_the_order_comes)
            await in_state(queue, job, State.SCHEDULED, State.COMPLETED)
            await until(stop.is_set, "the job is claimed")
        found = await core_of(queue).get(job.id)
    assert ran == []
    assert (found.state, found.attempt_count, found.release_count) == (State.SCHEDULED, 0, 1)


@ON_SQLITE_ALONE
async def test_a_worker_with_a_deaf_handler_still_ends(client: Queue, floor: Floor) -> None:
    worker = await floor.start(grace="0s").working()
    job = await client.submit("deaf", {"gate": "never"})
    await floor.noted("begun", job)
    worker.signal(signal.SIGTERM)
    assert await worker.ended() == 0
    assert (await client.get(job.id)).state is State.SCHEDULED
    assert worker.said("does not let itself be cancelled")
