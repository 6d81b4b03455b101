"""Any two programs that write, in many orders of their statements: the promises hold after each of them."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from euterpe.stores.sql.postgres.engine import PostgresEngine
from euterpe.stores.sql.submitting import late_dependencies
from tests.conformance.clock import FrozenClock
from tests.interleavings.driver import ORDERS_VARIABLE, Actor, orders, orders_at_most, run_alone, run_in_order
from tests.interleavings.invariants import faults, look
from tests.interleavings.programs import PROGRAMS, may_meet
from tests.interleavings.scenario import World, make_world

NAMES = list(PROGRAMS)
ORDERS = orders_at_most(os.environ.get(ORDERS_VARIABLE))
SETTINGS = "SET synchronous_commit = off; SET deadlock_timeout = '20ms'"


class Stage:
    """The world, two connections to play on and one to watch them."""

    def __init__(self, engine: PostgresEngine, connections: list[asyncpg.Connection[Any]], world: World) -> None:
        self.engine = engine
        self.first, self.second, self.watcher = connections
        self.world = world

    def actor(self, name: str, connection: asyncpg.Connection[Any]) -> Actor:
        return Actor(self.engine, connection, lambda: PROGRAMS[name](self.world))

    async def steps(self, name: str) -> int:
        await self.watcher.execute(self.world.restore)
        return (await run_alone(self.engine, self.first, lambda: PROGRAMS[name](self.world))).steps

    async def play(self, a: str, b: str, order: str) -> list[str]:
        """What is wrong when both are through, and a sweep has been by."""
        await self.watcher.execute(self.world.restore)
        actors = {"a": self.actor(a, self.first), "b": self.actor(b, self.second)}
        async with asyncio.timeout(30):
            await run_in_order(order, actors, self.watcher)
        await run_alone(self.engine, self.first, lambda: late_dependencies.watch_dependencies(10))
        named = {a: actors["a"], b if a != b else f"{b}'": actors["b"]}
        found = faults(await look(self.watcher, self.world, named))
        return [f"{a} and {b}, {order}: {fault}" for fault in found]


@pytest.fixture
async def stage(audited_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    # Who waits here waits for the other's next step, however busy the machine is.
    monkeypatch.setattr("euterpe.stores.sql.exchange.turn.LOCK_WAIT_MS", 20_000)
    clock = FrozenClock()
    engine = PostgresEngine(audited_url, clock)
    connections = [await engine.connect() for _ in range(3)]
    for connection in connections:
        await connection.execute(SETTINGS)
    yield Stage(engine, connections, await make_world(engine, clock, connections[2]))
    for connection in connections:
        await connection.close()


@pytest.mark.parametrize("name", NAMES)
async def test_any_two_programs_keep_every_promise_in_any_order_of_their_statements(stage: Stage, name: str) -> None:
    """Each with itself and with all that come after it in the list and that it can meet."""
    steps = await stage.steps(name)
    found: list[str] = []
    for other in (later for later in NAMES[NAMES.index(name) :] if may_meet(name, later)):
        for order in orders(steps, await stage.steps(other), ORDERS):
            found += await stage.play(name, other, order)
    assert not found, f"{len(found)} faults:\n" + "\n".join(found[:20])


async def test_the_scenario_gives_every_program_something_to_do(stage: Stage) -> None:
    steps = {name: await stage.steps(name) for name in NAMES}
    idle = [name for name, count in steps.items() if count < 2]
    assert not idle
    assert sum(steps.values()) > 4 * len(NAMES)


def test_all_means_every_order_of_the_steps_and_a_number_is_kept_to() -> None:
    everything = orders_at_most("all")
    for steps_a, steps_b in ((1, 1), (2, 3), (4, 4)):
        played = list(orders(steps_a, steps_b, everything))
        assert len(played) == len(set(played)) == math.comb(steps_a + steps_b, steps_a)
        assert {(order.count("a"), order.count("b")) for order in played} == {(steps_a, steps_b)}
        for few in (orders_at_most(None), orders_at_most("3")):
            assert few is not None
            chosen = list(orders(steps_a, steps_b, few))
            assert len(chosen) == min(few, len(played))
            assert set(chosen) <= set(played)
