"""Every operation of a queue is cut off at each of its suspension points, and then the queue is used on."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

import psutil
import pytest

from euterpe.backends.engines import connect
from euterpe.model.errors import EuterpeError
from euterpe.queue.queue import Queue
from tests.cancellation.cutting import Cut, When, cut_off
from tests.cancellation.test_store import HALF_DONE, MOST_POINTS, url
from tests.faults.crew import until
from tests.faults.history import check
from tests.faults.recorder import rows
from tests.patience import PATIENCE_S

__all__ = ["url"]

Prepare = Callable[[Queue, int], Awaitable[Coroutine[Any, Any, Any]]]


async def submit(queue: Queue, _: int) -> Coroutine[Any, Any, Any]:
    return queue.submit("t", {"n": 1})


async def submit_with_a_key(queue: Queue, n: int) -> Coroutine[Any, Any, Any]:
    return queue.submit("t", idempotency_key=f"k{n}")


async def submit_many(queue: Queue, _: int) -> Coroutine[Any, Any, Any]:
    return queue.submit_many([("t", {"n": n}) for n in range(3)])


async def workflow(queue: Queue, _: int) -> Coroutine[Any, Any, Any]:
    async def store_it() -> None:
        async with queue.workflow() as flow:
            first = flow.add("t")
            flow.add("t", after=[first])

    return store_it()


async def cancel(queue: Queue, _: int) -> Coroutine[Any, Any, Any]:
    return queue.cancel((await queue.submit("t")).id)


async def retry(queue: Queue, _: int) -> Coroutine[Any, Any, Any]:
    job = await queue.submit("t")
    await queue.cancel(job.id)
    return queue.retry(job.id)


async def update(queue: Queue, _: int) -> Coroutine[Any, Any, Any]:
    return queue.update((await queue.submit("t")).id, tags={"team": "a"})


async def get(queue: Queue, _: int) -> Coroutine[Any, Any, Any]:
    return queue.get((await queue.submit("t")).id)


async def search(queue: Queue, _: int) -> Coroutine[Any, Any, Any]:
    return queue.search(limit=5)


async def stats(queue: Queue, _: int) -> Coroutine[Any, Any, Any]:
    return queue.stats()


async def pause_and_resume(queue: Queue, n: int) -> Coroutine[Any, Any, Any]:
    async def both() -> None:
        await queue.pause(queue=f"q{n}")
        await queue.resume(queue=f"q{n}")

    return both()


async def wait_for_a_result(queue: Queue, _: int) -> Coroutine[Any, Any, Any]:
    job = await queue.submit("t")
    await queue.cancel(job.id)

    async def wait() -> None:
        try:
            await job.result("5s")
        except EuterpeError:
            return  # it was cancelled, and says so

    return wait()


OPERATIONS = (
    submit, submit_with_a_key, submit_many, workflow, cancel, retry, update, get, search, stats, pause_and_resume,
    wait_for_a_result,
)  # fmt: skip


@pytest.mark.parametrize("when", When, ids=lambda when: when.name.lower())
@pytest.mark.parametrize("prepare", OPERATIONS, ids=lambda operation: operation.__name__)
async def test_an_operation_that_is_cut_off_leaves_a_queue_that_works(url: str, prepare: Prepare, when: When) -> None:
    acknowledged: list[str] = []
    async with Queue(url) as queue:
        for at in range(MOST_POINTS):
            was_cut = await cut_off(await prepare(queue, at), at, when)
            async with asyncio.timeout(PATIENCE_S):
                acknowledged += await _traffic(queue, at)
            if not was_cut:
                break
        else:
            pytest.fail(f"it has more than {MOST_POINTS} suspension points")
        found = {job.id for job in (await queue.search(limit=1000)).jobs}
    assert set(acknowledged) <= found
    assert rows(url, HALF_DONE) == []
    check(url)


@pytest.mark.parametrize("when", When, ids=lambda when: when.name.lower())
async def test_a_queue_whose_opening_was_cut_off_can_be_opened(url: str, when: When) -> None:
    queue = Queue(url)

    async def open_and_close() -> None:
        async with queue:
            pass

    for at in range(MOST_POINTS):
        was_cut = await cut_off(open_and_close(), at, when)
        async with asyncio.timeout(PATIENCE_S), queue:
            await queue.submit("t")
        if not was_cut:
            break
    assert rows(url, "SELECT count(*) FROM inbox_jobs") == [(at + 1,)]


async def test_a_migration_that_was_cut_off_can_be_made(
    bare_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"migrates_{secrets.token_hex(4)}"
    monkeypatch.setattr("euterpe.stores.sql.postgres.session.APPLICATION", name)
    for at in range(MOST_POINTS):
        store = connect(bare_postgres_url).store
        was_cut = await cut_off(store.migrate(), at, When.WAITING)
        if not was_cut:
            break
    async with Queue(bare_postgres_url) as queue:
        await queue.submit("t")
    await until(lambda: _nobody_is_in_a_transaction(bare_postgres_url, name), within_s=30)


async def test_work_that_is_cut_off_as_it_starts_leaves_nothing_behind(url: str) -> None:
    """No lease keeper, no task, no job that nobody runs."""
    queue = Queue(url)

    @queue.job("t")
    async def handler() -> str:
        return "done"

    before = _children()
    async with queue:
        for at in range(12):
            job = await queue.submit("t")
            tasks = len(asyncio.all_tasks())
            starting = asyncio.ensure_future(_cut(queue.work(concurrency=2, lease="5s"), at))
            await asyncio.wait({starting}, timeout=2.0)
            if not starting.done():  # it works, and has no further point of its own
                starting.cancel()
                await asyncio.wait({starting})
                break
            # A connection that was cut off is asked and rolled back in a task of its own, which ends.
            await until(lambda n=tasks: _are_left(n), within_s=30)  # type: ignore[misc]
            assert _children() <= before
            worker = asyncio.ensure_future(queue.work(concurrency=2, lease="5s"))
            assert await job.result("20s") == "done"
            worker.cancel()
            await asyncio.wait({worker})
    assert at > 0
    assert _children() <= before
    check(url)


async def _are_left(tasks: int) -> bool:
    return len(asyncio.all_tasks()) <= tasks


async def _cut(running: Coroutine[Any, Any, Any], at: int) -> None:
    await Cut(running, at, When.WAITING)


def _children() -> set[int]:
    """Those of an earlier test may be about to end."""
    found = set()
    for child in psutil.Process().children():
        with suppress(psutil.Error):
            if "euterpe" in " ".join(child.cmdline()):
                found.add(child.pid)
    return found


async def _nobody_is_in_a_transaction(url: str, name: str) -> bool:
    asked = f"SELECT count(*) FROM pg_stat_activity WHERE application_name = '{name}' AND xact_start IS NOT NULL"
    return rows(url, asked) == [(0,)]


async def _traffic(queue: Queue, n: int) -> list[str]:
    jobs = await asyncio.gather(
        queue.submit("after"), queue.submit("after", idempotency_key=f"after-{n}"), queue.submit("after", delay="1h")
    )
    return [job.id for job in jobs]
