"""Steps two programs over two connections in a given order, as two processes would run them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable, Iterator
from random import Random
from typing import Any, Final

import asyncpg

from euterpe.model.errors import EuterpeError
from euterpe.stores.sql.postgres.engine import PostgresEngine
from euterpe.stores.sql.program import MakeProgram, Program, Statement

GLANCE_S: Final = 0.002
ORDERS_VARIABLE: Final = "EUTERPE_TEST_ORDERS"
"""How many orders of each pair: a number, or `all`."""
USUAL_ORDERS: Final = 6
"""A pair of programs has up to thousands of orders. The usual run takes an even choice of each pair's; a run by night
may take them all."""
RETRIES: Final = 5
TRY_AGAIN: Final = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError, asyncpg.UniqueViolationError)
"""What the engine answers by making the program anew."""


class Actor:
    """One program on its own connection, in its own transaction. Its last step is the commit."""

    def __init__(self, engine: PostgresEngine, connection: asyncpg.Connection[Any], make: MakeProgram[Any]) -> None:
        self._engine = engine
        self._connection = connection
        self._make = make
        self._retries = 0
        self.pending: asyncio.Task[None] | None = None
        self.is_over = False
        self.steps = 0
        self.answer: Any = None
        """What the program returned, once it is committed."""
        self.error: EuterpeError | None = None
        self.conflicts: list[Exception] = []
        self._start()

    def _start(self) -> None:
        self._program: Program[Any] = self._make()
        self._statement: Statement | None = None
        self._begun = False
        self._returned: Any = None

    @property
    def pid(self) -> int:
        return self._connection.get_server_pid()

    def step(self) -> None:
        self.steps += 1
        self.pending = asyncio.create_task(self._step())

    async def _step(self) -> None:
        try:
            if not self._begun:
                self._begun = True
                await self._connection.execute("BEGIN")
                self._next(None)
            elif self._statement is None:
                await self._connection.execute("COMMIT")
                self.answer, self.is_over = self._returned, True
            if not self.is_over and self._statement is not None:
                self._next(await self._engine.execute(self._connection, self._statement))
        except EuterpeError as refused:
            await self._connection.execute("ROLLBACK")
            self.error, self.is_over = refused, True
        except TRY_AGAIN as conflict:
            await self._connection.execute("ROLLBACK")
            self.conflicts.append(conflict)
            self._retries += 1
            assert self._retries <= RETRIES, "it is refused again and again"
            self._start()

    def _next(self, rows: Any) -> None:
        try:
            self._statement = next(self._program) if rows is None else self._program.send(rows)
        except StopIteration as stop:
            self._statement, self._returned = None, stop.value


async def run_alone(engine: PostgresEngine, connection: asyncpg.Connection[Any], make: MakeProgram[Any]) -> Actor:
    actor = Actor(engine, connection, make)
    while not actor.is_over:
        actor.step()
        assert actor.pending is not None
        await actor.pending
    return actor


async def run_in_order(order: str, actors: dict[str, Actor], watcher: asyncpg.Connection[Any]) -> None:
    """`order` names who makes the next step. Who waits for a lock lets the other go on; what is left when the order is
    through goes on by turns."""
    for name in itertools.chain(order, itertools.cycle(actors)):
        if all(actor.is_over for actor in actors.values()):
            return
        actor = actors[name]
        if not actor.is_over and actor.pending is None:
            actor.step()
        for moving in actors.values():
            await until_done_or_blocked(moving, watcher)


async def until_done_or_blocked(actor: Actor, watcher: asyncpg.Connection[Any]) -> None:
    while actor.pending is not None:
        await asyncio.wait([actor.pending], timeout=GLANCE_S)
        if actor.pending.done():
            actor.pending.result()
            actor.pending = None
        elif await watcher.fetchval("SELECT cardinality(pg_blocking_pids($1)) > 0", actor.pid):
            return


def orders_at_most(said: str | None) -> int | None:
    """None: all of them."""
    return USUAL_ORDERS if said is None else None if said == "all" else int(said)


def orders(steps_a: int, steps_b: int, at_most: int | None) -> Iterable[str]:
    """Every order in which the steps can come, where these are few. Else first those in which one runs whole between
    two steps of the other, then those in which each is interrupted once; of either an even choice."""
    if at_most is None:
        return _merges(steps_a, steps_b)
    every = list(itertools.islice(_merges(steps_a, steps_b), at_most + 1))
    if len(every) <= at_most:
        return every
    a, b = "a" * steps_a, "b" * steps_b
    whole = {a[:i] + b + a[i:] for i in range(1, steps_a)} | {b[:j] + a + b[j:] for j in range(1, steps_b)}
    parts = {
        order
        for i, j in itertools.product(range(1, steps_a), range(1, steps_b))
        for order in (a[:i] + b[:j] + a[i:] + b[j:], b[:j] + a[:i] + b[j:] + a[i:])
    }
    chosen = _some(whole, at_most)
    return chosen + _some(parts - whole, at_most - len(chosen))


def _some(found: set[str], count: int) -> list[str]:
    listed = sorted(found)
    return listed if len(listed) <= count else sorted(Random(len(listed)).sample(listed, count))


def _merges(a: int, b: int) -> Iterator[str]:
    if not a or not b:
        yield "a" * a + "b" * b
        return
    for rest in _merges(a - 1, b):
        yield "a" + rest
    for rest in _merges(a, b - 1):
        yield "b" + rest
