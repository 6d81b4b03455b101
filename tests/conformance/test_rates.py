"""Rates of keys: exact over all claimers, with a burst; what has no token waits, uncharged and in order."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from euterpe.model.errors import InvalidInput
from euterpe.model.failures.failure import Category
from euterpe.model.rate import parse_rate
from euterpe.model.state import State
from euterpe.model.submitting.submission import Submission
from euterpe.ports import Capability
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import SECOND, complete, fail, job, submit, take, take_one
from tests.conformance.clock import FrozenClock
from tests.conformance.engines import Opened
from tests.conformance.needs import needs

pytestmark = needs(Capability.KEY_RATES)


def rated(key: str = "api", **said: Any) -> Submission:
    return job(concurrency_key=key, **said)


async def after(store: SqlStore, clock: FrozenClock, **time: float) -> list[str]:
    """What can be claimed when that time has passed, oldest first."""
    clock.advance(**time)  # type: ignore[arg-type]
    await store.sweeps.promote()
    return [claim.job.id for claim in await take(store)]


async def test_a_burst_starts_at_once_and_then_one_a_token_in_order(store: SqlStore, clock: FrozenClock) -> None:
    await store.rates.set("api", parse_rate("2/s", burst=3))
    ids = [submitted.job_id for submitted in await store.submit_many([rated() for _ in range(9)])]
    assert [claim.job.id for claim in await take(store)] == ids[:3]
    assert await take(store) == []
    assert await after(store, clock, us=499_999) == []
    assert await store.sweeps.next_due_in_us() == 1
    assert await after(store, clock, us=1) == ids[3:4]
    assert await after(store, clock, us=500_000) == ids[4:5]
    assert await after(store, clock, seconds=60) == ids[5:8], "no more than the burst, however long it was quiet"
    waiting = await store.get(ids[8])
    assert (waiting.state, waiting.attempt_count, waiting.claim_version) == (State.SCHEDULED, 0, 0)


async def test_a_rate_is_exact_over_many_claimers_at_once(subject: Opened, clock: FrozenClock) -> None:
    await subject.store.rates.set("api", parse_rate("10/s", burst=4))
    await subject.store.submit_many([rated() for _ in range(60)])
    async with subject.another() as other:
        stores = (subject.store, other)

        async def everybody() -> int:
            await asyncio.gather(*(store.sweeps.promote() for store in stores))
            batches = await asyncio.gather(*(take(stores[i % 2], 3, worker_id=f"w{i}") for i in range(8)))
            return sum(map(len, batches))

        assert await everybody() == 4
        started = 0
        for _ in range(10):
            clock.advance(us=100_000)
            started += await everybody()
    assert started == 10


async def test_spent_keys_hold_up_no_other_job_and_are_not_walked_over(store: SqlStore) -> None:
    await store.rates.set("api", parse_rate("1/h"))
    await store.submit_many([rated() for _ in range(300)])
    free = await submit(store, "free")
    assert free in [claim.job.id for claim in await take(store, 2)] + [claim.job.id for claim in await take(store, 2)]
    assert await take(store, 2) == []


async def test_a_newcomer_does_not_pass_who_waits_but_an_urgent_one_does(store: SqlStore, clock: FrozenClock) -> None:
    await store.rates.set("api", parse_rate("1/s"))
    first, second = [submitted.job_id for submitted in await store.submit_many([rated(), rated()])]
    assert [claim.job.id for claim in await take(store)] == [first]
    newcomer = (await store.submit(rated())).job_id
    clock.advance(us=SECOND)  # No sweep has run: the claim itself must find who is next.
    assert [claim.job.id for claim in await take(store)] == [second]
    urgent = (await store.submit(rated(priority=0))).job_id
    assert await take(store) == []
    assert await after(store, clock, us=SECOND) == [urgent]
    assert await after(store, clock, us=SECOND) == [newcomer]


async def test_a_retry_after_holds_the_whole_key_up(store: SqlStore, clock: FrozenClock) -> None:
    await store.rates.set("api", parse_rate("10/s", burst=5))
    asked = (await store.submit(rated(max_attempts=5))).job_id
    told = await take_one(store)
    await store.submit_many([rated() for _ in range(3)])
    await fail(store, told, Category.TEMPORARY, retry_after_us=30 * SECOND)
    assert await after(store, clock, us=30 * SECOND - 1) == []
    assert await after(store, clock, us=1) == [asked]
    assert len(await after(store, clock, us=100_000)) == 1, "and then one after the other"
    assert len(await after(store, clock, us=100_000)) == 1


async def test_what_a_handler_charges_is_waited_for(store: SqlStore, clock: FrozenClock) -> None:
    await store.rates.set("tokens", parse_rate("10/s", burst=10))
    await store.submit_many([rated("tokens"), rated("tokens")])
    (first,) = await take(store, 1)
    await store.rates.charge("tokens", 49)
    await complete(store, first)
    assert await after(store, clock, us=4 * SECOND) == []
    assert len(await after(store, clock, us=SECOND)) == 1
    (found,) = await store.rates.list()
    assert (found.key, found.rate.interval_us, found.rate.burst) == ("tokens", 100_000, 10)


async def test_a_changed_rate_keeps_its_tokens_and_refills_anew(store: SqlStore, clock: FrozenClock) -> None:
    await store.rates.set("api", parse_rate("10/h", burst=10))
    await store.submit_many([rated() for _ in range(40)])
    assert len(await take(store)) == 10
    await store.rates.set("api", parse_rate("10/s", burst=10))
    assert await after(store, clock, us=99_999) == [], "what was spent stays spent"
    assert len(await after(store, clock, us=1)) == 1
    assert len(await after(store, clock, us=200_000)) == 2
    clock.advance(us=500_000)
    await store.rates.set("api", parse_rate("1/h", burst=3))
    assert len(await after(store, clock, us=0)) == 3, "of five tokens, as many as the new burst holds"
    await store.rates.set("api", parse_rate("1/m", burst=20))
    assert await after(store, clock, us=59 * SECOND) == [], "a larger burst gives no tokens"
    assert len(await after(store, clock, us=SECOND)) == 1


@pytest.mark.parametrize(("before", "then"), [("10/h", "10/s"), ("10/s", "10/h")])
async def test_a_changed_rate_does_not_change_a_retry_after(
    store: SqlStore, clock: FrozenClock, before: str, then: str
) -> None:
    await store.rates.set("api", parse_rate(before, burst=5))
    asked = (await store.submit(rated(max_attempts=5))).job_id
    told = await take_one(store)
    await store.submit_many([rated() for _ in range(3)])
    await fail(store, told, Category.TEMPORARY, retry_after_us=30 * SECOND)
    await store.rates.set("api", parse_rate(then, burst=7))
    assert await after(store, clock, us=30 * SECOND - 1) == []
    assert await after(store, clock, us=1) == [asked]
    assert await after(store, clock, us=parse_rate(then).interval_us - 1) == [], "and then one after the other"
    assert len(await after(store, clock, us=1)) == 1


async def test_a_changed_rate_is_exact_over_many_claimers_at_once(subject: Opened, clock: FrozenClock) -> None:
    await subject.store.rates.set("api", parse_rate("10/h", burst=4))
    await subject.store.submit_many([rated() for _ in range(60)])
    async with subject.another() as other:
        stores = (subject.store, other)

        async def everybody(text: str) -> int:
            await asyncio.gather(*(store.sweeps.promote() for store in stores))
            claims = (take(stores[i % 2], 3, worker_id=f"w{i}") for i in range(8))
            changes = (store.rates.set("api", parse_rate(text, burst=4)) for store in stores)
            batches, _ = await asyncio.gather(asyncio.gather(*claims), asyncio.gather(*changes))
            return sum(map(len, batches))

        assert await everybody("10/s") == 4
        started = 0
        for step in range(10):
            clock.advance(us=100_000)
            started += await everybody(("20/s", "10/s")[step % 2])
    assert started == 15


@needs(Capability.ANY_REQUESTER)
async def test_keys_of_requesters_are_apart_and_a_key_without_a_rate_is_free(store: SqlStore) -> None:
    await store.rates.set("api", parse_rate("1/h"), "alice")
    await store.submit_many([rated(requester_id="bob") for _ in range(3)])
    assert len(await take(store)) == 3
    await store.submit_many([rated(requester_id="alice") for _ in range(3)])
    assert len(await take(store)) == 1


async def test_without_its_rate_all_that_waited_goes_on(store: SqlStore) -> None:
    await store.rates.set("api", parse_rate("1/h"))
    await store.submit_many([rated() for _ in range(5)])
    assert len(await take(store)) == 1
    assert await store.rates.remove("api")
    assert not await store.rates.remove("api")
    await store.sweeps.recover()
    assert len(await take(store)) == 4


async def test_a_rate_and_a_concurrency_limit_hold_together(store: SqlStore, clock: FrozenClock) -> None:
    await store.rates.set("api", parse_rate("100/s", burst=100))
    await store.submit_many([rated(concurrency_limit=2) for _ in range(6)])
    (first, _) = await take(store)
    assert await after(store, clock, seconds=1) == []
    await complete(store, first)
    assert len(await take(store)) == 1


async def test_a_paused_type_does_not_hold_up_its_key(store: SqlStore, clock: FrozenClock) -> None:
    await store.rates.set("api", parse_rate("1/s"))
    await store.submit_many([rated(type="paused"), rated(type="paused")])
    assert len(await take(store)) == 1
    await store.pause("type", "paused")
    free = (await store.submit(rated(type="free"))).job_id
    assert await after(store, clock, seconds=5) == [free]


@pytest.mark.parametrize("text", ["", "10", "10/", "0/s", "-1/s", "10/x", "2000000/s", "ten/s", None])
async def test_a_rate_that_cannot_be_is_refused(text: Any) -> None:
    with pytest.raises(InvalidInput):
        parse_rate(text)
    with pytest.raises(InvalidInput):
        parse_rate("1/s", burst=0)
