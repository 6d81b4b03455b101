"""Everybody at once, and at any moment somebody is killed: afterwards the history must hold to the last row."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable

from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.outcome import Success
from euterpe.model.state import TERMINAL
from euterpe.stores.sql.store import SqlStore
from tests.faults import actors
from tests.faults.crew import Actor, Crew, until
from tests.faults.history import check
from tests.faults.stores import opened

LEASE_US = 300_000
KILLS = 15
PARTS = 9


async def test_processes_are_killed_at_random_and_every_promise_still_holds(database: str, crew: Crew) -> None:
    rng = random.Random(20261115)
    playing = {seed: _start(crew, database, seed) for seed in range(PARTS)}
    await until(_some_work_is_done(crew, 100))
    for kill in range(KILLS):
        victim = rng.randrange(PARTS)
        before = _done(crew)
        playing[victim].kill()
        playing[victim] = _start(crew, database, victim, life=kill + 1)
        await until(_some_work_is_done(crew, before + rng.randint(1, 40)))
    for actor in playing.values():
        actor.order("stop")
    for actor in playing.values():
        actor.process.join(30)
        assert actor.process.exitcode == 0
    async with opened(database) as store:
        await until(lambda: _drained(store))
    history = check(database, crew)
    assert {job.state for job in history.jobs.values()} <= TERMINAL
    ends = Counter(str(job.state) for job in history.jobs.values())
    print(
        f"{KILLS} kills, {len(history.jobs)} jobs, {len(history.closed)} attempts, {len(history.events)} events: {ends}"
    )


def _start(crew: Crew, url: str, seed: int, life: int = 0) -> Actor:
    if seed < 2:
        return crew.start(actors.submitter, url, seed * 1000 + life)
    if seed == 2:
        return crew.start(actors.sweeper, url, 0.05)
    if seed == 3:
        return crew.start(actors.operator, url, life)
    return crew.start(actors.worker, url, LEASE_US, seed * 1000 + life)


def _done(crew: Crew) -> int:
    return len(crew.notes("settled"))


def _some_work_is_done(crew: Crew, count: int) -> Callable[[], Awaitable[bool]]:
    async def enough() -> bool:
        crew.check_alive()
        return _done(crew) >= count

    return enough


async def _drained(store: SqlStore) -> bool:
    """Sweep and run what is left until nothing lives any more."""
    await store.sweeps.urgent()
    claims = await store.claim(ClaimRequest(worker_id="drain:1", limit=500))
    await store.settle([Report(claim, Success()) for claim in claims])
    return not await store.depths()
