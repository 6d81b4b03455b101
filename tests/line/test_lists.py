"""No index has what is scheduled, running or completed by its state, and every list by state tells what is true."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import pytest

from euterpe.model.bulk import COUNTED
from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.outcome import Success
from euterpe.model.failures.failure import Category
from euterpe.model.job import Claim
from euterpe.model.reading.views import Search
from euterpe.model.retention import Retention
from euterpe.model.state import TERMINAL, State
from euterpe.stores.sql.program import Program, Row, one
from euterpe.stores.sql.reads.usage import usage
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import MINUTE, complete, fail, job, submit, take, take_one
from tests.conformance.clock import FrozenClock
from tests.conformance.engines import PostgresTables
from tests.line.acts import bulk, runs

LOT: Final = 40
LIMITS: Final = (1, 7, 1000)
COLUMNS: Final = "seq, CAST(id AS text), queue, type, completed_at, COALESCE(scheduled_at, created_at)"


@pytest.fixture
async def busy(store: SqlStore, clock: FrozenClock) -> None:
    """Bulk jobs that wait, run and have completed, and lone ones of other states between them: what waits is older than
    what has completed, and younger."""
    await bulk(store, LOT, type="waits", priority=4)
    await bulk(store, LOT)
    await submit(store)
    await bulk(store, LOT)
    for type_ in ("fails", "runs", "ends"):
        await submit(store, type_, max_attempts=1)
    late = await bulk(store, LOT, type="waits", priority=4)
    claims = await _exchange(store, [], LOT + 10)
    clock.advance(seconds=1)
    claims += await _exchange(store, claims[:LOT], 10)
    await complete(store, claims[LOT])
    await store.cancel(late[0])
    await fail(store, await take_one(store, types=("fails",)), Category.PERMANENT)
    await take_one(store, types=("runs",))
    await complete(store, await take_one(store, types=("ends",)))


async def _exchange(store: SqlStore, done: Sequence[Claim], limit: int) -> list[Claim]:
    reports = [Report(claim, Success(b"1")) for claim in done]
    request = ClaimRequest(worker_id="w", limit=limit, types=("work",))
    _, claims = await store.exchange(reports, request)
    return claims


async def _true(tables: PostgresTables, state: State, more: str = "") -> list[Any]:
    return await tables.run(f"SELECT {COLUMNS} FROM inbox_jobs WHERE state = '{state}' {more} ORDER BY seq DESC")


async def _ask(store: SqlStore, name: str, **values: Any) -> list[Row]:
    def program() -> Program[list[Row]]:
        return (yield one(name, **values))

    return await store.engine.read(program)


async def test_the_scenario_has_jobs_that_wait_run_and_have_completed(
    store: SqlStore, busy: None, tables: PostgresTables
) -> None:
    assert len(await runs(tables)) >= 3
    rows = await tables.run("SELECT state, listed, COUNT(*) FROM inbox_jobs GROUP BY state, listed")
    filed = {state: listed for state, listed, _ in rows}
    assert filed == {
        "scheduled": None, "running": None, "completed": None, "cancelled": "cancelled", "failed": "failed"
    }  # fmt: skip


@pytest.mark.parametrize("state", State)
async def test_a_search_by_state_finds_what_is_true_page_by_page(
    store: SqlStore, busy: None, tables: PostgresTables, state: State
) -> None:
    true = [row[1] for row in await _true(tables, state)]
    for limit in LIMITS:
        found: list[str] = []
        cursor = None
        while True:
            page = await store.search(Search(state=state, limit=limit, cursor=cursor))
            found += [job.id for job in page.jobs]
            if (cursor := page.cursor) is None:
                break
        assert found == true


@pytest.mark.parametrize("state", State)
async def test_every_look_at_the_newest_of_a_state_finds_what_is_true(
    store: SqlStore, busy: None, tables: PostgresTables, state: State
) -> None:
    true = await _true(tables, state)
    everywhere = 2**62
    every_kind = dict.fromkeys(("type", "type_prefix", "queue"))
    for limit in LIMITS:
        newest = {"state": state, "limit": limit, "requester_id": None}
        groups = await _ask(store, "stats/ended_groups" if state in TERMINAL else "stats/live_groups", **newest)
        assert sum(row[2] for row in groups) == min(limit, len(true))
        counted = {row[0]: row[1] for row in await _ask(store, "dashboard/count_states", limit=limit, states=[state])}
        assert counted[state] == min(limit, len(true))
        own = await _ask(store, "dashboard/count_states_of", limit=limit, requester_id="local")
        assert {row[0]: (row[1], row[2]) for row in own}[state] == (min(limit, len(true)),) * 2
        ends = await _ask(store, "dashboard/ends_by_second", **newest, window_us=MINUTE)
        assert sum(row[1] for row in ends) == min(limit, len(true))
        if state in TERMINAL:
            lately = await _ask(store, "recent_ends", state=state, limit=limit, window_us=MINUTE)
            assert sum(row[1] for row in lately) == min(limit, len(true))
        if limit < len(true) and state is not State.RUNNING:  # All that runs is looked at.
            ((edge,),) = await _ask(store, "scan_edge", state=state, before=everywhere, skip=limit, **every_kind)
            assert edge >= true[limit][0], "a page that looks so far misses jobs"
    assert len(await _ask(store, "dashboard/recent_times", state=state, limit=1000, requester_id=None)) == len(true)


async def test_what_lives_is_counted_by_queue_and_by_requester(
    store: SqlStore, busy: None, tables: PostgresTables, clock: FrozenClock
) -> None:
    ((live, since),) = await tables.run(
        "SELECT COUNT(*), MIN(COALESCE(scheduled_at, created_at)) FROM inbox_jobs WHERE state = 'scheduled'"
    )
    depths = {depth.state: depth for depth in await store.depths()}
    assert (depths[State.SCHEDULED].count, depths[State.SCHEDULED].oldest_age_us) == (live, clock.now_us - since)
    running = len(await _true(tables, State.RUNNING))
    assert depths[State.RUNNING].count == running
    used = await usage(store.engine, of_jobs=True, of_keys=False)
    assert {requester: had.jobs for requester, had in used.items()} == {"local": live + running}
    ((true_size,),) = await tables.run(
        "SELECT SUM(octet_length(payload)) FROM inbox_jobs WHERE state IN ('scheduled', 'running')"
    )
    assert used["local"].payload_bytes == true_size


async def test_what_waits_is_told_a_lost_transport_again_and_what_runs_is_not(
    store: SqlStore, busy: None, tables: PostgresTables
) -> None:
    told = {row[0] for row in await _ask(store, "waiting_since", queue="default", age_us=0, limit=1000)}
    assert told == {row[1] for row in await _true(tables, State.SCHEDULED)}


@pytest.mark.parametrize("keys", [3, 1_100])
async def test_what_waits_is_listed_whole_however_many_keys_it_has(
    store: SqlStore, tables: PostgresTables, keys: int
) -> None:
    """A thousand kinds of jobs are sought one by one. Where there are more, jobs are looked at by their numbers."""
    for _ in range(2):
        await store.submit_many(
            [job(concurrency_key=str(key), concurrency_limit=1, priority=key % 2) for key in range(keys)]
        )
    await bulk(store, LOT, type="other")
    for asked, true in (
        (Search(), "true"),
        (Search(type="work"), "type = 'work'"),
        (Search(queue="default"), "true"),
        (Search(type_prefix="oth"), "type = 'other'"),
    ):
        found: list[str] = []
        cursor = None
        while True:
            search = msgspec.structs.replace(asked, state=State.SCHEDULED, limit=500, scan_limit=700, cursor=cursor)
            page = await store.search(search)
            found += [job.id for job in page.jobs]
            if (cursor := page.cursor) is None:
                break
        assert found == [row[1] for row in await _true(tables, State.SCHEDULED, f"AND {true}")]


async def test_an_operation_counts_what_matches_by_state(store: SqlStore, busy: None, tables: PostgresTables) -> None:
    for state in (State.SCHEDULED, State.COMPLETED):
        counted = await store.operations.count(Search(state=state))
        assert (counted.count, counted.exact) == (len(await _true(tables, state)), True)
        assert counted.count < COUNTED


async def test_retention_removes_what_completed_behind_older_jobs_that_still_wait(
    store: SqlStore, busy: None, tables: PostgresTables, clock: FrozenClock
) -> None:
    """As many are looked at as ten times the limit: what waits is not among them."""
    completed = len(await _true(tables, State.COMPLETED))
    waiting = len(await _true(tables, State.SCHEDULED))
    clock.advance(minutes=10)
    keep = Retention(completed_us=MINUTE)
    assert await store.sweeps.prune(keep) == completed
    assert len(await _true(tables, State.SCHEDULED)) == waiting
    assert len(await take(store, 1000, types=("waits",))) == 2 * LOT - 1


@pytest.mark.parametrize(
    "gone",
    ["UPDATE inbox_jobs SET state = 'cancelled', listed = 'cancelled', completed_at = 1", "DELETE FROM inbox_jobs"],
)
async def test_neighbours_of_a_job_that_went_while_it_was_in_its_run_are_claimed_whole(
    store: SqlStore, tables: PostgresTables, gone: str
) -> None:
    ids = await bulk(store, LOT, tags={"a": "b"}, correlation_id="c")
    await submit(store)
    await tables.run(f"{gone} WHERE id = '{ids[0]}'")
    claims = await _exchange(store, [], 10)
    assert [claim.job.id for claim in claims] == ids[1:11]
    assert [claim.job for claim in claims] == [await store.get(job_id) for job_id in ids[1:11]]
    claims += await _exchange(store, claims, LOT)
    assert [claim.job.id for claim in claims[:-1]] == ids[1:]
    assert all(result.accepted for result in await store.settle([Report(claim, Success()) for claim in claims]))
