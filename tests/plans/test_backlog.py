"""What a statement reads on Postgres does not grow with the backlog: neither in a turn, a sweep or a submit, nor in
what metrics, pages and lists look at.

Jobs of a paused type, of an unknown one, of one full key, of one delayed hour and with dependencies wait beside live
traffic.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Final

import pytest

from euterpe.model.claims.exchange import ClaimRequest
from euterpe.model.reading.views import Search
from euterpe.model.state import State
from euterpe.model.submitting.submission import Submission
from euterpe.stores.sql.reads import stats
from euterpe.stores.sql.store import SqlStore
from tests.plans.history import add_backlog
from tests.plans.scenario import look_around, work_a_day
from tests.plans.test_postgres_plans import watched
from tests.plans.watching import WatchingPostgres, inserts, pages_read

FEW: Final = 2_000
MANY: Final = 40_000
"""Of each kind."""
LOOKED_AT: Final = 500
"""Jobs of a state that are counted or looked at in these tests: fewer than the small backlog has."""
SLACK: Final = 100
"""Pages: a larger index is a level deeper."""


@pytest.fixture
def _short_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is counted exactly is bounded by these; with the small backlog each of them is reached already."""
    monkeypatch.setattr(stats, "COUNTED", LOOKED_AT)
    for name in ("COUNTED", "LOOKED_AT", "WAITING_COUNTED"):
        monkeypatch.setattr(f"euterpe.stores.sql.dashboard.reads.{name}", LOOKED_AT)
    monkeypatch.setattr("euterpe.stores.sql.reads.scan.SCAN_LIMIT", LOOKED_AT)


@pytest.mark.usefixtures("_short_looks")
@pytest.mark.parametrize("part", [work_a_day, look_around])
@pytest.mark.timeout(240)
async def test_no_statement_reads_more_where_more_waits(
    fresh_postgres_url: str, part: Callable[[SqlStore], Awaitable[None]]
) -> None:
    pages: list[dict[str, int]] = []
    async with watched(fresh_postgres_url) as (engine, store):
        await store.pause("type", "paused")
        for backlog in (FEW, MANY - FEW):
            await add_backlog(fresh_postgres_url, backlog, time.time_ns() // 1000)
            await part(store)
            engine.seen.clear()
            await part(store)
            pages.append(await _pages(engine))
    few, many = pages
    assert len(many) > 15
    grown = {name: (few.get(name, 0), many[name]) for name in many if many[name] > 2 * few.get(name, 0) + SLACK}
    assert not grown, f"pages read with {FEW} jobs of a kind, and with {MANY}: {grown}"


@pytest.mark.usefixtures("_short_looks")
@pytest.mark.timeout(240)
async def test_a_page_of_a_list_reads_no_more_where_more_waits(fresh_postgres_url: str) -> None:
    """Whatever the state and the filter, and though nothing matches."""
    pages: list[dict[str, int]] = []
    async with watched(fresh_postgres_url) as (engine, store):
        await store.submit_many([Submission(type="t")] * 10)
        await store.claim(ClaimRequest(worker_id="w", limit=5, types=("t",)))
        for backlog in (FEW, MANY - FEW):
            await add_backlog(fresh_postgres_url, backlog, time.time_ns() // 1000)
            read: dict[str, int] = {}
            for state in (None, *State):
                for said in ({}, {"type": "none"}, {"queue": "none"}, {"requester_id": "x"}, {"tag": ("a", "b")}):
                    engine.seen.clear()
                    await store.search(Search(state=state, limit=20, scan_limit=LOOKED_AT, **said))
                    read |= {f"{name} {state} {said}": n for name, n in (await _pages(engine)).items()}
            pages.append(read)
    few, many = pages
    grown = {name: (few.get(name, 0), many[name]) for name in many if many[name] > 2 * few.get(name, 0) + SLACK}
    assert not grown, f"pages read with {FEW} jobs of a kind, and with {MANY}: {grown}"


async def _pages(engine: WatchingPostgres) -> dict[str, int]:
    """By statement: the most that it read, with any of the values that it ran with."""
    connection = await engine.connect()
    try:
        return {
            name: max(
                [await pages_read(connection, run.sql, run.bound) for run in runs.values() if not inserts(run.sql)]
            )
            for name, runs in engine.seen.items()
            if any(not inserts(run.sql) for run in runs.values())
        }
    finally:
        await connection.close()
