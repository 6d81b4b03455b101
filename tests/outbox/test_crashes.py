"""A dispatcher killed at any point: an event may arrive twice, never zero times, always with the same id and body."""

from __future__ import annotations

import asyncio
import sys

import pytest

from euterpe.backends.engines import Backend
from tests.outbox.dispatching import SECRET, dispatching, make_ended_job, until_settled
from tests.outbox.receiver import receiving
from tests.sql_stores import sql

EVENTS = 12


@pytest.mark.parametrize("point", ["before_send", "after_send", "before_settle", "after_settle"])
async def test_no_event_is_lost_when_the_dispatcher_is_killed(backend: Backend, url: str, point: str) -> None:
    killed = 0
    async with receiving() as receiver:
        for _ in range(EVENTS):
            await make_ended_job(backend, receiver.url, callback_events="terminal")
        for after in (1, 3):
            child = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "tests.outbox.crashing", url, SECRET, point, str(after)
            )
            try:
                async with asyncio.timeout(30):
                    assert await child.wait() == -9, "the dispatcher was to die by its own hand"
            finally:
                if child.returncode is None:
                    child.kill()
            killed += 1
            async with asyncio.timeout(30):
                while any(event.state == "running" for _, event in await backend.store.outbox.search(limit=100)):
                    await sql(backend.store).sweeps.reclaim_events()
                    await asyncio.sleep(0.02)
        async with dispatching(backend):
            states = await until_settled(backend)
    bodies: dict[str, set[bytes]] = {}
    for got in receiver.got:
        bodies.setdefault(got.event_id, set()).add(got.body)
    lost = set(states) - set(bodies)
    differed = [event_id for event_id, seen in bodies.items() if len(seen) > 1]
    print(f"killed {killed} at {point}: {len(receiver.got)} deliveries, lost {len(lost)}, differed {len(differed)}")
    assert len(states) == EVENTS
    assert set(states.values()) == {"completed"}
    assert not lost
    assert not differed
