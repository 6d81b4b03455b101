"""Places of a concurrency key: no more of its jobs are in the line than may begin, and the most urgent have them."""

from __future__ import annotations

from typing import Any

import pytest

from euterpe.model.rate import parse_rate
from euterpe.model.state import State
from euterpe.model.submitting.changes import Changes
from euterpe.ports import Capability
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import HOUR, MINUTE, SECOND, complete, release, state_of, submit, take, take_one
from tests.conformance.clock import FrozenClock
from tests.conformance.needs import needs

pytestmark = needs(Capability.CONCURRENCY_KEYS)

LONG_IN_LINE_S = 6
"""Longer than jobs may keep the places of their key without being taken."""


async def keyed(store: SqlStore, type: str = "work", limit: int | None = 1, **said: Any) -> str:
    return await submit(store, type, concurrency_key="k", concurrency_limit=limit, **said)


async def claimed(store: SqlStore, **asked: Any) -> list[str]:
    return [claim.job.id for claim in await take(store, **asked)]


async def test_a_smaller_limit_holds_for_its_own_job_in_whatever_order_jobs_are_claimed(store: SqlStore) -> None:
    small = await keyed(store, "small", 1)
    await keyed(store, "large", 2, priority=0)
    first = await take(store, types=("large",))
    beside = await claimed(store, types=("small",))
    assert (len(first), beside) in ((1, []), (0, [small])), "it would begin beside another, and its limit is 1"


async def test_a_limit_that_is_raised_holds_for_the_jobs_that_say_so(store: SqlStore) -> None:
    await keyed(store, limit=1)
    later = [await keyed(store, limit=3) for _ in range(3)]
    await take_one(store)
    await store.sweeps.recover()
    assert await claimed(store) == later[:2]
    assert await claimed(store) == []


async def test_a_limit_that_is_lowered_waits_until_fewer_run(store: SqlStore) -> None:
    for _ in range(3):
        await keyed(store, limit=3)
    running = await take(store)
    lowered = await keyed(store, limit=1)
    for claim in running[:2]:
        await complete(store, claim)
        assert await claimed(store) == []
    await complete(store, running[2])
    assert await claimed(store) == [lowered]


async def test_an_urgent_job_takes_the_place_of_one_that_does_not_run_yet(store: SqlStore) -> None:
    waiting = [await keyed(store, limit=2, priority=3) for _ in range(3)]
    urgent = await keyed(store, limit=2, priority=0)
    first = await take(store)
    assert [claim.job.id for claim in first] == [urgent, waiting[0]]
    assert await claimed(store) == []
    await complete(store, first[0])
    assert await claimed(store) == [waiting[1]]


async def test_several_urgent_jobs_take_as_many_places_as_there_are(store: SqlStore) -> None:
    for _ in range(4):
        await keyed(store, limit=3, priority=3)
    urgent = [await keyed(store, limit=3, priority=1) for _ in range(4)]
    assert await claimed(store) == urgent[:3]
    assert await claimed(store) == []


async def test_a_job_that_becomes_urgent_takes_a_place(store: SqlStore) -> None:
    first, second = await keyed(store), await keyed(store)
    await store.update(second, Changes(priority=0))
    running = await take_one(store)
    assert running.job.id == second
    assert await claimed(store) == []
    await complete(store, running)
    assert await claimed(store) == [first]


async def test_a_job_that_becomes_less_urgent_loses_its_place(store: SqlStore) -> None:
    first, second = await keyed(store), await keyed(store)
    await store.update(first, Changes(priority=4))
    assert await claimed(store) == [second]
    assert await claimed(store) == []


async def test_what_is_cancelled_in_the_line_gives_its_place_to_the_next(store: SqlStore) -> None:
    ids = [await keyed(store, limit=2) for _ in range(5)]
    await store.cancel(ids[0])
    await store.cancel(ids[1])
    assert await claimed(store) == ids[2:4]
    assert await claimed(store) == []


async def test_what_expires_in_the_line_gives_its_place_to_the_next(store: SqlStore, clock: FrozenClock) -> None:
    short = await keyed(store, lifetime_us=MINUTE)
    waits_short = await keyed(store, lifetime_us=MINUTE)
    following = await keyed(store, lifetime_us=HOUR)
    clock.advance(us=2 * MINUTE)
    assert await store.sweeps.end_lifetimes() == 2
    assert await state_of(store, short) is State.DEAD_LETTER
    assert await state_of(store, waits_short) is State.DEAD_LETTER
    assert await claimed(store) == [following]


async def test_a_job_that_is_given_back_is_the_next_of_its_key(store: SqlStore) -> None:
    first, _ = await keyed(store), await keyed(store)
    await release(store, await take_one(store))
    assert await claimed(store) == [first]
    assert await claimed(store) == []


async def test_a_type_that_nobody_takes_does_not_keep_the_places_of_its_key(
    store: SqlStore, clock: FrozenClock
) -> None:
    for _ in range(3):
        await keyed(store, "unknown", 2)
    known = [await keyed(store, "known", 2) for _ in range(4)]
    clock.advance(seconds=LONG_IN_LINE_S)
    await store.sweeps.recover()
    first = await take(store, types=("known",))
    assert [claim.job.id for claim in first] == known[:2]
    await complete(store, first[0])
    assert await claimed(store, types=("known",)) == known[2:3], "nor does it get a place before the others"


async def test_a_type_that_nobody_took_is_tried_again_when_the_others_are_done(
    store: SqlStore, clock: FrozenClock
) -> None:
    unknown = await keyed(store, "unknown")
    await keyed(store, "known")
    clock.advance(seconds=LONG_IN_LINE_S)
    await store.sweeps.recover()
    await complete(store, await take_one(store, types=("known",)))
    assert await claimed(store, types=("unknown",)) == [unknown]


@pytest.mark.parametrize("kind", ["type", "queue"])
async def test_what_is_paused_in_the_line_gives_its_place_at_once_when_another_comes(
    store: SqlStore, kind: str
) -> None:
    paused = await keyed(store, "held", queue="held")
    await store.pause(kind, "held")
    free = await keyed(store, "free")
    running = await take_one(store)
    assert running.job.id == free
    await store.resume(kind, "held")
    assert await claimed(store, queues=("held",)) == []
    await complete(store, running)
    assert await claimed(store, queues=("held",)) == [paused]


@needs(Capability.KEY_RATES)
async def test_no_more_jobs_are_in_the_line_than_tokens_however_these_go(store: SqlStore, clock: FrozenClock) -> None:
    await store.rates.set("k", parse_rate("1/s", burst=3))
    ids = [await keyed(store, limit=None) for _ in range(5)]
    await store.rates.charge("k", 2)
    assert await claimed(store) == ids[:1]
    clock.advance(us=SECOND)
    await store.sweeps.promote()
    assert await claimed(store) == ids[1:2]
    await store.rates.remove("k")
    assert await claimed(store) == ids[2:]
