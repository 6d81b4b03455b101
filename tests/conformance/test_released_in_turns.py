"""A turn that completes jobs with dependents: what it releases stands in the line from which it claims."""

from __future__ import annotations

import pytest

from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.outcome import Success
from euterpe.model.dependency import Dependency
from euterpe.model.job import Claim
from euterpe.model.state import State
from euterpe.ports import Capability
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import CALLBACK, HOUR, MINUTE, complete, state_of, states_of, submit, take_one
from tests.conformance.clock import FrozenClock
from tests.conformance.needs import needs

pytestmark = needs(Capability.DEPENDENCIES)


def asking(limit: int = 10, **more: object) -> ClaimRequest:
    return ClaimRequest(worker_id="w2", limit=limit, **more)  # type: ignore[arg-type]


async def begun_with(store: SqlStore, **dependent: object) -> tuple[Claim, str]:
    """A job that runs, whose claim knows that another waits for it; and that other."""
    first = await submit(store, "first")
    second = await submit(store, "second", **({"depends_on": (first,)} | dependent))
    return await take_one(store, types=("first",)), second


async def turn(store: SqlStore, *done: Claim, request: ClaimRequest | None) -> list[str]:
    verdicts, claims = await store.exchange([Report(claim, Success(b"1")) for claim in done], request)
    assert [verdict.state for verdict in verdicts] == [State.COMPLETED] * len(done)
    return [claim.job.id for claim in claims]


@needs(Capability.WHOLE_JOBS)
async def test_what_a_turn_releases_it_may_claim(store: SqlStore, clock: FrozenClock) -> None:
    for kind in (Dependency.AFTER, Dependency.AFTER_ANY, Dependency.CHAIN, Dependency.FAN_IN):
        first, second = await begun_with(store, dependency=kind)
        at = clock.advance(seconds=1)
        _, (claim,) = await store.exchange([Report(first, Success())], asking())
        stored = await store.get(second)
        assert (claim.job.id, claim.job) == (second, stored)
        assert (stored.state, stored.attempt_count, stored.claim_version, stored.transitions) == (
            State.RUNNING,
            1,
            1,
            3,
        )
        assert (stored.scheduled_at, stored.started_at, stored.pending_dependencies) == (at, at, 0)
        assert claim.job.depends_on == (first.job.id,)
        await complete(store, claim)


async def test_a_chain_goes_link_by_link(store: SqlStore) -> None:
    ids = [await submit(store, "0")]
    for at in range(1, 5):
        ids.append(await submit(store, str(at), depends_on=(ids[-1],), dependency=Dependency.CHAIN))
    claim = await take_one(store)
    for at in range(1, 5):
        _, (claim,) = await store.exchange([Report(claim, Success())], asking())
        assert claim.job.id == ids[at]
        assert await states_of(store, *ids[: at + 1]) == [State.COMPLETED] * at + [State.RUNNING]


async def test_what_is_released_takes_its_place_among_all_that_wait(store: SqlStore) -> None:
    older = await submit(store)
    first, second = await begun_with(store)
    younger, urgent = await submit(store), await submit(store, priority=0)
    assert await turn(store, first, request=asking(3)) == [urgent, older, second]
    assert await state_of(store, younger) is State.SCHEDULED


async def test_what_is_released_behind_the_limit_waits(store: SqlStore) -> None:
    older = await submit(store)
    first, second = await begun_with(store)
    assert await turn(store, first, request=asking(1)) == [older]
    released = await store.get(second)
    assert (released.state, released.claim_version, released.attempt_count) == (State.SCHEDULED, 0, 0)
    assert (await take_one(store)).job.id == second


async def test_more_are_released_than_are_asked_for(store: SqlStore) -> None:
    first = await submit(store, "first")
    seconds = [await submit(store, depends_on=(first,)) for _ in range(5)]
    begun = await take_one(store)
    assert await turn(store, begun, request=asking(2)) == seconds[:2]
    assert await states_of(store, *seconds) == [State.RUNNING] * 2 + [State.SCHEDULED] * 3


async def test_a_turn_that_claims_nothing_releases(store: SqlStore) -> None:
    first, second = await begun_with(store)
    assert await turn(store, first, request=None) == []
    assert await state_of(store, second) is State.SCHEDULED


async def test_a_job_that_waits_for_another_too_stays(store: SqlStore) -> None:
    other = await submit(store, "other")
    first = await submit(store, "first")
    second = await submit(store, "second", depends_on=(first, other))
    begun = [await take_one(store, types=(name,)) for name in ("first", "other")]
    assert await turn(store, begun[0], request=asking()) == []
    assert (await store.get(second)).pending_dependencies == 1
    assert await turn(store, begun[1], request=asking()) == [second]


async def test_both_that_a_job_waits_for_end_in_one_turn(store: SqlStore) -> None:
    ids = [await submit(store, name) for name in ("first", "other")]
    second = await submit(store, "second", depends_on=tuple(ids))
    begun = [await take_one(store, types=(name,)) for name in ("first", "other")]
    assert await turn(store, *begun, request=asking()) == [second]


async def test_a_delay_that_is_not_over_holds_a_released_job(store: SqlStore, clock: FrozenClock) -> None:
    first, second = await begun_with(store, delay_us=HOUR)
    assert await turn(store, first, request=asking()) == []
    assert await state_of(store, second) is State.DELAYED
    clock.advance(us=HOUR)
    await store.sweeps.promote()
    assert (await take_one(store)).job.id == second


@pytest.mark.parametrize("kind", ["queue", "type"])
async def test_what_is_paused_is_released_and_not_claimed(store: SqlStore, kind: str) -> None:
    first, second = await begun_with(store)
    await store.pause(kind, "default" if kind == "queue" else "second")
    assert await turn(store, first, request=asking()) == []
    assert await state_of(store, second) is State.SCHEDULED


async def test_a_released_job_of_another_queue_or_type_is_left_to_others(store: SqlStore) -> None:
    for dependent, request in (({"queue": "other"}, asking()), ({}, asking(types=("first",)))):
        first, second = await begun_with(store, **dependent)
        assert await turn(store, first, request=request) == []
        assert await state_of(store, second) is State.SCHEDULED
        await take_one(store, queues=("default", "other"))


async def test_a_released_job_whose_lifetime_is_over_is_not_claimed(store: SqlStore, clock: FrozenClock) -> None:
    first, _ = await begun_with(store, lifetime_us=MINUTE // 2)
    clock.advance(us=MINUTE // 2)
    assert await turn(store, first, request=asking()) == []


@needs(Capability.CONCURRENCY_KEYS)
async def test_released_jobs_are_held_to_the_limits_of_their_keys(store: SqlStore) -> None:
    first = await submit(store, "first")
    keyed = [await submit(store, depends_on=(first,), concurrency_key="k", concurrency_limit=1) for _ in range(2)]
    plain = await submit(store)
    begun = await take_one(store, types=("first",))
    assert sorted(await turn(store, begun, request=asking())) == sorted([keyed[0], plain])


@needs(Capability.OUTBOX)
@needs(Capability.WHOLE_JOBS)
async def test_a_release_that_is_told_is_told_and_claimed(store: SqlStore) -> None:
    first, second = await begun_with(store, callback_url=CALLBACK, callback_events="work.*")
    assert await turn(store, first, request=asking()) == [second]
    # Of one job, only the first event that is not delivered yet is handed out.
    assert [(event.job_id, event.type) for event in await store.outbox.claim("d1", 10)] == [(second, "work.queued")]


async def test_a_released_job_that_cannot_wait_ends_what_is_claimed_ahead(store: SqlStore) -> None:
    older = await submit(store)
    first = await submit(store, "first")
    seconds = [await submit(store, depends_on=(first,), max_attempts=attempts) for attempts in (3, 1, 3)]
    begun = await take_one(store, types=("first",))
    request = asking(1, prefetch=10, prefetch_types=("work",))
    assert await turn(store, begun, request=request) == [older, seconds[0]]
    assert await states_of(store, *seconds[1:]) == [State.SCHEDULED] * 2


async def test_a_stale_completion_releases_nothing_and_the_others_do(store: SqlStore, clock: FrozenClock) -> None:
    lost, waits = await begun_with(store)
    clock.advance(us=2 * MINUTE)
    await store.sweeps.reclaim()
    clock.advance(us=2 * MINUTE)
    await store.sweeps.promote()
    again = await take_one(store, types=("first",))
    assert again.job.id == lost.job.id
    kept, second = await begun_with(store)
    verdicts, claims = await store.exchange([Report(lost, Success()), Report(kept, Success())], asking())
    assert [verdict.accepted for verdict in verdicts] == [False, True]
    assert [claim.job.id for claim in claims] == [second]
    assert await state_of(store, waits) is State.PENDING


async def test_a_turn_that_releases_may_be_repeated_when_its_answer_was_lost(store: SqlStore) -> None:
    first, second = await begun_with(store)
    assert await turn(store, first, request=asking()) == [second]
    assert await turn(store, first, request=asking()) == []
    assert (await store.get(second)).attempt_count == 1
