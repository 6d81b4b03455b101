"""Workers over HTTP and the process that keeps their leases: it shows their tokens under the worker's own name."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from euterpe import Queue
from euterpe.model.state import State
from euterpe.queue.handle import JobHandle
from euterpe.queue.queue import core_of
from euterpe.server.http.limits import Limits
from euterpe.stores.remote.store import with_token
from tests.server.plane import Plane, running_plane
from tests.worker.floor import Floor, in_state, until

LEASE_S = 4
JOBS = 16


@pytest.fixture
async def plane(url: str) -> AsyncIterator[Plane]:
    async with running_plane(url, Limits(lease_ttl_us=LEASE_S * 1_000_000)) as running:
        yield running


@pytest.fixture
async def client(plane: Plane, url: str) -> AsyncIterator[Queue]:
    """At the database of the control plane."""
    async with Queue(url) as queue:
        yield queue


@pytest.fixture
async def floor(plane: Plane, tmp_path: Path) -> AsyncIterator[Floor]:
    floor = Floor(with_token(plane.base_url, await plane.key()), tmp_path)
    yield floor
    floor.dismiss()


class Lot:
    """Jobs that a worker with one slot has claimed: one has begun."""

    def __init__(self, client: Queue, jobs: list[JobHandle[Any]], begun: str) -> None:
        self.jobs = jobs
        self.begun = begun
        self._client = client

    async def leases(self) -> dict[str, int]:
        rows = [await core_of(self._client).get(job.id) for job in self.jobs]
        return {row.id: row.lease_expires_at or 0 for row in rows if row.state is State.RUNNING}


async def claimed(client: Queue, floor: Floor) -> Lot:
    jobs = await client.submit_many([("gated", {})] * JOBS)
    floor.start(concurrency=1, ahead=["gated"], lease=f"{LEASE_S}s")
    lot = Lot(client, jobs, (await floor.noted("begun"))["job"])

    async def all_are_claimed() -> bool:
        return len(await lot.leases()) == JOBS

    await until(all_are_claimed, "the worker claims all of them")
    return lot


async def test_a_keeper_renews_leases_and_nobody_else_runs_their_jobs(
    plane: Plane, client: Queue, floor: Floor
) -> None:
    lot = await claimed(client, floor)
    first = max((await lot.leases()).values())

    async def all_outlasted_their_first_lease() -> bool:
        assert await plane.store.sweeps.reclaim() == 0, "no lease runs out"
        now_us = await plane.store.now_us()
        leases = await lot.leases()
        return len(leases) == JOBS and first < now_us < min(leases.values())

    await until(all_outlasted_their_first_lease, "every lease is renewed, those of jobs that have not begun too")
    floor.open_gate()
    for job in lot.jobs:
        row = await in_state(client, job, State.COMPLETED)
        assert (row.attempt_count, row.claim_version, row.release_count) == (1, 1, 0)
        assert len(floor.journal("begun", job)) == 1, "nobody ran it twice"


async def test_the_keeper_of_a_killed_worker_gives_back_what_had_not_begun(
    plane: Plane, client: Queue, floor: Floor
) -> None:
    lot = await claimed(client, floor)
    floor.workers[0].kill()
    for job in lot.jobs:
        if job.id != lot.begun:
            row = await in_state(client, job, State.SCHEDULED)
            assert (row.attempt_count, row.release_count) == (0, 1), "what never began is not charged"
    row = await core_of(client).get(lot.begun)
    assert (row.state, row.attempt_count) == (State.RUNNING, 1), "what began is charged"
    floor.open_gate()
    await until(plane.store.sweeps.reclaim, "the lease of the dead worker runs out")
    floor.start(ahead=["gated"], lease=f"{LEASE_S}s")
    await until(plane.store.sweeps.promote, "it is due again")
    for job in lot.jobs:
        await in_state(client, job, State.COMPLETED)
        assert len(floor.journal("begun", job)) == (2 if job.id == lot.begun else 1)
