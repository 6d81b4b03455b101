"""Opening and closing the listener at any moment leaves nothing behind."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from euterpe.model.submitting.submission import Submission
from euterpe.stores.sql.postgres.engine import PostgresEngine
from euterpe.stores.sql.store import SqlStore
from euterpe.wakeups.postgres_notify import NotifyWakeups


@asynccontextmanager
async def listening(engine: PostgresEngine) -> AsyncIterator[asyncio.Event]:
    """What another process hears of the queue `mail`."""
    wakeups = NotifyWakeups(engine.connect, "euterpe_test")
    heard = asyncio.Event()
    await wakeups.open()
    wakeups.subscribe(heard.set, ["mail"])
    await heard.wait()  # its first connection tells everyone to look
    heard.clear()
    yield heard
    await wakeups.close()


async def test_a_listener_closed_while_it_opens_leaves_no_error_behind(fresh_postgres_url: str) -> None:
    """A script that ends at once closes it while it connects, or in the middle of LISTEN. asyncpg sends a cancel for
    a statement that is cut off, over a connection of its own, and that one's end was an error nobody could catch."""
    engine = PostgresEngine(fresh_postgres_url)
    stray: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: stray.append(context))
    for turn in range(60):
        wakeups = NotifyWakeups(engine.connect, "euterpe_test")
        await wakeups.open()
        for _ in range(turn):  # turns of the loop, so each round closes a little later
            await asyncio.sleep(0.0002)
        await wakeups.close()
    gc.collect()
    await asyncio.sleep(0)
    assert stray == []


async def test_what_was_announced_just_before_closing_is_still_heard(fresh_postgres_url: str) -> None:
    engine = PostgresEngine(fresh_postgres_url)
    speaking = NotifyWakeups(engine.connect, "euterpe_test")
    async with asyncio.timeout(30), listening(engine) as heard:
        await speaking.open()
        speaking.announce(["mail"])
        await speaking.close()
        await heard.wait()


async def test_a_lone_submit_notifies_in_its_own_commit_and_the_next_ones_do_not(
    fresh_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = PostgresEngine(fresh_postgres_url)
    await engine.migrate()
    store = SqlStore(engine)
    await store.open()
    speaking = NotifyWakeups(engine.connect, "euterpe_test")  # never opened: it can say nothing by itself
    store.wakeups = speaking
    async with asyncio.timeout(30), listening(engine) as heard:
        await store.submit(Submission(type="t", queue="mail"))
        await heard.wait()
    monkeypatch.setattr("euterpe.wakeups.postgres_notify.QUIET_S", 60.0)
    assert speaking.notify_before_commit("mail").channel is None, "it was not quiet"
    await store.close()


async def test_who_works_here_is_not_told_by_a_commit_as_well(fresh_postgres_url: str) -> None:
    wakeups = NotifyWakeups(PostgresEngine(fresh_postgres_url).connect, "euterpe_test")
    unsubscribe = wakeups.subscribe(lambda: None, ["mail"])
    assert wakeups.notify_before_commit("mail").channel is None
    unsubscribe()
    assert wakeups.notify_before_commit("mail").channel == "euterpe_test"
