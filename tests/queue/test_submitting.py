"""Submitting: handles with results, all or nothing, once by key, later by delay, in the caller's own transaction."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import pytest

from euterpe.model.errors import (
    EuterpeError,
    IdempotencyConflict,
    InvalidInput,
    JobFailed,
    PayloadTooLarge,
    PermanentError,
    StoreUnavailable,
    UnknownDependency,
)
from euterpe.model.state import State
from euterpe.queue.queue import Queue, core_of
from euterpe.worker.context import Context
from tests.worker.inline import working

NO_SUCH_JOB = "2f1cf4ac-6b7e-4d7c-9a52-5f2f8e0b3a11"


async def test_a_handle_tells_what_was_stored(queue: Queue) -> None:
    job = await queue.submit("any.type", {"x": 1}, priority="high", tags={"a": "b"})
    stored = await queue.get(job.id)
    assert (job.type, job.state, job.replayed) == ("any.type", State.SCHEDULED, False)
    assert (stored.payload, stored.priority, stored.tags) == ({"x": 1}, 1, {"a": "b"})
    assert job.created_at.tzinfo is UTC
    assert job.created_at == stored.created_at
    assert repr(job) == f"<job {job.id} any.type>"


async def test_a_result_comes_back_as_the_type_that_the_handler_names(queue: Queue) -> None:
    @queue.job("when")
    async def when(days: int) -> datetime:
        return datetime(2026, 1, 7, tzinfo=UTC) + timedelta(days=days)

    @queue.job("nothing")
    async def nothing() -> None: ...

    async with working(queue):
        assert await (await when.submit(days=1)).result("20s") == datetime(2026, 1, 8, tzinfo=UTC)
        by_name = await queue.submit("when", {"days": 2})
        assert await by_name.result("20s") == datetime(2026, 1, 9, tzinfo=UTC)
        assert await (await queue.submit("nothing")).result("20s") is None


async def test_the_result_of_a_job_that_did_not_complete_is_an_error_with_its_reason(queue: Queue) -> None:
    @queue.job("gone")
    async def gone() -> None:
        raise PermanentError("the report is gone", code="gone")

    async with working(queue):
        job = await gone.submit()
        with pytest.raises(JobFailed) as failed:
            await job.result("20s")
    assert (failed.value.job_id, failed.value.state) == (job.id, State.FAILED)
    assert failed.value.error is not None
    assert failed.value.error.code == "gone"
    assert "the report is gone" in str(failed.value)


async def test_a_plain_exception_is_told_with_its_type(queue: Queue) -> None:
    @queue.job("sell", max_attempts=1)
    async def sell() -> None:
        raise KeyError("sku")

    async with working(queue):
        job = await sell.submit()
        with pytest.raises(JobFailed, match="ended dead_letter: KeyError: 'sku'"):
            await job.result("20s")


async def test_waiting_for_a_result_ends_with_its_timeout(queue: Queue) -> None:
    job = await queue.submit("nobody.runs.this")
    with pytest.raises(TimeoutError, match="still scheduled"):
        await job.result(timeout="50ms")


async def test_many_may_wait_for_one_job_and_a_retry_wakes_nobody_too_early(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0

    @queue.job("third", backoff={"strategy": "constant", "initial": "300ms", "jitter": 0})
    async def third(ctx: Context) -> int:
        if ctx.attempt < 3:
            raise ValueError("not yet")
        return ctx.attempt

    get = core_of(queue).store.get

    async def counted(job_id: str) -> Any:
        nonlocal looks
        looks += 1
        return await get(job_id)

    monkeypatch.setattr(core_of(queue).store, "get", counted)
    async with working(queue):
        job = await third.submit()
        assert await asyncio.gather(*(job.result("20s") for _ in range(5))) == [3] * 5
    assert looks < 5 * 40


async def test_submit_many_stores_all(queue: Queue) -> None:
    @queue.job("number")
    async def number(n: int) -> None: ...

    jobs = await queue.submit_many([number.with_args(n) for n in range(100)] + [("other", {"n": 1})], priority="low")
    assert len({job.id for job in jobs}) == 101
    assert (await queue.stats()).by_type == {"number": {"scheduled": 100}, "other": {"scheduled": 1}}
    assert (await queue.get(jobs[-1].id)).priority == 3
    assert await queue.submit_many([]) == []


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (("number", {"n": "x" * 1_000_001}), PayloadTooLarge),
        (("", {}), InvalidInput),
        (("any.type", object()), InvalidInput),
        (object(), InvalidInput),
    ],
)
async def test_submit_many_with_one_that_is_wrong_stores_none(queue: Queue, bad: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        await queue.submit_many([("number", {"n": 1}), bad, ("number", {"n": 2})])
    assert (await queue.stats()).by_state == {}


async def test_submit_many_with_one_that_the_database_refuses_stores_none(queue: Queue) -> None:
    with pytest.raises(UnknownDependency):
        await queue.submit_many([("a", {}), ("b", {})], depends_on=[NO_SUCH_JOB])
    assert (await queue.stats()).by_state == {}


async def test_the_same_key_finds_the_first_job_and_another_request_with_it_is_refused(queue: Queue) -> None:
    first = await queue.submit("bill", {"customer": 7}, idempotency_key="bill-7")
    again = await queue.submit("bill", {"customer": 7}, idempotency_key="bill-7")
    assert (again.id, again.created_at) == (first.id, first.created_at)
    assert (first.replayed, again.replayed) == (False, True)
    with pytest.raises(IdempotencyConflict) as conflict:
        await queue.submit("bill", {"customer": 8}, idempotency_key="bill-7")
    assert (conflict.value.key, conflict.value.job_id) == ("bill-7", first.id)
    other_type = await queue.submit("reminder", {"customer": 7}, idempotency_key="bill-7")
    assert other_type.id != first.id
    assert (await queue.stats()).by_state == {"scheduled": 2}


async def test_twenty_submits_of_one_key_at_once_make_one_job(queue: Queue) -> None:
    jobs = await asyncio.gather(*(queue.submit("bill", {"n": 1}, idempotency_key="k") for _ in range(20)))
    assert len({job.id for job in jobs}) == 1
    assert [job.replayed for job in jobs].count(False) == 1


async def test_a_key_over_many_is_the_key_of_the_whole(queue: Queue) -> None:
    calls = [("a", {"n": 1}), ("b", {"n": 2})]
    first = await queue.submit_many(calls, idempotency_key="batch-1")
    again = await queue.submit_many(calls, idempotency_key="batch-1")
    assert [job.id for job in again] == [job.id for job in first]
    assert all(job.replayed for job in again)
    with pytest.raises(IdempotencyConflict):
        await queue.submit_many(calls[:1], idempotency_key="batch-1")
    with pytest.raises(InvalidInput) as refused:
        await queue.submit_many(calls, idempotency_key="k" * 257)
    assert refused.value.field == "idempotency_key"
    assert (await queue.stats()).by_state == {"scheduled": 2}


async def test_a_delay_and_a_time_say_when_a_job_may_start(queue: Queue) -> None:
    soon = await queue.submit("any.type", delay="5m")
    later = await queue.submit("any.type", run_at=datetime.now(UTC) + timedelta(hours=1))
    past = await queue.submit("any.type", run_at=datetime(2020, 1, 1, tzinfo=UTC))
    now = time.time()
    found = [await queue.get(job.id) for job in (soon, later, past)]
    assert [job.state for job in found] == [State.DELAYED, State.DELAYED, State.SCHEDULED]
    assert found[0].run_at.timestamp() == pytest.approx(now + 300, abs=30)
    assert found[1].run_at.timestamp() == pytest.approx(now + 3600, abs=30)


async def test_a_job_submitted_in_the_callers_transaction_is_there_only_when_it_commits(url: str, queue: Queue) -> None:
    @queue.job("bill")
    async def bill(customer: int) -> None: ...

    async with _callers_connection(url) as transaction:
        async with transaction() as connection:
            kept = await bill.options(connection=connection).submit(customer=1)
            assert not await _is_there(queue, kept.id)
        assert await _is_there(queue, kept.id)
        rolled_back = transaction()
        connection = await rolled_back.__aenter__()
        dropped = await bill.submit(customer=2, connection=connection)  # type: ignore[call-arg]  # see docs/transactions
        many = await queue.submit_many([bill.with_args(3)], connection=connection)
        async with queue.workflow(connection=connection) as flow:
            flow.add(bill, 4)
        await rolled_back.__aexit__(ZeroDivisionError, None, None)
    for gone in (dropped.id, many[0].id, flow.nodes[0].id):
        assert not await _is_there(queue, gone)
    assert (await queue.stats()).by_state == {"scheduled": 1}


async def _is_there(queue: Queue, job_id: str) -> bool:
    try:
        await queue.get(job_id)
    except EuterpeError:
        return False
    return True


class _callers_connection:
    """`async with` it: a factory of transactions on a connection that is not the queue's."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def __aenter__(self) -> Any:
        if self._url.startswith("sqlite"):
            self._sqlite = apsw.Connection(str(Path(self._url.removeprefix("sqlite:///"))))
            return lambda: _ApswTransaction(self._sqlite)
        plain, _, schema = self._url.partition("?schema=")
        self._postgres = await asyncpg.connect(plain, server_settings={"search_path": schema})
        return lambda: _AsyncpgTransaction(self._postgres)

    async def __aexit__(self, *_: object) -> None:
        if self._url.startswith("sqlite"):
            self._sqlite.close()
        else:
            await self._postgres.close()


class _ApswTransaction:
    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    async def __aenter__(self) -> apsw.Connection:
        self._connection.execute("BEGIN IMMEDIATE")
        return self._connection

    async def __aexit__(self, kind: object, *_: object) -> None:
        self._connection.execute("COMMIT" if kind is None else "ROLLBACK")


class _AsyncpgTransaction:
    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._transaction = connection.transaction()

    async def __aenter__(self) -> Any:
        await self._transaction.start()
        return self._connection

    async def __aexit__(self, kind: object, *_: object) -> None:
        await (self._transaction.commit() if kind is None else self._transaction.rollback())


async def test_a_job_of_the_callers_transaction_wakes_the_worker_when_it_commits(url: str) -> None:
    """No poll: on Postgres the NOTIFY goes out with the commit, on SQLite the WAL shows it."""
    worker_queue = Queue(url)

    @worker_queue.job("bill")
    async def bill(customer: int) -> int:
        return customer

    async with working(worker_queue, poll="10m"), _callers_connection(url) as transaction:
        async with transaction() as connection:
            job = await bill.options(connection=connection).submit(customer=5)
        assert await job.result("20s") == 5


async def test_a_queue_that_is_not_open_says_what_to_do(unopened: Queue) -> None:
    with pytest.raises(StoreUnavailable, match="async with queue"):
        await unopened.submit("any.type")
