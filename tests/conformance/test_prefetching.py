"""A claim that asks for more than can begin at once gets the front of the line, as far as that can wait."""

from __future__ import annotations

from typing import Any

import pytest

from euterpe.model.claims.exchange import ClaimRequest
from euterpe.model.rate import parse_rate
from euterpe.model.state import State
from euterpe.ports import Capability
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import CALLBACK, SECOND, complete, fail, job, release, submit, take, take_one
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


@needs(Capability.CONTROL_PLANE)
@pytest.mark.parametrize("said", [PLAIN, EVENT_STATES], ids=["plain", "told"])
async def test_workers_over_http_get_the_same_front_of_the_line(store: SqlStore, said: dict[str, Any]) -> None:
    async def claimed(limit: int, *workers: str) -> list[tuple[str, str | None]]:
        request = ClaimRequest(worker_id="w", limit=limit, prefetch=len(workers) - limit, prefetch_types=("work",))
        claims = await store.control_plane.claim_for(request, workers)
        return [(claim.job.id, claim.job.worker_id) for claim in claims]

    first = await store.submit_many([job(**said) for _ in range(20)])
    once = await submit(store, max_attempts=1, **said)
    behind = await submit(store, **said)
    urgent = await submit(store, priority=0, **said)
    line = [urgent, *(submitted.job_id for submitted in first)]
    workers = [f"w:{n}" for n in range(30)]
    assert await claimed(2, *workers[:3]) == list(zip(line[:3], workers, strict=False))
    assert await claimed(2, *workers) == list(zip(line[3:], workers, strict=False))
    assert await claimed(0, *workers) == [], "what is behind it does not overtake it"
    assert await claimed(1, "w:a", "w:b", "w:c") == [(once, "w:a"), (behind, "w:b")]


@needs(Capability.PREFETCH)
async def test_no_more_come_than_asked_for(store: SqlStore) -> None:
    ids = [await submit(store) for _ in range(6)]
    assert await ahead(store, 1, 2) == ids[:3]
    assert await ahead(store, 0, 2) == ids[3:5]


@needs(Capability.PREFETCH)
@pytest.mark.parametrize(
    "kind", ["long", pytest.param("rated", marks=needs(Capability.KEY_RATES)), "released", "retried"]
)
async def test_what_cannot_wait_is_claimed_for_a_free_slot_only(store: SqlStore, clock: FrozenClock, kind: str) -> None:
    """Once claimed, never again ahead: a job loses at most one attempt that it did not begin."""
    keyed: dict[str, Any] = {"concurrency_key": "k", "concurrency_limit": 5} if kind == "rated" else {}
    if kind == "rated":
        await store.rates.set("k", parse_rate("5/s"))
    job_id = await submit(store, "long" if kind == "long" else "work", **keyed)
    if kind == "released":
        await release(store, await take_one(store))
    if kind == "retried":
        await fail(store, await take_one(store))
        clock.advance(seconds=2)
        await store.sweeps.promote()
    assert await ahead(store, 0, 5) == []
    assert await ahead(store, 1, 5) == [job_id]


@needs(Capability.PREFETCH, Capability.CONCURRENCY_KEYS)
async def test_jobs_with_keys_come_ahead_within_their_limits_and_hold_up_nobody_behind_them(store: SqlStore) -> None:
    """While they wait, they count as running jobs of their keys."""
    of_one = [await submit(store, concurrency_key="one", concurrency_limit=3) for _ in range(2)]
    of_two = [await submit(store, concurrency_key="two", concurrency_limit=2) for _ in range(3)]
    behind = await submit(store, concurrency_key="three", concurrency_limit=1)
    claims = await take(store, 1, prefetch=10, prefetch_types=("work",))
    assert [claim.job.id for claim in claims] == [*of_one, *of_two[:2], behind], "the third waits in its key's own line"
    assert await ahead(store, 0, 10) == [], "what runs counts"
    await complete(store, claims[2])
    assert await ahead(store, 0, 10) == of_two[2:], "one of its key has ended"


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
