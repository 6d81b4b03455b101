"""`queue.sync`: the same queue for code without an event loop, and for plain `def` handlers inside a worker."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from euterpe.model.errors import EuterpeError, InvalidInput, JobFailed, JobNotFound
from euterpe.model.state import State
from euterpe.queue.queue import Queue
from euterpe.worker.context import Context
from tests.worker.inline import working


@pytest.fixture
def plain(url: str) -> Iterator[Queue]:
    """A queue whose sync face is closed after the test."""
    queue = Queue(url)
    with queue.sync:
        yield queue


def test_sync_code_submits_looks_and_steers(plain: Queue) -> None:
    job = plain.sync.submit("any.type", {"x": 1}, priority="high", idempotency_key="k")
    assert plain.sync.submit("any.type", {"x": 1}, priority="high", idempotency_key="k").id == job.id
    assert plain.sync.get(job.id).state is State.SCHEDULED
    assert plain.sync.attempts(job.id) == []
    assert [found.id for found in plain.sync.search(type="any.type").jobs] == [job.id]
    many = plain.sync.submit_many([("any.type", {"n": n}) for n in range(3)])
    assert plain.sync.stats().by_state == {"scheduled": 4}
    assert plain.sync.cancel(many[0].id) is State.CANCELLED
    again = plain.sync.retry(many[0].id)
    assert plain.sync.get(again.id).replay_of == many[0].id
    plain.sync.pause(queue="default")
    plain.sync.resume(queue="default")


def test_sync_code_builds_chains_and_fan_outs(plain: Queue) -> None:
    @plain.job("step")
    async def step(n: int) -> int:
        return n

    chain = plain.sync.chain([step.with_args(1), step.with_args(2)])
    fan = plain.sync.fan_out([step.with_args(1), step.with_args(2)], then=step.with_args(3))
    assert [plain.sync.get(job.id).state for job in chain] == [State.SCHEDULED, State.PENDING]
    assert plain.sync.get(fan[-1].id).pending_dependencies == 2


def test_errors_come_through_as_they_are(plain: Queue) -> None:
    with pytest.raises(InvalidInput):
        plain.sync.submit("any.type", {}, priority="urgent")
    with pytest.raises(JobNotFound):
        plain.sync.get("2f1cf4ac-6b7e-4d7c-9a52-5f2f8e0b3a11")
    job = plain.sync.submit("any.type")
    with pytest.raises(TimeoutError):
        plain.sync.result(job, timeout="20ms")
    plain.sync.cancel(job.id)
    with pytest.raises(JobFailed):
        plain.sync.result(job)
    assert plain.sync.wait(job).state is State.CANCELLED


def test_many_threads_may_use_one_sync_queue(plain: Queue) -> None:
    ids: list[str] = []

    def submit() -> None:
        ids.extend(plain.sync.submit("any.type").id for _ in range(5))

    threads = [threading.Thread(target=submit) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(ids)) == 20
    assert plain.sync.stats().by_state == {"scheduled": 20}


def test_a_closed_sync_queue_opens_again(plain: Queue) -> None:
    plain.sync.submit("any.type")
    plain.sync.close()
    plain.sync.submit("any.type")
    assert plain.sync.stats().by_state == {"scheduled": 2}


def test_a_blocking_connection_joins_its_transaction(url: str, plain: Queue) -> None:
    plain.sync.stats()  # opens, and so makes the tables
    if url.startswith("sqlite"):
        plain.sync.close()
        connection = sqlite3.connect(Path(url.removeprefix("sqlite:///")), isolation_level=None)
        begin = "BEGIN IMMEDIATE"
    else:
        address, _, schema = url.partition("?schema=")
        connection = psycopg.connect(address, autocommit=True, options=f"-c search_path={schema}")  # type: ignore[assignment]  # two drivers
        begin = "BEGIN"
    connection.execute(begin)
    dropped = plain.sync.submit("bill", {"n": 1}, connection=connection, idempotency_key="k")
    connection.execute("ROLLBACK")
    connection.execute(begin)
    kept = plain.sync.submit("bill", {"n": 1}, connection=connection, idempotency_key="k")
    more = plain.sync.submit_many([("bill", {"n": 2})], connection=connection)
    connection.execute("COMMIT")
    connection.close()
    assert kept.id != dropped.id
    assert {job.id for job in plain.sync.search(type="bill").jobs} == {kept.id, more[0].id}


async def test_a_thread_handler_uses_the_sync_face_of_its_own_open_queue(url: str) -> None:
    queue = Queue(url)

    @queue.job("child")
    async def child(n: int) -> int:
        return n * 2

    @queue.job("parent")
    def parent(ctx: Context) -> int:
        job = queue.sync.submit(child.with_args(n=21))
        return queue.sync.result(job, timeout="20s")

    async with working(queue, concurrency=2):
        assert await (await parent.submit()).result("30s") == 42


async def test_the_sync_face_refuses_to_block_the_loop_of_its_queue(url: str) -> None:
    async with Queue(url) as queue:
        with pytest.raises(EuterpeError, match="await the queue itself"):
            queue.sync.stats()
