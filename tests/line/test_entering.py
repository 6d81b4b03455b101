"""Whatever makes a job ready puts it into the line, or into its key's own line, in the same transaction."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from euterpe.model.failures.failure import Category
from euterpe.model.state import State
from euterpe.model.submitting.changes import Changes
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import CALLBACK, HOUR, MINUTE, complete, fail, release, submit, take, take_one
from tests.conformance.clock import FrozenClock
from tests.conformance.engines import PostgresTables
from tests.line.acts import bulk

Way = Callable[..., Awaitable[str]]


async def lone(store: SqlStore, clock: FrozenClock, **said: Any) -> str:
    return await submit(store, **said)


async def with_an_idempotency_key(store: SqlStore, clock: FrozenClock, **said: Any) -> str:
    return await submit(store, idempotency_key="once", **said)


async def in_bulk(store: SqlStore, clock: FrozenClock, **said: Any) -> str:
    (job_id, _) = await bulk(store, 2, **said)
    return job_id


async def promoted(store: SqlStore, clock: FrozenClock, **said: Any) -> str:
    job_id = await submit(store, delay_us=MINUTE, **said)
    clock.advance(minutes=1)
    await store.sweeps.promote()
    return job_id


async def tried_again(store: SqlStore, clock: FrozenClock, **said: Any) -> str:
    job_id = await submit(store, **said)
    await fail(store, await take_one(store))
    clock.advance(hours=1)
    await store.sweeps.promote()
    return job_id


async def released(store: SqlStore, clock: FrozenClock, **said: Any) -> str:
    first = await submit(store, **said)
    job_id = await submit(store, depends_on=(first,), **said)
    await complete(store, await take_one(store))
    return job_id


async def released_and_told(store: SqlStore, clock: FrozenClock, **said: Any) -> str:
    first = await submit(store, **said)
    job_id = await submit(store, depends_on=(first,), callback_url=CALLBACK, **said)
    await complete(store, await take_one(store))
    return job_id


async def given_back(store: SqlStore, clock: FrozenClock, **said: Any) -> str:
    job_id = await submit(store, **said)
    await release(store, await take_one(store))
    return job_id


async def taken_back(store: SqlStore, clock: FrozenClock, **said: Any) -> str:
    job_id = await submit(store, lifetime_us=HOUR, **said)
    await take_one(store)
    clock.advance(minutes=10)
    await store.sweeps.reclaim()
    clock.advance(minutes=10)
    await store.sweeps.promote()
    return job_id


async def retried_by_hand(store: SqlStore, clock: FrozenClock, **said: Any) -> str:
    job_id = await submit(store, **said)
    await fail(store, await take_one(store), Category.PERMANENT)
    await store.retry(job_id)
    return job_id


async def replayed(store: SqlStore, clock: FrozenClock, **said: Any) -> str:
    job_id = await submit(store, **said)
    await complete(store, await take_one(store))
    return (await store.retry(job_id)).id


async def made_more_urgent(store: SqlStore, clock: FrozenClock, **said: Any) -> str:
    job_id = await submit(store, **said)
    await store.update(job_id, Changes(priority=0))
    return job_id


WAYS: dict[str, Way] = {
    way.__name__.replace("_", " "): way
    for way in (
        lone, with_an_idempotency_key, in_bulk, promoted, tried_again, released, released_and_told, given_back,
        taken_back, retried_by_hand, replayed, made_more_urgent,
    )
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
async def test_what_becomes_ready_is_in_the_line_once(
    store: SqlStore, tables: PostgresTables, clock: FrozenClock, way: Way
) -> None:
    job_id = await way(store, clock)
    job = await store.get(job_id)
    assert job.state is State.SCHEDULED
    places = await tables.run(
        f"SELECT queue, type, priority FROM euterpe_line WHERE {job.seq} BETWEEN seq AND seq + jobs - 1"
    )
    assert places == [(job.queue, job.type, job.priority)]
    assert job_id in {claim.job.id for claim in await take(store)}
    assert await tables.run("SELECT 1 FROM euterpe_line") == []


@pytest.mark.parametrize("way", ["promoted", "tried again", "released", "given back", "retried by hand"])
async def test_what_becomes_ready_of_a_key_takes_no_more_places_than_it_has(
    store: SqlStore, tables: PostgresTables, clock: FrozenClock, way: str
) -> None:
    """One of the key runs all the while, so that the key has one place."""
    limited = {"concurrency_key": "k", "concurrency_limit": 2}
    await submit(store, "other", **limited)
    await take_one(store, types=("other",))
    job_id = await WAYS[way](store, clock, **limited)
    await submit(store, "third", **limited)
    assert (await store.get(job_id)).state is State.SCHEDULED
    ((in_line, waiting),) = await tables.run(
        "SELECT (SELECT COUNT(*) FROM euterpe_line), (SELECT COUNT(*) FROM euterpe_key_line)"
    )
    assert (in_line, waiting) == (1, 1)
