"""A turn that completes jobs with concurrency keys, and claims the next of them."""

from __future__ import annotations

from typing import Any

from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.outcome import Success
from euterpe.model.job import Claim
from euterpe.model.rate import parse_rate
from euterpe.model.state import State
from euterpe.ports import Capability
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import CALLBACK, MINUTE, job, state_of, states_of, submit, take, take_one
from tests.conformance.clock import FrozenClock
from tests.conformance.engines import Opened
from tests.conformance.needs import needs

pytestmark = needs(Capability.CONCURRENCY_KEYS)


async def keyed(store: SqlStore, key: str, limit: int = 1, **said: Any) -> str:
    return await submit(store, concurrency_key=key, concurrency_limit=limit, **said)


async def turn(store: SqlStore, *done: Claim, limit: int = 10, prefetch: int = 0) -> list[Claim]:
    request = ClaimRequest(worker_id="w2", limit=limit, prefetch=prefetch, prefetch_types=("work",))
    verdicts, claims = await store.exchange([Report(claim, Success(b"1")) for claim in done], request)
    assert [verdict.state for verdict in verdicts] == [State.COMPLETED] * len(done)
    return claims


def ids_of(claims: list[Claim]) -> list[str]:
    return [claim.job.id for claim in claims]


async def test_a_turn_claims_what_it_lets_go(store: SqlStore) -> None:
    ids = [await keyed(store, "k", 2) for _ in range(5)]
    running = await take(store)
    assert ids_of(running) == ids[:2]
    assert ids_of(await turn(store, running[0])) == ids[2:3]
    assert ids_of(await turn(store)) == []


@needs(Capability.WHOLE_JOBS)
async def test_what_a_turn_claims_is_what_is_stored(store: SqlStore, clock: FrozenClock) -> None:
    first, second = await keyed(store, "k", 3), await keyed(store, "k", 3, callback_url=CALLBACK)
    running = await take_one(store)
    at = clock.advance(seconds=1)
    (claim,) = await turn(store, running)
    done, stored = await store.get(first), await store.get(second)
    assert (claim.job.id, claim.job) == (second, stored)
    assert (stored.concurrency_key, stored.concurrency_limit, stored.started_at) == ("k", 3, at)
    assert (done.state, done.result, done.completed_at, done.lease_expires_at) == (State.COMPLETED, b"1", at, None)


async def test_what_runs_counts_whoever_runs_it(subject: Opened) -> None:
    store = subject.store
    ids = [await keyed(store, key, 2) for key in ("a", "a", "b", "a", "b", "a")]
    async with subject.another() as other:
        others = await take(other, 1)
    assert ids_of(others) == ids[:1]
    mine = await take(store, 1)
    assert ids_of(mine) == ids[1:2]
    assert ids_of(await turn(store, *mine)) == [ids[2], ids[3], ids[4]], "one more of each runs, and no third"


async def test_what_stands_behind_a_full_key_is_claimed_in_the_same_turn(store: SqlStore) -> None:
    running = [await keyed(store, "other", 5)]
    (done,) = await take(store)
    ids = [await keyed(store, "full") for _ in range(4)] + [await keyed(store, "other", 5) for _ in range(2)]
    plain = await submit(store)
    assert ids_of(await turn(store, done, limit=4)) == [ids[0], ids[4], ids[5], plain]
    assert await states_of(store, *running, *ids[1:4]) == [State.COMPLETED] + [State.SCHEDULED] * 3


async def test_the_most_urgent_of_a_full_key_is_parked_however_many_are_older(store: SqlStore) -> None:
    await store.submit_many([job(concurrency_key="k", concurrency_limit=1, priority=3) for _ in range(1001)])
    running = await take_one(store)
    urgent, behind = await keyed(store, "k", priority=0), await submit(store, priority=4)
    assert ids_of(await turn(store, limit=1)) == [behind]
    assert ids_of(await turn(store, running, limit=1)) == [urgent], "the place goes to the most urgent of the parked"


@needs(Capability.PREFETCH)
async def test_ahead_of_its_slots_a_turn_takes_no_more_of_a_key_than_its_limit(store: SqlStore) -> None:
    first = await keyed(store, "a", 2)
    (done,) = await take(store)
    ids = [await keyed(store, key, 2) for key in ("a", "b", "a", "a", "b")]
    assert done.job.id == first
    ahead = await turn(store, done, limit=1, prefetch=10)
    assert ids_of(ahead) == ids[:3] + ids[4:], "the third of its key is not in the line, and ends it for nobody"
    assert ids_of(await turn(store, limit=2, prefetch=10)) == []
    assert await state_of(store, ids[3]) is State.SCHEDULED


async def test_a_stale_completion_ends_nothing_and_the_others_free_their_places(
    store: SqlStore, clock: FrozenClock
) -> None:
    first, *of_b = [await keyed(store, key) for key in ("a", "b", "b")]
    late, done = await take(store)
    clock.advance(us=MINUTE // 2)
    await store.heartbeat([done.lease])
    clock.advance(us=MINUTE // 2 + 1)
    assert await store.sweeps.reclaim() == 1
    clock.advance(seconds=2)
    assert len(await store.sweeps.promote()) == 1
    assert [(claim.job.id, claim.job.claim_version) for claim in await take(store)] == [(first, 2)]
    reports = [Report(claim, Success(b"1")) for claim in (late, done)]
    verdicts, claims = await store.exchange(reports, ClaimRequest(worker_id="w2", limit=10))
    assert [verdict.accepted for verdict in verdicts] == [False, True]
    assert ids_of(claims) == of_b[1:]
    assert await state_of(store, first) is State.RUNNING


async def test_a_job_that_got_a_dependent_meanwhile_releases_it(store: SqlStore) -> None:
    await keyed(store, "k")
    (running,) = await take(store)
    second = await submit(store, depends_on=(running.job.id,))
    await turn(store, running, limit=1)
    assert await state_of(store, second) in (State.SCHEDULED, State.RUNNING)


@needs(Capability.KEY_RATES)
async def test_a_turn_keeps_to_the_rate_of_a_key(store: SqlStore) -> None:
    await store.rates.set("k", parse_rate("1/h"))
    ids = [await keyed(store, "k", 5) for _ in range(3)] + [await keyed(store, "other", 5)]
    running = await take(store)
    assert ids_of(running) == [ids[0], ids[3]]
    assert ids_of(await turn(store, *running)) == []
