"""Opening and closing the listener at any moment leaves nothing behind."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

from euterpe.store.postgres import PostgresEngine
from euterpe.transport.notify import NotifyWakeups


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
    listening, speaking = (NotifyWakeups(engine.connect, "euterpe_test") for _ in range(2))
    heard = asyncio.Event()
    await listening.open()
    listening.subscribe(heard.set, ["mail"])
    async with asyncio.timeout(10):
        await heard.wait()  # its first connection tells everyone to look
        heard.clear()
        await speaking.open()
        speaking.announce(["mail"])
        await speaking.close()
        await heard.wait()
    await listening.close()
