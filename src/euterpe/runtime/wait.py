"""Waiting for an event, but not for ever."""

from __future__ import annotations

import asyncio


async def happens_within(seconds: float, event: asyncio.Event) -> bool:
    """Whether the event came in that time.

    Not `wait_for`: in Python 3.11 it swallows a cancel that comes together with what it waits for."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
