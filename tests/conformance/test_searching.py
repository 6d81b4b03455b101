"""Search, depths and stats: filters, stable cursors, counts that add up, and nothing of other requesters."""

from __future__ import annotations

import pytest

from euterpe.model.errors import InvalidInput
from euterpe.model.failures.failure import Category
from euterpe.model.reading.views import Search
from euterpe.model.state import State
from euterpe.ports import Capability
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import (
    CALLBACK,
    HOUR,
    MINUTE,
    SECOND,
    complete,
    fail,
    job,
    stop,
    submit,
    submit_in,
    take,
    take_one,
    taken,
)
from tests.conformance.clock import FrozenClock
from tests.conformance.needs import needs

pytestmark = needs(Capability.SEARCH)


async def found(store: SqlStore, **asked: object) -> list[str]:
    page = await store.search(Search(**asked))  # type: ignore[arg-type]
    return [j.id for j in page.jobs]


async def test_jobs_are_found_newest_first(store: SqlStore) -> None:
    ids = [await submit(store) for _ in range(3)]
    assert await found(store) == ids[::-1]


@needs(Capability.ANY_REQUESTER)
async def test_each_filter_finds_what_it_names(store: SqlStore) -> None:
    a = await submit(store, "a", requester_id="alice", queue="q1", tags={"team": "x", "env": "prod"})
    b = await submit(store, "b", requester_id="bob", queue="q2", tags={"team": "y"}, delay_us=HOUR)
    c = await submit(store, "a", requester_id="bob", queue="q1")
    assert await found(store, type="a") == [c, a]
    assert await found(store, queue="q1") == [c, a]
    assert await found(store, requester_id="bob") == [c, b]
    assert await found(store, state=State.DELAYED) == [b]
    assert await found(store, tag=("team", "x")) == [a]
    assert await found(store, tag=("env", "prod"), type="a") == [a]
    assert await found(store, tag=("team", "prod")) == []
    assert await found(store, type="a", requester_id="alice", queue="q2") == []


async def test_every_state_can_be_searched_for(store: SqlStore) -> None:
    jobs = {state: await submit_in(store, state, str(state)) for state in State}
    for state, expected in jobs.items():
        assert await found(store, state=state, type=str(state)) == [expected.id]


@pytest.mark.parametrize("key", ["plain", "dotted.key", 'quo"te', "back\\slash", "ключ", "a'b", "$.x", "%"])
async def test_a_tag_is_found_whatever_its_characters(store: SqlStore, key: str) -> None:
    job_id = await submit(store, tags={key: key, "other": "z"})
    await submit(store, tags={"other": key})
    assert await found(store, tag=(key, key)) == [job_id]


async def test_pages_join_up_without_gaps_or_repeats_while_jobs_come_and_change(store: SqlStore) -> None:
    ids = [r.job_id for r in await store.submit_many([job() for _ in range(25)])]
    seen: list[str] = []
    cursor = None
    while True:
        page = await store.search(Search(limit=7, cursor=cursor))
        seen += [j.id for j in page.jobs]
        await submit(store, "newcomer")
        await complete(store, await take_one(store))
        cursor = page.cursor
        if cursor is None:
            break
    assert seen == ids[::-1]


async def test_pages_of_one_state_join_up_as_well(store: SqlStore) -> None:
    ids = [await submit(store, delay_us=HOUR * (i % 2), tags={"n": str(i)}) for i in range(12)]
    delayed = [job_id for i, job_id in enumerate(ids) if i % 2]
    seen: list[str] = []
    cursor = None
    while True:
        page = await store.search(Search(limit=2, cursor=cursor, state=State.DELAYED))
        seen += [j.id for j in page.jobs]
        cursor = page.cursor
        if cursor is None:
            break
    assert seen == delayed[::-1]


async def test_the_last_page_has_no_cursor(store: SqlStore) -> None:
    await store.submit_many([job() for _ in range(4)])
    assert (await store.search(Search(limit=4))).cursor is None
    assert (await store.search(Search(limit=3))).cursor is not None


@pytest.mark.parametrize("limit", [0, -1, 1001])
async def test_a_limit_out_of_range_is_refused(store: SqlStore, limit: int) -> None:
    with pytest.raises(InvalidInput) as refused:
        await store.search(Search(limit=limit))
    assert refused.value.field == "limit"


@pytest.mark.parametrize("cursor", ["", "x", "-1", "1.5", "9" * 30, "²", "1 OR 1=1"])
async def test_a_cursor_of_no_page_is_refused(store: SqlStore, cursor: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        await store.search(Search(cursor=cursor))
    assert refused.value.field == "cursor"


@pytest.mark.parametrize("odd", ["a\x00b", "\ud800"])
@pytest.mark.parametrize("field", ["type", "queue", "requester_id", "tag"])
async def test_a_search_for_text_that_cannot_exist_is_refused_by_name(store: SqlStore, field: str, odd: str) -> None:
    asked = {field: (odd, odd) if field == "tag" else odd}
    with pytest.raises(InvalidInput) as refused:
        await found(store, **asked)
    assert refused.value.field == field


# --- depths and stats ----------------------------------------------------------------------------------


async def test_depths_count_live_jobs_by_queue_and_tell_the_age_of_the_oldest(
    store: SqlStore, clock: FrozenClock
) -> None:
    await submit(store, queue="a")
    clock.advance(seconds=10)
    await submit(store, queue="a")
    await submit(store, queue="b", delay_us=HOUR)
    await complete(store, await taken(store, "done", queue="b"))
    clock.advance(seconds=5)
    depths = {(d.queue, d.state): (d.count, d.oldest_age_us) for d in await store.depths()}
    assert depths == {("a", State.SCHEDULED): (2, 15 * SECOND), ("b", State.DELAYED): (1, 5 * SECOND)}


async def test_stats_count_by_state_queue_and_type(store: SqlStore) -> None:
    await complete(store, await taken(store, "a", queue="q1"))
    await fail(store, await taken(store, "a", queue="q1"), Category.PERMANENT)
    await submit(store, "b", queue="q2")
    stats = await store.stats()
    assert stats.by_state == {"completed": 1, "failed": 1, "scheduled": 1}
    assert stats.by_queue == {"q1": {"completed": 1, "failed": 1}, "q2": {"scheduled": 1}}
    assert stats.by_type == {"a": {"completed": 1, "failed": 1}, "b": {"scheduled": 1}}


async def test_stats_tell_oldest_ages_ends_of_the_last_minute_and_the_outbox(
    store: SqlStore, clock: FrozenClock
) -> None:
    await complete(store, await taken(store, "old"))
    clock.advance(minutes=2)
    await complete(store, await taken(store, "a"))
    await fail(store, await taken(store, "b", max_attempts=1))
    await stop(store, await taken(store, "c", callback_url=CALLBACK))
    await submit(store, "waiting")
    clock.advance(seconds=30)
    stats = await store.stats()
    assert stats.oldest_age_us == {"default": 30 * SECOND}
    assert (stats.per_minute["completed"], stats.per_minute["failed"], stats.per_minute["dead_letter"]) == (1, 0, 1)
    assert stats.outbox == {"scheduled": 2}


@needs(Capability.ANY_REQUESTER)
async def test_stats_of_one_requester_show_nothing_of_the_others(store: SqlStore, clock: FrozenClock) -> None:
    for requester in ("alice", "bob"):
        await complete(store, await taken(store, requester, requester_id=requester, callback_url=CALLBACK))
    await submit(store, "bobs", requester_id="bob", queue="bobs")
    clock.advance(us=MINUTE // 2)
    stats = await store.stats("alice")
    assert stats.by_state == {"completed": 1}
    assert stats.by_type == {"alice": {"completed": 1}}
    assert (stats.per_minute["completed"], stats.oldest_age_us, stats.outbox) == (1, {}, {"scheduled": 2})


async def test_a_job_of_a_type_that_no_worker_here_knows_is_seen(store: SqlStore) -> None:
    await submit(store, "known")
    await submit(store, "unknown")
    await submit(store, "unknown")
    await submit(store, "elsewhere", queue="other")
    assert await store.unknown_types(["default"], ["known"]) == {"unknown": 2}
    assert [c.job.type for c in await take(store, types=("known",))] == ["known"]
