"""What a query finds: types by their beginning, errors, ages, ids and correlation ids; and how far one page looks."""

from __future__ import annotations

import msgspec
import pytest

from euterpe.model.errors import InvalidInput
from euterpe.model.failures.failure import Category
from euterpe.model.reading.job_query import parse_query
from euterpe.model.reading.views import Search
from euterpe.model.state import State
from euterpe.ports import Capability
from euterpe.stores.remote.store import HttpStore
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import fail, job, submit, taken
from tests.conformance.clock import FrozenClock
from tests.conformance.needs import needs

pytestmark = needs(Capability.SEARCH)


async def found(store: SqlStore, clock: FrozenClock, query: str) -> list[str]:
    return [j.id for j in (await store.search(parse_query(query, clock.now_us))).jobs]


async def test_a_type_is_found_by_its_beginning(store: SqlStore, clock: FrozenClock) -> None:
    a, b = await submit(store, "report.render"), await submit(store, "report.mail")
    await submit(store, "reports")
    odd = await submit(store, "rep%rt.x")
    assert await found(store, clock, "type:report.*") == [b, a]
    assert await found(store, clock, "type:report.render*") == [a]
    assert await found(store, clock, "type:rep%*") == [odd]
    assert await found(store, clock, "type:Report.*") == []


async def test_a_job_is_found_by_the_code_or_the_category_of_its_error(store: SqlStore, clock: FrozenClock) -> None:
    by_code = await taken(store, "a")
    await fail(store, by_code, Category.PERMANENT, code="no_paper")
    by_category = await taken(store, "b")
    await fail(store, by_category, Category.TIMEOUT, code="slow")
    liar = await taken(store, "c")
    await fail(store, liar, Category.PERMANENT, message='{"code":"no_paper","category":"timeout"}', code="x")
    assert await found(store, clock, "error:no_paper") == [by_code.job.id]
    assert await found(store, clock, "error:timeout") == [by_category.job.id]
    assert await found(store, clock, "error:permanent state:failed") == [liar.job.id, by_code.job.id]
    assert await found(store, clock, "error:no_pap") == []


async def test_a_job_has_all_the_tags_that_are_asked_for(store: SqlStore, clock: FrozenClock) -> None:
    both = await submit(store, tags={"team": "a", "env": "prod"})
    await submit(store, tags={"team": "a"})
    await submit(store)
    assert await found(store, clock, "tag.team:a tag.env:prod") == [both]
    assert await found(store, clock, "tag.env:prod tag.team:a state:scheduled") == [both]


async def test_jobs_are_found_by_their_age(store: SqlStore, clock: FrozenClock) -> None:
    hourly = []
    for _ in range(6):
        hourly.append(await submit(store))
        clock.advance(hours=1)
    newest_first = hourly[::-1]
    assert await found(store, clock, "created:<150m") == newest_first[:2]
    assert await found(store, clock, "created:>150m") == newest_first[2:]
    assert await found(store, clock, "created:>150m created:<270m state:scheduled") == newest_first[2:4]
    assert await found(store, clock, "created:<1s") == []
    assert await found(store, clock, "created:>2025-12-31T23:59:59Z created:<2026-01-01T00:00:01Z") == hourly[:1]


async def test_a_long_history_is_entered_where_the_age_says(store: SqlStore, clock: FrozenClock) -> None:
    """By halving: the jobs before and behind are not looked at. A rolled back insert leaves a gap in the places, and a
    page that meets one is shorter; from the newest job on it would take more pages than these."""
    for _ in range(12):
        await store.submit_many([job() for _ in range(100)])
        clock.advance(hours=2)
    middle = Search(created_before=clock.now_us - 11 * 3_600_000_000, scan_limit=150, limit=10)
    page = await store.search(middle)
    jobs = list(page.jobs)
    for _ in range(2):
        if len(jobs) < 10:
            assert page.cursor is not None
            page = await store.search(msgspec.structs.replace(middle, cursor=page.cursor))
            jobs += page.jobs
    assert len(jobs) >= 10
    assert all(clock.now_us - j.created_at == 12 * 3_600_000_000 for j in jobs[:10])
    recent = await store.search(Search(created_after=clock.now_us - 3 * 3_600_000_000, type="none", scan_limit=400))
    assert recent.cursor is None


async def test_text_is_an_id_or_its_beginning_or_else_a_correlation_id(store: SqlStore, clock: FrozenClock) -> None:
    job_id = await submit(store, "a")
    correlated = await submit(store, "b", correlation_id="order 7")
    looks_like_an_id = await submit(store, "c", correlation_id="c0ffee0012")
    for text in (job_id, job_id.upper(), job_id[:8], job_id[:13], job_id.replace("-", "")):
        assert await found(store, clock, text) == [job_id]
    assert await found(store, clock, f"{job_id} type:b") == []
    assert await found(store, clock, '"order 7"') == [correlated]
    assert await found(store, clock, '"order 7" state:scheduled type:b') == [correlated]
    assert await found(store, clock, "c0ffee0012") == [looks_like_an_id]
    assert await found(store, clock, "order") == []


@pytest.mark.parametrize("state", [None, State.SCHEDULED])
async def test_a_page_looks_at_so_many_jobs_and_its_cursor_goes_on(store: SqlStore, state: State | None) -> None:
    rare = await submit(store, "rare")
    await store.submit_many([job() for _ in range(25)])
    pages, seen, cursor = 0, list[str](), None
    while True:
        page = await store.search(Search(state=state, type="rare", scan_limit=10, cursor=cursor))
        pages, cursor = pages + 1, page.cursor
        seen += [j.id for j in page.jobs]
        if cursor is None:
            break
    assert seen == [rare]
    if isinstance(store, HttpStore):
        assert pages == 1, "a control plane says itself how far its pages look"
    else:
        # On Postgres what waits is found by its type: no page looks at other types.
        by_type = state is not None and store.engine.family == "postgres"
        assert pages == (1 if by_type else 3)


@pytest.mark.parametrize("state", [None, State.SCHEDULED])
async def test_pages_of_a_query_join_up_without_gaps_or_repeats(store: SqlStore, state: State | None) -> None:
    ids = [await submit(store, "even" if n % 2 == 0 else "odd") for n in range(20)]
    for scan_limit in (1, 3, 7, 20, 100):
        seen, cursor = list[str](), None
        while True:
            page = await store.search(Search(state=state, type="even", scan_limit=scan_limit, limit=3, cursor=cursor))
            seen += [j.id for j in page.jobs]
            cursor = page.cursor
            if cursor is None:
                break
        assert seen == ids[::-1][1::2], scan_limit


@needs(Capability.ANY_REQUESTER)
async def test_an_id_finds_nobody_elses_job(store: SqlStore) -> None:
    job_id = await submit(store, requester_id="alice")
    assert (await store.search(Search(text=job_id, requester_id="bob"))).jobs == []
    assert [j.id for j in (await store.search(Search(text=job_id, requester_id="alice"))).jobs] == [job_id]


@pytest.mark.parametrize("field", ["type_prefix", "error", "text"])
async def test_text_that_cannot_exist_is_refused_by_name(store: SqlStore, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        await store.search(Search(**{field: "a\x00b"}))  # type: ignore[arg-type]
    assert refused.value.field == field
