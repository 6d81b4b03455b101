"""`euterpe top`, driven by keys without a terminal, on a real store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable, Static

from euterpe.model.claims.exchange import ClaimRequest, ProgressUpdate, Report
from euterpe.model.claims.outcome import Failed
from euterpe.model.claims.presence import BreakerState, Presence, TrippedBreaker, WorkerFacts
from euterpe.model.errors import StoreUnavailable
from euterpe.model.failures.failure import Category, Failure
from euterpe.model.state import State
from euterpe.model.submitting.submission import Submission
from euterpe.stores.sql.sqlite.engine import SqliteEngine
from euterpe.stores.sql.store import SqlStore
from euterpe.tui.app import TopApp

HOSTILE = "[bold red]x[/] \x1b[31m"


@pytest.fixture
async def store(sqlite_url: str) -> AsyncIterator[SqlStore]:
    store = SqlStore(SqliteEngine(sqlite_url.removeprefix("sqlite:///")))
    await store.migrate()
    await store.open()
    yield store
    await store.close()


async def two_jobs(store: SqlStore) -> tuple[str, str]:
    """One that runs, at 40 %, and one that failed with words that a terminal must not obey."""
    for kind in ("runs", "fails"):
        await store.submit(Submission(type=kind))
    runs, fails = await store.claim(ClaimRequest(worker_id="host:1", limit=2))
    await store.update_progress([ProgressUpdate(runs, progress=40.0, message="halfway")])
    await store.settle([Report(fails, Failed(Failure(Category.PERMANENT, HOSTILE, "boom")))])
    await store.submit(Submission(type="waits", queue="later"))
    return runs.job.id, fails.job.id


def rows(app: TopApp, name: str) -> list[list[str]]:
    table = app.query_one(f"#{name}", DataTable)
    return [[str(cell) for cell in table.get_row(key)] for key in table.rows]


async def until(pilot: Pilot[None], condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await pilot.pause(0.01)


async def test_queues_workers_running_and_failed_jobs_are_shown(store: SqlStore) -> None:
    runs, fails = await two_jobs(store)
    tripped = (TrippedBreaker("mail", "runs", BreakerState.OPEN),)
    for name, breakers in (("idle", ()), ("host:1", tripped)):
        facts = WorkerFacts(queues=("default",), types=("runs", "fails"), slots=4, breakers=breakers)
        await store.workers.register([Presence(worker_id=name, facts=facts)])
    app = TopApp(store, every_s=60)
    async with app.run_test(size=(140, 50)) as pilot:
        await until(pilot, lambda: bool(rows(app, "failed")))
        assert [row[:4] for row in rows(app, "queues")] == [["default", "0", "1", "1"], ["later", "1", "0", "0"]]
        assert rows(app, "workers") == [
            ["host:1", "1/4", "runs, fails", "breaker: runs in queue mail open"],
            ["idle", "0/4", "runs, fails", "idle"],
        ]
        (running,) = rows(app, "running")
        assert (running[0], running[1], running[3], running[5]) == (runs[:8], "runs", "1/3", "40 % halfway")
        (failed,) = rows(app, "failed")
        assert (failed[0], failed[2]) == (fails[:8], "failed")
        assert "[bold red]x[/]" in failed[4]
        assert "running 1" in str(app.query_one("#counts", Static).render())


async def test_keys_cancel_and_retry_after_a_question(store: SqlStore) -> None:
    runs, fails = await two_jobs(store)
    app = TopApp(store, every_s=60)
    async with app.run_test(size=(140, 50)) as pilot:
        await until(pilot, lambda: bool(rows(app, "failed")))
        await pilot.press("c")
        await until(pilot, lambda: len(app.screen_stack) == 2)
        await pilot.press("n")
        await until(pilot, lambda: len(app.screen_stack) == 1)
        assert not (await store.get(runs)).cancel_requested
        for key in ("c", "r"):
            await pilot.press(key)
            await until(pilot, lambda: len(app.screen_stack) == 2)
            await pilot.press("y")
            await until(pilot, lambda: len(app.screen_stack) == 1)
        await until(pilot, lambda: not rows(app, "failed"))
    assert (await store.get(runs)).cancel_requested
    assert (await store.get(fails)).state is State.SCHEDULED


async def test_an_outage_is_told_and_passes(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    await two_jobs(store)
    stats, away = store.stats, [True]

    async def shaky(requester_id: str | None = None) -> object:
        if away[0]:
            raise StoreUnavailable("the database is away")
        return await stats(requester_id)

    monkeypatch.setattr(store, "stats", shaky)
    app = TopApp(store, every_s=0.05)
    async with app.run_test(size=(140, 50)) as pilot:
        await until(pilot, lambda: "no answer" in str(app.query_one("#counts", Static).render()))
        away[0] = False
        await until(pilot, lambda: bool(rows(app, "running")))
        await pilot.press("p")
        await pilot.press("tab")
