"""Any two programs that meet on jobs of chunks and receipts, in many orders of their statements (ADR 017)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from euterpe.stores.sql.postgres.engine import PostgresEngine
from tests.conformance.clock import FrozenClock
from tests.interleavings.driver import ORDERS_VARIABLE, Actor, orders, orders_at_most, run_alone, run_in_order
from tests.interleavings.receipts import PROGRAMS, Receipted, faults, look, make_receipted
from tests.interleavings.test_interleavings import SETTINGS

NAMES = list(PROGRAMS)
ORDERS = orders_at_most(os.environ.get(ORDERS_VARIABLE))


class Stage:
    def __init__(self, engine: PostgresEngine, connections: list[asyncpg.Connection[Any]], world: Receipted) -> None:
        self.engine = engine
        self.first, self.second, self.watcher = connections
        self.world = world

    def actor(self, name: str, connection: asyncpg.Connection[Any]) -> Actor:
        return Actor(self.engine, connection, lambda: PROGRAMS[name](self.world))

    async def alone(self, name: str) -> Actor:
        await self.watcher.execute(self.world.restore)
        return await run_alone(self.engine, self.first, lambda: PROGRAMS[name](self.world))

    async def play(self, a: str, b: str, order: str) -> list[str]:
        await self.watcher.execute(self.world.restore)
        actors = {"a": self.actor(a, self.first), "b": self.actor(b, self.second)}
        async with asyncio.timeout(30):
            await run_in_order(order, actors, self.watcher)
        named = {a: actors["a"], b if a != b else f"{b}'": actors["b"]}
        return [f"{a} and {b}, {order}: {fault}" for fault in faults(await look(self.watcher, self.world, named))]


@pytest.fixture
async def stage(audited_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    # Who waits here waits for the other's next step, however busy the machine is.
    monkeypatch.setattr("euterpe.stores.sql.exchange.one_statement.LOCK_WAIT_MS", 20_000)
    monkeypatch.setattr("euterpe.stores.sql.worker_protocol.receipts.LOCK_WAIT_MS", 20_000)
    clock = FrozenClock()
    engine = PostgresEngine(audited_url, clock)
    connections = [await engine.connect() for _ in range(3)]
    for connection in connections:
        await connection.execute(SETTINGS)
    yield Stage(engine, connections, await make_receipted(engine, clock, connections[2], monkeypatch))
    for connection in connections:
        await connection.close()


@pytest.mark.parametrize("name", NAMES)
async def test_any_two_programs_keep_plain_jobs_in_one_place_and_their_claims_apart(stage: Stage, name: str) -> None:
    """Each with itself and with all that come after it in the list."""
    alone = await stage.alone(name)
    assert alone.error is None
    found = faults(await look(stage.watcher, stage.world, {name: alone}))
    for other in NAMES[NAMES.index(name) :]:
        for order in orders(alone.steps, (await stage.alone(other)).steps, ORDERS):
            found += await stage.play(name, other, order)
    assert not found, f"{len(found)} faults:\n" + "\n".join(found[:20])
