"""The counters of keys: what they say is what the rows say, after every act; and a sweep mends them."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from euterpe.model.failures.failure import Category
from euterpe.model.submitting.changes import Changes
from euterpe.stores.sql.postgres.engine import PostgresEngine
from euterpe.stores.sql.submitting.submit import submit_joined
from tests.conformance.acts import MINUTE, SECOND, complete, fail, job, release, submit, take, take_one
from tests.conformance.clock import FrozenClock
from tests.faults.history import check
from tests.walks.watched import Watched

ACTS = 150
LIMITS = {"a": 1, "b": 2, "c": 5}


async def test_wrong_counters_are_counted_again_by_a_sweep(line: Watched) -> None:
    for _ in range(6):
        await submit(line.store, concurrency_key="k", concurrency_limit=3)
    running = await take(line.store, 2)
    await line.run("UPDATE euterpe_keys SET running = 70, in_line = 30, least = 1")
    await complete(line.store, running[0])
    assert await line.wrong_counters() != []
    await line.store.sweeps.recover()
    assert await line.wrong_counters() == []
    assert len(await take(line.store)) == 2


async def test_keys_that_nobody_uses_are_forgotten(line: Watched) -> None:
    for key in ("a", "b"):
        await submit(line.store, concurrency_key=key, concurrency_limit=1)
    await complete(line.store, await take_one(line.store))
    await line.store.sweeps.recover()
    assert await line.count("euterpe_keys") == 1
    await complete(line.store, await take_one(line.store))
    await line.store.sweeps.recover()
    assert await line.count("euterpe_keys") == 0


@pytest.mark.parametrize("seed", range(4))
async def test_after_every_act_counters_and_places_are_those_of_the_rows(
    line: Watched, clock: FrozenClock, recorded_postgres_url: str, seed: int
) -> None:
    rng = Random(seed)
    acts = _Acts(line, clock, rng)
    for number in range(ACTS):
        act = rng.choice(acts.all)
        await act()
        said = f"act {number} of seed {seed}: {act.__name__}"
        assert await line.wrong_counters() == [], said
        assert await line.wrong_places() == [], said
        over = "SELECT name FROM euterpe_keys WHERE in_line > 0 AND running + in_line > least"
        assert await line.run(over) == [], said
    history = check(recorded_postgres_url)
    assert len(history.jobs) > 20


class _Acts:
    def __init__(self, line: Watched, clock: FrozenClock, rng: Random) -> None:
        self._line, self._store, self._clock, self._rng = line, line.store, clock, rng
        self._running: list[Any] = []
        self._ids: list[str] = []
        self.all = [
            self.submit, self.submit, self.submit_many, self.take, self.take, self.complete, self.complete,
            self.fail, self.release, self.cancel, self.update, self.retry, self.sweep, self.pause, self.wait,
        ]  # fmt: skip

    def _said(self) -> dict[str, Any]:
        key = self._rng.choice("abc")
        limit = self._rng.choice([LIMITS[key], LIMITS[key], LIMITS[key] + 1])
        types = self._rng.choice(["x", "y"])
        return {"type": types, "concurrency_key": key, "concurrency_limit": limit, "priority": self._rng.randint(0, 4)}

    async def submit(self) -> None:
        self._ids.append(
            await submit(
                self._store,
                **self._said(),
                depends_on=tuple(self._rng.sample(self._ids, 1)) if self._ids and self._rng.random() < 0.2 else (),
            )
        )

    async def submit_many(self) -> None:
        found = await self._store.submit_many([job(**self._said()) for _ in range(5)])
        self._ids += [submitted.job_id for submitted in found]

    async def take(self) -> None:
        self._running += await take(
            self._store, self._rng.randint(1, 4), types=tuple(self._rng.sample("xy", self._rng.randint(1, 2)))
        )

    def _one(self) -> Any:
        return self._running.pop(self._rng.randrange(len(self._running))) if self._running else None

    async def complete(self) -> None:
        if (claim := self._one()) is not None:
            await complete(self._store, claim)

    async def fail(self) -> None:
        if (claim := self._one()) is not None:
            await fail(self._store, claim, self._rng.choice([Category.TEMPORARY, Category.PERMANENT]))

    async def release(self) -> None:
        if (claim := self._one()) is not None:
            await release(self._store, claim)

    async def _any_state(self, *states: str) -> str | None:
        rows = await self._line.run("SELECT id FROM inbox_jobs WHERE state = ANY ($1) ORDER BY seq", list(states))
        return str(self._rng.choice(rows)[0]) if rows else None

    async def cancel(self) -> None:
        if (job_id := await self._any_state("scheduled", "retrying", "pending", "delayed")) is not None:
            await self._store.cancel(job_id)

    async def update(self) -> None:
        if (job_id := await self._any_state("scheduled", "retrying")) is not None:
            await self._store.update(job_id, Changes(priority=self._rng.randint(0, 4)))

    async def retry(self) -> None:
        if (job_id := await self._any_state("failed")) is not None:
            await self._store.retry(job_id)

    async def sweep(self) -> None:
        await self._store.sweeps.urgent()

    async def pause(self) -> None:
        if ("type", "x") in await self._store.paused():
            await self._store.resume("type", "x")
        else:
            await self._store.pause("type", "x")

    async def wait(self) -> None:
        self._clock.advance(us=self._rng.choice([SECOND, 6 * SECOND, 2 * MINUTE]))
        self._running = [] if self._rng.random() < 0.2 else self._running
        await self._store.sweeps.urgent()


async def test_a_submit_in_a_callers_transaction_holds_no_key(line: Watched, recorded_postgres_url: str) -> None:
    """The caller may keep its transaction open for minutes."""
    first = await submit(line.store, concurrency_key="k", concurrency_limit=2)
    caller = PostgresEngine(recorded_postgres_url)
    connection = await caller.connect()
    async with connection.transaction():
        unit = _unit(job(concurrency_key="k", concurrency_limit=2))
        program = submit_joined(unit, "postgres")
        statement = next(program)
        answer = None
        while answer is None:
            try:
                statement = program.send(await caller.execute(connection, statement))
            except StopIteration as stop:
                answer = stop.value
        running = await take_one(line.store)
        assert running.job.id == first
        await complete(line.store, running)
    assert [claim.job.id for claim in await take(line.store)] == [answer[0].job_id], "the claim itself admits it"
    await connection.close()


def _unit(submission: Any) -> Any:
    from euterpe.model.submitting.batch import Draft, Unit, new_ids

    return Unit((Draft(new_ids(1)[0], submission),))
