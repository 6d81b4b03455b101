"""Which job goes first: queues by preference, priority inside a queue, submission order inside a priority."""

from __future__ import annotations

import pytest

from euterpe.model.errors import InvalidInput
from euterpe.model.priority import Priority
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import complete, fail, job, release, submit, take, take_one, taken
from tests.conformance.clock import FrozenClock
from tests.conformance.engines import Tables, row_counts


async def test_more_urgent_jobs_go_first_whatever_the_order_of_submission(store: SqlStore) -> None:
    for priority in (4, 2, 0, 3, 1):
        await submit(store, priority=priority)
    assert [claim.job.priority for claim in await take(store)] == [0, 1, 2, 3, 4]


async def test_jobs_of_equal_priority_go_in_submission_order(store: SqlStore) -> None:
    ids = [await submit(store) for _ in range(3)]
    ids += [submitted.job_id for submitted in await store.submit_many([job() for _ in range(20)])]
    taken_ids = [(await take_one(store)).job.id for _ in range(5)]
    taken_ids += [claim.job.id for claim in await take(store)]
    assert taken_ids == ids


async def test_one_claim_returns_its_jobs_in_the_order_they_should_run(store: SqlStore) -> None:
    ids = {}
    for index, priority in enumerate((2, 0, 2, 1, 0, 4)):
        ids[index] = await submit(store, priority=priority)
    assert [claim.job.id for claim in await take(store)] == [ids[i] for i in (1, 4, 3, 0, 2, 5)]


async def test_a_low_priority_job_runs_when_nothing_more_urgent_waits(store: SqlStore) -> None:
    bulk = await submit(store, priority=Priority.BULK)
    await complete(store, await taken(store, "urgent", priority=Priority.CRITICAL))
    assert (await take_one(store)).job.id == bulk


async def test_a_running_job_is_not_interrupted_for_a_more_urgent_one(store: SqlStore) -> None:
    running = await taken(store, priority=Priority.BULK)
    await submit(store, priority=Priority.CRITICAL)
    await take_one(store)
    assert (await store.heartbeat([running.lease]))[0].alive


async def test_a_released_job_keeps_its_place_in_the_line(store: SqlStore) -> None:
    first = await taken(store)
    await submit(store)
    await release(store, first)
    assert (await take_one(store)).job.id == first.job.id


async def test_a_promoted_job_keeps_the_place_of_its_submission(store: SqlStore, clock: FrozenClock) -> None:
    first = await taken(store)
    second = await submit(store)
    await fail(store, first)
    clock.advance(minutes=1)
    await store.sweeps.promote()
    assert [claim.job.id for claim in await take(store)] == [first.job.id, second]


async def test_jobs_of_a_batch_that_come_back_keep_their_places(store: SqlStore, clock: FrozenClock) -> None:
    """Released or tried again, while the rest of the batch still waits."""
    ids = [found.job_id for found in await store.submit_many([job()] * 6)]
    claims = await take(store, 4)
    await release(store, claims[2])
    await fail(store, claims[1])
    clock.advance(minutes=1)
    await store.sweeps.promote()
    assert [claim.job.id for claim in await take(store)] == [ids[1], ids[2], ids[4], ids[5]]


async def test_queues_are_served_in_the_workers_order_of_preference(store: SqlStore) -> None:
    for queue in ("a", "b", "c"):
        await submit(store, queue=queue, priority=0)
    assert [c.job.queue for c in await take(store, queues=("c", "a"))] == ["c", "a"]
    assert [c.job.queue for c in await take(store, queues=("a", "b"))] == ["b"]


async def test_a_preferred_queue_wins_over_a_higher_priority_elsewhere(store: SqlStore) -> None:
    await submit(store, queue="slow", priority=0)
    await submit(store, queue="fast", priority=4)
    assert (await take_one(store, queues=("fast", "slow"))).job.queue == "fast"


async def test_the_second_queue_fills_what_the_first_one_left_free(store: SqlStore) -> None:
    await store.submit_many([job(queue="a") for _ in range(2)] + [job(queue="b") for _ in range(5)])
    assert [c.job.queue for c in await take(store, 4, queues=("a", "b"))] == ["a", "a", "b", "b"]


async def test_a_queue_that_was_not_asked_for_is_left_alone(store: SqlStore) -> None:
    await submit(store, queue="other")
    assert await take(store) == []


async def test_a_worker_gets_only_the_types_it_knows(store: SqlStore) -> None:
    await submit(store, "a")
    await submit(store, "b")
    assert [c.job.type for c in await take(store, types=("b", "c"))] == ["b"]
    assert [c.job.type for c in await take(store)] == ["a"]


async def test_a_paused_queue_is_not_served_until_it_is_resumed(store: SqlStore) -> None:
    await submit(store, queue="q")
    await store.pause("queue", "q")
    await store.pause("queue", "q")
    assert await take(store, queues=("q",)) == []
    assert await store.paused() == [("queue", "q")]
    await store.resume("queue", "q")
    assert len(await take(store, queues=("q",))) == 1


async def test_a_paused_type_is_passed_over_and_the_others_go_on(store: SqlStore) -> None:
    await submit(store, "held")
    await submit(store, "free")
    await store.pause("type", "held")
    assert [c.job.type for c in await take(store)] == ["free"]
    await store.resume("type", "held")
    assert [c.job.type for c in await take(store)] == ["held"]


async def test_pausing_a_queue_does_not_pause_the_type_of_the_same_name(store: SqlStore) -> None:
    await submit(store, "same", queue="default")
    await store.pause("queue", "same")
    assert len(await take(store)) == 1


async def test_a_running_job_of_a_paused_queue_goes_on(store: SqlStore) -> None:
    claim = await taken(store, queue="q")
    await store.pause("queue", "q")
    assert (await store.heartbeat([claim.lease]))[0].alive
    assert (await complete(store, claim)).accepted


@pytest.mark.parametrize(
    ("kind", "name", "field"),
    [
        ("worker", "x", "kind"),
        ("", "x", "kind"),
        ("queue", "", "name"),
        ("type", "a\x00b", "name"),
        ("queue", "x" * 201, "name"),
    ],
)
async def test_a_pause_of_something_that_is_not_a_queue_or_type_is_refused(
    store: SqlStore, tables: Tables, kind: str, name: str, field: str
) -> None:
    before = await row_counts(tables)
    with pytest.raises(InvalidInput) as refused:
        await store.pause(kind, name)
    assert refused.value.field == field
    assert await row_counts(tables) == before
