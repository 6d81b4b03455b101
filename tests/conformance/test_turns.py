"""A turn, which settles and claims at once: as careful as a settle and a claim apart."""

from __future__ import annotations

import pytest

from euterpe.model.claims.exchange import ClaimRequest, ProgressUpdate, Report
from euterpe.model.claims.outcome import Success
from euterpe.model.state import State
from euterpe.model.submitting.changes import Changes
from euterpe.ports import Capability
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import MINUTE, fail, job, state_of, submit, take, taken
from tests.conformance.clock import FrozenClock
from tests.conformance.needs import TABLES, needs

ALL = ClaimRequest(worker_id="w2", limit=10)


async def test_a_stale_completion_in_a_turn_bounces_and_the_others_count(store: SqlStore, clock: FrozenClock) -> None:
    await _one_of_two_is_stale(store, clock, (b"1", b"2"))


async def test_a_stale_completion_bounces_that_looks_like_the_others(store: SqlStore, clock: FrozenClock) -> None:
    await _one_of_two_is_stale(store, clock, (b"1", b"1"))


async def _one_of_two_is_stale(store: SqlStore, clock: FrozenClock, results: tuple[bytes, bytes]) -> None:
    lost = await taken(store)
    clock.advance(us=2 * MINUTE)
    await store.sweeps.reclaim()
    clock.advance(us=2 * MINUTE)
    await store.sweeps.promote()
    (now_owned,) = await take(store, 1)
    assert now_owned.job.id == lost.job.id
    kept = await taken(store)
    assert lost.lease.claim_version == kept.lease.claim_version
    finished = [Report(claim, Success(result)) for claim, result in zip((lost, kept), results, strict=True)]
    verdicts, _ = await store.exchange(finished, ALL)
    assert [verdict.accepted for verdict in verdicts] == [False, True]
    assert await state_of(store, lost.job.id) is State.RUNNING
    assert (await store.get(kept.job.id)).result == results[1]


async def test_every_job_of_a_turn_keeps_its_own_result(store: SqlStore) -> None:
    for results in ([b"1", b"2", b"1", b"[3,4]"], [b"7"] * 3, [b"8"]):
        finished = [Report(await taken(store), Success(result)) for result in results]
        verdicts, _ = await store.exchange(finished, None)
        assert [verdict.accepted for verdict in verdicts] == [True] * len(results)
        assert [(await store.get(report.claim.job.id)).result for report in finished] == results


async def test_jobs_that_end_in_one_turn_leave_those_between_them_alone(store: SqlStore) -> None:
    claims = [await taken(store) for _ in range(5)]
    finished = [Report(claims[at], Success(b"1")) for at in (4, 0, 2)]
    verdicts, _ = await store.exchange(finished, None)
    assert [verdict.accepted for verdict in verdicts] == [True] * 3
    states = [await state_of(store, claim.job.id) for claim in claims]
    assert states == [State.COMPLETED, State.RUNNING] * 2 + [State.COMPLETED]


async def test_a_turn_may_be_repeated_when_its_answer_was_lost(store: SqlStore) -> None:
    claims = [await taken(store) for _ in range(3)]
    finished = [Report(claim, Success(b"1")) for claim in claims]
    for _ in range(2):
        verdicts, _ = await store.exchange(finished, ALL)
        assert [(verdict.accepted, verdict.state) for verdict in verdicts] == [(True, State.COMPLETED)] * 3
    assert [len(await store.attempts(claim.job.id)) for claim in claims] == [1, 1, 1]


@needs(Capability.CONCURRENCY_KEYS)
async def test_a_turn_holds_keys_to_their_limit_and_takes_what_stands_behind_them(store: SqlStore) -> None:
    done = await taken(store)
    keyed = [await submit(store, concurrency_key="k", concurrency_limit=1) for _ in range(3)]
    plain = await submit(store)
    _, claims = await store.exchange([Report(done, Success())], ALL)
    assert {claim.job.id for claim in claims} == {keyed[0], plain}


@needs(Capability.OUTBOX)
async def test_a_turn_that_takes_jobs_with_callbacks_tells_of_them(store: SqlStore) -> None:
    done = await taken(store)
    told = await submit(store, callback_url="https://receiver.example/hook")
    plain = await submit(store)
    _, claims = await store.exchange([Report(done, Success())], ALL)
    assert [claim.job.id for claim in claims] == [told, plain]
    assert [event.job_id for event in await store.outbox.claim("d1", 10)] == [told]


@needs(Capability.CONCURRENCY_KEYS)
async def test_turns_go_on_briefly_after_a_job_that_needed_more(store: SqlStore) -> None:
    await submit(store, concurrency_key="k", concurrency_limit=1)
    _, claims = await store.exchange([], ALL)
    for _ in range(3):
        await store.submit_many([job() for _ in range(2)])
        verdicts, claims = await store.exchange([Report(claim, Success()) for claim in claims], ALL)
        assert all(verdict.accepted for verdict in verdicts)
        assert len(claims) == 2


async def test_a_turn_of_a_paused_queue_settles_and_takes_nothing(store: SqlStore) -> None:
    done = await taken(store)
    await submit(store)
    await store.pause("queue", "default")
    verdicts, claims = await store.exchange([Report(done, Success())], ALL)
    assert ([verdict.accepted for verdict in verdicts], claims) == ([True], [])


async def test_a_turn_takes_the_most_urgent_first_and_the_oldest_of_those(store: SqlStore) -> None:
    ids = [await submit(store, priority=priority) for priority in (3, 1, 2, 1)]
    _, claims = await store.exchange([], ALL)
    assert [claim.job.id for claim in claims] == [ids[1], ids[3], ids[2], ids[0]]


@needs(Capability.WHOLE_JOBS)
@needs(Capability.DEPENDENCIES)
async def test_a_job_that_a_turn_gives_out_is_the_job_that_is_stored(store: SqlStore, clock: FrozenClock) -> None:
    job_id = await submit(
        store, tags={"a": "b"}, correlation_id="c", priority=1, payload=b'{"x": 1}', visibility_us=MINUTE // 2
    )
    (first,) = (await store.exchange([], ALL))[1]
    assert first.job == await store.get(job_id)
    await store.update_progress([ProgressUpdate(first, progress=0.5, message="half", checkpoint=b"\x00")])
    await fail(store, first)
    clock.advance(us=2 * MINUTE)
    await store.sweeps.promote()
    dependent = await submit(store, depends_on=(job_id,))
    (second,) = (await store.exchange([], ALL))[1]
    assert second.job == await store.get(job_id)
    assert second.job.has_dependents
    await store.settle([Report(second, Success())])
    (third,) = (await store.exchange([], ALL))[1]
    assert (third.job.id, third.job) == (dependent, await store.get(dependent))


@needs(Capability.DEPENDENCIES)
@pytest.mark.parametrize("request_", [ALL, None], ids=["and claims", "alone"])
async def test_a_turn_of_chains_releases_the_next_of_each(store: SqlStore, request_: ClaimRequest | None) -> None:
    heads = [await submit(store) for _ in range(4)]
    nexts = [await submit(store, depends_on=(head,)) for head in heads[:3]]
    finished = [Report(claim, Success(b"1")) for claim in await take(store, 10)]
    assert len(finished) == 4
    for _ in range(2):  # The second time, the answer was lost.
        verdicts, _ = await store.exchange(finished, request_)
        assert [(verdict.accepted, verdict.state) for verdict in verdicts] == [(True, State.COMPLETED)] * 4
    state = State.SCHEDULED if request_ is None else State.RUNNING
    assert [await state_of(store, job_id) for job_id in nexts] == [state] * 3


@needs(TABLES, Capability.DEPENDENCIES, Capability.WHOLE_JOBS)
async def test_a_turn_takes_what_it_releases_in_the_order_of_the_line(store: SqlStore, clock: FrozenClock) -> None:
    heads = [await submit(store, priority=4) for _ in range(5)]
    waiting = {
        "late": await submit(store, depends_on=(heads[0],), priority=4),
        "first": await submit(store, depends_on=(heads[1],), priority=1),
        "elsewhere": await submit(store, depends_on=(heads[2],), queue="other"),
        "delayed": await submit(store, depends_on=(heads[3],), delay_us=MINUTE),
        "second": await submit(store, depends_on=(heads[4],), priority=2),
    }
    claims = await take(store, 5)
    ready = [await submit(store, priority=2), await submit(store, priority=4)]
    clock.advance(us=MINUTE // 100)
    request = ClaimRequest(worker_id="w2", limit=3)
    _, claims = await store.exchange([Report(claim, Success()) for claim in claims], request)
    assert [claim.job.id for claim in claims] == [waiting["first"], waiting["second"], ready[0]]
    assert [claim.job for claim in claims] == [await store.get(claim.job.id) for claim in claims]
    assert claims[0].job.scheduled_at == claims[0].job.started_at
    assert claims[0].job.transitions == claims[2].job.transitions + 1, "it was pending before it was scheduled"
    states = {name: await state_of(store, waiting[name]) for name in ("late", "elsewhere", "delayed")}
    assert states == {"late": State.SCHEDULED, "elsewhere": State.SCHEDULED, "delayed": State.DELAYED}
    assert [claim.job.id for claim in await take(store, 5)] == [waiting["late"], ready[1]]


@needs(Capability.DEPENDENCIES, Capability.CONCURRENCY_KEYS)
async def test_what_a_turn_releases_keeps_to_the_limit_of_its_key(store: SqlStore) -> None:
    heads = [await submit(store) for _ in range(3)]
    waiting = [await submit(store, depends_on=(head,), concurrency_key="k", concurrency_limit=2) for head in heads]
    claims = await take(store, 3)
    _, claims = await store.exchange([Report(claim, Success()) for claim in claims], ALL)
    assert [claim.job.id for claim in claims] == waiting[:2]
    assert await take(store) == []
    _, claims = await store.exchange([Report(claims[0], Success())], ALL)
    assert [claim.job.id for claim in claims] == waiting[2:]


@needs(Capability.DEPENDENCIES)
async def test_a_stale_completion_in_a_turn_of_chains_releases_nothing(store: SqlStore, clock: FrozenClock) -> None:
    heads = [await submit(store) for _ in range(3)]
    nexts = [await submit(store, depends_on=(head,)) for head in heads]
    claims = await take(store, 10)
    clock.advance(us=MINUTE // 2)
    await store.heartbeat([claim.lease for claim in claims[1:]])
    clock.advance(us=MINUTE)
    await store.sweeps.reclaim()
    verdicts, _ = await store.exchange([Report(claim, Success()) for claim in claims], None)
    assert [verdict.accepted for verdict in verdicts] == [False, True, True]
    assert [await state_of(store, job_id) for job_id in nexts] == [State.PENDING, State.SCHEDULED, State.SCHEDULED]


@needs(Capability.CONCURRENCY_KEYS)
async def test_a_stale_completion_in_a_turn_of_keys_frees_no_place(store: SqlStore, clock: FrozenClock) -> None:
    for key in ("a", "a", "a", "b", "b"):
        await submit(store, type=key, concurrency_key=key, concurrency_limit=2 if key == "a" else 1)
    claims = await take(store, 10)
    clock.advance(us=MINUTE // 2)
    await store.heartbeat([claim.lease for claim in claims[1:]])
    clock.advance(us=MINUTE)
    await store.sweeps.reclaim()
    verdicts, more = await store.exchange([Report(claim, Success()) for claim in claims], ALL)
    assert [verdict.accepted for verdict in verdicts] == [False, True, True]
    assert sorted(claim.job.type for claim in more) == ["a", "b"]


@needs(Capability.DEPENDENCIES)
async def test_dependents_that_came_while_a_job_of_a_chain_ran_are_released(store: SqlStore) -> None:
    heads = [await submit(store) for _ in range(2)]
    nexts = [await submit(store, depends_on=(heads[0],))]
    claims = await take(store, 10)
    nexts.append(await submit(store, depends_on=(heads[1],)))
    await store.exchange([Report(claim, Success()) for claim in claims], None)
    assert [await state_of(store, job_id) for job_id in nexts] == [State.SCHEDULED] * 2


@needs(Capability.DEPENDENCIES)
@needs(Capability.OUTBOX)
async def test_a_callback_that_came_while_a_job_of_a_chain_ran_is_told(store: SqlStore) -> None:
    head = await submit(store)
    after = await submit(store, depends_on=(head,))
    claims = await take(store, 10)
    await store.update(head, Changes(callback_url="https://receiver.example/hook"))
    await store.exchange([Report(claim, Success()) for claim in claims], None)
    assert await state_of(store, after) is State.SCHEDULED
    assert [(e.job_id, e.type) for e in await store.outbox.claim("d1", 10)] == [(head, "job.completed")]
