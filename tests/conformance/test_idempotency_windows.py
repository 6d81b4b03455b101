"""How long a key is remembered: as the submission, its job type or the configuration says, counted from the end of its
job. A submit that meets the key and the sweep that removes it agree about it to the microsecond."""

from __future__ import annotations

from typing import Any

import pytest

from euterpe.model.errors import InvalidInput
from euterpe.model.retention import Retention
from euterpe.model.submitting.submission import DAY_US as DAY
from euterpe.model.submitting.submission import Submission
from euterpe.queue.queue import Queue, submitter_of
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import HOUR, complete, job, take_one
from tests.conformance.clock import FrozenClock
from tests.conformance.engines import Tables

AT_ONCE = Retention(completed_us=0, cancelled_us=0, failed_us=0, dead_letter_us=0, tombstones_us=0)


def configure(store: SqlStore, window_us: int) -> None:
    """As `retention.idempotency` does, at the process beside the database."""
    getattr(store, "behind", store).key_window_us = window_us


def of_a_type(window: str | None, **said: Any) -> Submission:
    """What a submit of a job type that declares this window comes to."""
    queue = Queue("sqlite:///:memory:")

    @queue.job("work", idempotency_window=window)
    def work() -> None: ...

    return submitter_of(queue).make_submission(work, idempotency_key="k", **said)


async def completed(store: SqlStore, submission: Submission) -> str:
    """A keyed job that ended in the moment of its submission."""
    submitted = await store.submit(submission)
    assert not submitted.replayed
    await complete(store, await take_one(store))
    return submitted.job_id


async def held_for(store: SqlStore, clock: FrozenClock, submission: Submission, window_us: int) -> None:
    """One microsecond before the window's end a repeat is a replay and nothing is swept; at its end it is a new job."""
    first = await completed(store, submission)
    clock.advance(us=window_us - 1)
    assert await store.sweeps.expire_keys() == 0
    again = await store.submit(submission)
    assert (again.job_id, again.replayed) == (first, True)
    clock.advance(us=1)
    fresh = await store.submit(submission)
    assert (fresh.job_id != first, fresh.replayed) == (True, False)


async def swept_after(store: SqlStore, clock: FrozenClock, submission: Submission, window_us: int) -> None:
    await completed(store, submission)
    clock.advance(us=window_us - 1)
    assert await store.sweeps.expire_keys() == 0
    clock.advance(us=1)
    assert await store.sweeps.expire_keys() == 1


@pytest.fixture(params=[held_for, swept_after], ids=["met by a submit", "swept"])
def lasts(request: pytest.FixtureRequest) -> Any:
    return request.param


async def test_a_submission_names_its_own_window(store: SqlStore, clock: FrozenClock, lasts: Any) -> None:
    await lasts(store, clock, job(idempotency_key="k", idempotency_window_us=50 * HOUR), 50 * HOUR)


async def test_a_job_type_declares_the_window_of_its_submissions(
    store: SqlStore, clock: FrozenClock, lasts: Any
) -> None:
    await lasts(store, clock, of_a_type("3d"), 3 * DAY)


async def test_the_configured_window_is_for_all_that_name_none(store: SqlStore, clock: FrozenClock, lasts: Any) -> None:
    configure(store, 40 * HOUR)
    await lasts(store, clock, job(idempotency_key="k"), 40 * HOUR)


@pytest.mark.parametrize(("own", "window_us"), [("2d", 2 * DAY), (None, 3 * DAY)], ids=["submission", "type"])
async def test_the_submission_wins_over_its_type_and_the_type_over_the_configuration(
    store: SqlStore, clock: FrozenClock, lasts: Any, own: str | None, window_us: int
) -> None:
    configure(store, 9 * DAY)
    await lasts(store, clock, of_a_type("3d", **({} if own is None else {"idempotency_window": own})), window_us)


async def test_a_queues_own_window_is_for_all_that_name_none(store: SqlStore, clock: FrozenClock, lasts: Any) -> None:
    queue = Queue("sqlite:///:memory:", idempotency_window="30h")
    await lasts(store, clock, submitter_of(queue).make_submission("work", idempotency_key="k"), 30 * HOUR)


@pytest.mark.parametrize("window_us", [1, 2 * HOUR])
async def test_a_window_under_a_day_is_honoured(
    store: SqlStore, clock: FrozenClock, lasts: Any, window_us: int
) -> None:
    configure(store, 3 * HOUR)
    await lasts(store, clock, job(idempotency_key="k", idempotency_window_us=window_us), window_us)


async def test_a_configured_window_under_a_day_is_honoured(store: SqlStore, clock: FrozenClock, lasts: Any) -> None:
    configure(store, HOUR)
    await lasts(store, clock, job(idempotency_key="k"), HOUR)


@pytest.mark.parametrize("window_us", [2 * HOUR, 2 * DAY, None])
async def test_the_window_counts_from_the_end_and_a_key_is_never_free_while_its_job_lives(
    store: SqlStore, clock: FrozenClock, window_us: int | None
) -> None:
    submission = job(idempotency_key="k", idempotency_window_us=window_us)
    first = await store.submit(submission)
    clock.advance(days=5)
    assert await store.sweeps.expire_keys() == 0
    assert (await store.submit(submission)).job_id == first.job_id
    await complete(store, await take_one(store))
    clock.advance(us=(window_us or DAY) - 1)
    assert await store.sweeps.expire_keys() == 0
    assert (await store.submit(submission)).job_id == first.job_id
    clock.advance(us=1)
    assert (await store.submit(submission)).job_id != first.job_id


async def test_a_job_that_is_pruned_early_keeps_its_key_for_its_window(
    store: SqlStore, clock: FrozenClock, tables: Tables
) -> None:
    submission = job(idempotency_key="k", idempotency_window_us=HOUR)
    first = await completed(store, submission)
    clock.advance(minutes=30)
    assert await store.sweeps.prune(AT_ONCE) == 1
    clock.advance(us=HOUR - 1)
    await store.sweeps.prune(AT_ONCE)
    assert await store.sweeps.expire_keys() == 0
    assert (await store.submit(submission)).job_id == first
    clock.advance(us=1)
    assert await store.sweeps.expire_keys() == 1
    assert (await store.submit(submission)).job_id != first
    assert await tables.run("SELECT COUNT(*) FROM idempotency_keys") == [(1,)]


async def test_a_repeat_with_another_window_is_the_same_request_and_changes_nothing(
    store: SqlStore, clock: FrozenClock
) -> None:
    first = await completed(store, job(idempotency_key="k", idempotency_window_us=2 * DAY))
    again = await store.submit(job(idempotency_key="k", idempotency_window_us=20 * DAY))
    assert (again.job_id, again.replayed) == (first, True)
    clock.advance(days=2)
    assert (await store.submit(job(idempotency_key="k"))).job_id != first


async def test_the_key_of_a_batch_is_remembered_for_the_longest_window_of_its_jobs(
    store: SqlStore, clock: FrozenClock
) -> None:
    batch = [job("a"), job("b", idempotency_window_us=3 * DAY)]
    first = await store.submit_many(batch, key="batch")
    for _ in batch:
        await complete(store, await take_one(store))
    clock.advance(us=3 * DAY - 1)
    assert await store.sweeps.expire_keys() == 0
    assert [r.job_id for r in await store.submit_many(batch, key="batch")] == [r.job_id for r in first]
    clock.advance(us=1)
    assert not {r.job_id for r in await store.submit_many(batch, key="batch")} & {r.job_id for r in first}


async def test_the_key_of_a_batch_is_held_until_a_window_after_the_last_of_its_jobs(
    store: SqlStore, clock: FrozenClock
) -> None:
    batch = [job("quick", idempotency_window_us=HOUR), job("slow", idempotency_window_us=HOUR)]
    first = [submitted.job_id for submitted in await store.submit_many(batch, key="batch")]
    await complete(store, await take_one(store))
    clock.advance(days=5)
    assert await store.sweeps.expire_keys() == 0, "the second job of the batch still lives"
    assert [r.job_id for r in await store.submit_many(batch, key="batch")] == first
    await complete(store, await take_one(store))
    clock.advance(us=HOUR - 1)
    assert await store.sweeps.expire_keys() == 0
    assert [r.job_id for r in await store.submit_many(batch, key="batch")] == first
    clock.advance(us=1)
    assert not {r.job_id for r in await store.submit_many(batch, key="batch")} & set(first)


async def test_the_key_of_a_batch_is_swept_a_window_after_the_last_of_its_jobs_was_pruned(
    store: SqlStore, clock: FrozenClock
) -> None:
    batch = [job("quick", idempotency_window_us=HOUR), job("slow", idempotency_window_us=HOUR)]
    first = [submitted.job_id for submitted in await store.submit_many(batch, key="batch")]
    for _ in batch:
        clock.advance(days=2)
        await complete(store, await take_one(store))
        assert await store.sweeps.prune(AT_ONCE) == 1
    clock.advance(us=HOUR - 1)
    assert await store.sweeps.expire_keys() == 0
    assert [r.job_id for r in await store.submit_many(batch, key="batch")] == first
    clock.advance(us=1)
    assert await store.sweeps.expire_keys() == 1


@pytest.mark.parametrize("answer", ["[", "[1]", '["job_id"]', '[{"job_id":"x"}]', "\\xff[", ""])
async def test_a_stored_answer_that_cannot_be_read_stops_no_sweep(
    store: SqlStore, clock: FrozenClock, tables: Tables, answer: str
) -> None:
    await store.submit_many([job("a"), job("b")], key="batch")
    for _ in range(2):
        await complete(store, await take_one(store))
    blob = answer.encode().replace(b"\\xff", b"\xff").hex()
    value = f"decode('{blob}', 'hex')" if store.engine.family == "postgres" else f"x'{blob}'"
    await tables.run(f"UPDATE idempotency_keys SET response = {value}")
    clock.advance(days=30)
    assert await store.sweeps.expire_keys() == 1


@pytest.mark.parametrize("window_us", [0, -1, 10**30, True, "1h"])
async def test_a_window_that_is_none_is_refused_by_name(store: SqlStore, window_us: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        await store.submit(job(idempotency_key="k", idempotency_window_us=window_us))
    assert refused.value.field == "idempotency_window"
