"""Search: filters, stable cursors, and nothing of other requesters."""

from __future__ import annotations

import pytest

from euterpe.model.errors import InvalidInput
from euterpe.model.reading.views import Search
from euterpe.model.state import State
from euterpe.ports import Capability
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import (
    HOUR,
    complete,
    job,
    submit,
    submit_in,
    take_one,
)
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
