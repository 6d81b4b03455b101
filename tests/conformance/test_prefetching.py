"""A claim that asks for more than can begin at once gets the front of the line, as far as that can wait."""

from __future__ import annotations

from typing import Any

import pytest

from euterpe.model.state import State
from euterpe.ports import Capability
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import CALLBACK, SECOND, fail, release, submit, take, take_one
from tests.conformance.clock import FrozenClock
from tests.conformance.needs import needs

pytestmark = needs(Capability.PREFETCH)

PLAIN: dict[str, Any] = {}
EVENT_STATES: dict[str, Any] = {"callback_url": CALLBACK}
"""On Postgres these go the general way."""


async def ahead(store: SqlStore, limit: int, prefetch: int, *types: str) -> list[str]:
    claims = await take(store, limit, prefetch=prefetch, prefetch_types=types or ("work",))
    return [claim.job.id for claim in claims]


@needs(Capability.PREFETCH)
@pytest.mark.parametrize(
    "said", [PLAIN, pytest.param(EVENT_STATES, marks=needs(Capability.OUTBOX))], ids=["plain", "told"]
)
async def test_the_front_of_the_line_comes_in_order_up_to_the_first_that_cannot_wait(
    store: SqlStore, said: dict[str, Any]
) -> None:
    first = [await submit(store, **said) for _ in range(4)]
    once = await submit(store, max_attempts=1, **said)
    behind = await submit(store, **said)
    urgent = await submit(store, priority=0, **said)
    assert await ahead(store, 2, 10) == [urgent, *first]
    assert await ahead(store, 0, 10) == [], "what is behind it does not overtake it"
    assert await ahead(store, 1, 10) == [once, behind]


@needs(Capability.PREFETCH)
async def test_no_more_come_than_asked_for(store: SqlStore) -> None:
    ids = [await submit(store) for _ in range(6)]
    assert await ahead(store, 1, 2) == ids[:3]
    assert await ahead(store, 0, 2) == ids[3:5]


@needs(Capability.PREFETCH)
@pytest.mark.parametrize(
    "kind", ["long", pytest.param("keyed", marks=needs(Capability.CONCURRENCY_KEYS)), "released", "retried"]
)
async def test_what_cannot_wait_is_claimed_for_a_free_slot_only(store: SqlStore, clock: FrozenClock, kind: str) -> None:
    """Once claimed, never again ahead: a job loses at most one attempt that it did not begin."""
    keyed: dict[str, Any] = {"concurrency_key": "k", "concurrency_limit": 5} if kind == "keyed" else {}
    job_id = await submit(store, "long" if kind == "long" else "work", **keyed)
    if kind == "released":
        await release(store, await take_one(store))
    if kind == "retried":
        await fail(store, await take_one(store))
        clock.advance(seconds=2)
        await store.sweeps.promote()
    assert await ahead(store, 0, 5) == []
    assert await ahead(store, 1, 5) == [job_id]


@needs(Capability.PREFETCH)
async def test_several_queues_are_claimed_for_free_slots_only(store: SqlStore) -> None:
    ids = [await submit(store, queue=queue) for queue in ("a", "b", "b")]
    claims = await take(store, 1, prefetch=5, prefetch_types=("work",), queues=("a", "b"))
    assert [claim.job.id for claim in claims] == ids[:1]


@needs(Capability.PREFETCH)
async def test_what_a_lost_worker_had_not_begun_is_given_back_with_its_attempt(
    store: SqlStore, clock: FrozenClock
) -> None:
    for _ in range(3):
        await submit(store)
    begun, unbegun, of_another = [await take_one(store, worker_id=name) for name in ("gone", "gone", "alive")]
    lease = begun.lease
    assert await store.sweeps.release_unbegun("gone", {(lease.job_id, lease.claim_version)}) == 1
    assert await store.sweeps.release_unbegun("gone", {(lease.job_id, lease.claim_version)}) == 0
    rows = [await store.get(claim.job.id) for claim in (begun, unbegun, of_another)]
    assert [row.state for row in rows] == [State.RUNNING, State.SCHEDULED, State.RUNNING]
    assert [row.attempt_count for row in rows] == [1, 0, 1]
    clock.advance(seconds=of_another.lease.expires_at // SECOND)
    assert await store.sweeps.release_unbegun("alive", set()) == 0, "a lease that is over is a sweep's to end"
