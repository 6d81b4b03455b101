"""Failures by cause: two thousand failures with three causes are three groups."""

from __future__ import annotations

import pytest

from euterpe.model.bulk import Action, BulkOperation, BulkOrder
from euterpe.model.claims.exchange import Report
from euterpe.model.errors import InvalidInput
from euterpe.model.failures.failure import Category
from euterpe.model.reading.job_query import parse_query, query_text
from euterpe.model.reading.views import Search
from euterpe.model.state import State
from euterpe.model.submitting.replay import replay_of
from euterpe.ports import Capability
from euterpe.stores.sql.bulk.batches import act, next_of
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import SECOND, complete, fail, failure, job, submit, submit_in, take, take_one, taken
from tests.conformance.clock import FrozenClock
from tests.conformance.needs import needs

pytestmark = needs(Capability.BULK)


async def fail_many(store: SqlStore, messages: list[str], type: str = "report", **said: object) -> list[str]:
    await store.submit_many([job(type, **said) for _ in messages])
    claims = await take(store, len(messages), types=(type,))
    await store.settle(
        [Report(c, failure(Category.PERMANENT, m, code="ValueError")) for c, m in zip(claims, messages, strict=True)]
    )
    return [claim.job.id for claim in claims]


async def test_failures_with_one_cause_are_one_group(store: SqlStore, clock: FrozenClock) -> None:
    began = clock.now_us
    await fail_many(store, [f"order {n} of 'customer {n}' is gone" for n in range(40)])
    clock.advance(seconds=5)
    last = await fail_many(store, [f"cannot open /data/{n}/in.wav" for n in range(10)])
    await fail_many(store, ["order 7 of 'x' is gone"], "other")
    found = await store.failure_groups()
    assert not found.more
    groups = {(g.type, g.message.split()[0]): g for g in found.groups}
    assert {key: (g.count, g.exact) for key, g in groups.items()} == {
        ("report", "order"): (40, True),
        ("report", "cannot"): (10, True),
        ("other", "order"): (1, True),
    }
    assert (groups["report", "order"].first_at, groups["report", "order"].last_at) == (began, began)
    newest = groups["report", "cannot"]
    assert (newest.sample_job_id in last, newest.code, newest.category) == (True, "ValueError", "permanent")
    assert newest.last_at == began + 5 * SECOND
    query = f"fingerprint:{newest.fingerprint}"
    page = await store.search(parse_query(query, clock.now_us))
    assert [j.id for j in page.jobs] == sorted(last, key=last.index, reverse=True)
    assert (
        await store.search(parse_query(f"fingerprint:{newest.fingerprint} state:cancelled", clock.now_us))
    ).jobs == []


async def test_one_group_is_replayed_and_the_others_are_not(store: SqlStore, clock: FrozenClock) -> None:
    await fail_many(store, [f"no {n}" for n in range(5)])
    await fail_many(store, ["other"])
    (group,) = [g for g in (await store.failure_groups()).groups if g.count == 5]
    query = f"fingerprint:{group.fingerprint}"
    search = parse_query(query, clock.now_us)
    assert (await store.operations.count(search)).count == 5
    said = BulkOrder(action=Action.RETRY, query=query, search=search, ordered_by="local")
    ordered, _ = await store.operations.order(said)
    while (await store.sweeps.work_operations()).more:
        pass
    assert (await store.operations.get(ordered.id)).done == 5
    assert len((await store.search(Search(state=State.SCHEDULED))).jobs) == 5
    assert [g.message for g in (await store.failure_groups()).groups] == ["other"], "what is tried again has not failed"


async def test_a_job_that_is_retried_and_completes_is_in_no_group(store: SqlStore) -> None:
    claim = await taken(store)
    await fail(store, claim, Category.PERMANENT)
    assert len((await store.failure_groups()).groups) == 1
    await store.retry(claim.job.id)
    await complete(store, await take_one(store))
    assert (await store.failure_groups()).groups == []


async def test_dead_letters_and_ends_by_sweeps_have_a_cause_too_and_others_have_none(
    store: SqlStore, clock: FrozenClock
) -> None:
    for state in (State.DEAD_LETTER, State.RETRYING, State.CANCELLED, State.COMPLETED):
        await submit_in(store, state, str(state))
    await submit(store, "old", lifetime_us=60 * SECOND)
    clock.advance(seconds=61)
    await store.sweeps.urgent()
    groups = (await store.failure_groups()).groups
    assert {(g.type, g.code) for g in groups} == {("dead_letter", "error"), ("old", "lifetime_exceeded")}


async def test_groups_are_bounded_and_say_so(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abc":
        await fail_many(store, ["broken"] * 3, name)
    some = await store.failure_groups(limit=2)
    assert (len(some.groups), some.more) == (2, True)
    monkeypatch.setattr("euterpe.stores.sql.reads.failures.counted_of_each", lambda _groups: 2)
    assert {(g.count, g.exact) for g in (await store.failure_groups()).groups} == {(2, False)}
    with pytest.raises(InvalidInput):
        await store.failure_groups(limit=0)


@needs(Capability.ANY_REQUESTER)
async def test_a_requester_sees_its_own_failures(store: SqlStore) -> None:
    await fail_many(store, ["broken"] * 2, requester_id="a")
    await fail_many(store, ["broken"] * 3, requester_id="b")
    assert [g.count for g in (await store.failure_groups("a")).groups] == [2]
    assert [g.count for g in (await store.failure_groups()).groups] == [5]
    assert (await store.failure_groups("c")).groups == []


async def replay_group(store: SqlStore, fingerprint: str, clock: FrozenClock) -> BulkOperation:
    query = f"fingerprint:{fingerprint}"
    said = BulkOrder(action=Action.REPLAY, query=query, search=parse_query(query, clock.now_us), ordered_by="local")
    ordered, _ = await store.operations.order(said)
    while (await store.sweeps.work_operations()).more:
        pass
    return await store.operations.get(ordered.id)


async def test_a_replayed_group_leaves_the_list_and_what_fails_again_comes_back(
    store: SqlStore, clock: FrozenClock
) -> None:
    ids = await fail_many(store, [f"no {n}" for n in range(5)], max_attempts=1)
    (group,) = (await store.failure_groups()).groups
    assert (await replay_group(store, group.fingerprint, clock)).done == 5
    assert (await store.failure_groups()).groups == [], "nobody need act on what runs again"
    assert (await replay_group(store, group.fingerprint, clock)).done == 0, "and nobody runs it a second time"

    async def found(query: str) -> set[str]:
        return {job.id for job in (await store.search(parse_query(query, clock.now_us))).jobs}

    assert (await found("state:failed replayed:yes"), await found("state:failed replayed:no")) == (set(ids), set())
    first, *others = await take(store, 5, types=("report",))
    await store.settle([Report(first, failure(Category.PERMANENT, "no 7", code="ValueError"))])
    for claim in others:
        await complete(store, claim)
    (again,) = (await store.failure_groups()).groups
    assert (again.count, again.fingerprint, again.sample_job_id) == (1, group.fingerprint, first.job.id)
    assert await found("state:failed replayed:no") == {first.job.id}


@needs(Capability.ANY_REQUESTER)
async def test_every_way_to_run_a_failure_again_takes_it_off_the_list(store: SqlStore) -> None:
    for again in ("retried", "replayed", "submitted"):
        (job_id,) = await fail_many(store, ["broken"], again, max_attempts=1)
        if again == "retried":
            await store.retry(job_id)
        elif again == "replayed":
            await store.replay(job_id)
        else:
            await store.submit(replay_of(await store.get(job_id)))
        assert (await store.failure_groups()).groups == [], again


async def test_who_acts_on_a_cause_is_told_it_in_words_then_and_later(store: SqlStore, clock: FrozenClock) -> None:
    await fail_many(store, ["no template 'monthly'"], max_attempts=1)
    (group,) = (await store.failure_groups()).groups
    cause = "report: ValueError: no template 'monthly'"
    assert (await store.operations.count(Search(fingerprint=group.fingerprint))).cause == cause
    assert (await replay_group(store, group.fingerprint, clock)).cause == cause
    assert (await store.operations.count(Search(state=State.FAILED))).cause is None


@needs(Capability.ANY_REQUESTER)
async def test_of_two_operations_on_one_cause_the_second_runs_nothing_twice(
    store: SqlStore, clock: FrozenClock
) -> None:
    """Both were ordered, and found their jobs, before either acted."""
    ids = await fail_many(store, [f"no {n}" for n in range(3)], max_attempts=1)
    (group,) = (await store.failure_groups()).groups
    search = Search(fingerprint=group.fingerprint)
    said = BulkOrder(action=Action.REPLAY, query=query_text(search), search=search, ordered_by="local")
    one, two = [(await store.operations.order(said))[0] for _ in range(2)]
    found = await store.engine.read(lambda: next_of(two, 10))
    for operation in (one, two):
        await store.engine.write(lambda o=operation: act(o, found, store.engine.family, 1_000_000))  # type: ignore[misc]
    assert (await store.operations.get(two.id)).skipped == {"replayed_since": 3}
    waiting = (await store.search(Search(state=State.SCHEDULED))).jobs
    assert sorted(job.replay_of or "" for job in waiting) == sorted(ids)
