"""A time in which no process can write for longer than a lease costs no living worker a job, however many sweep."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from euterpe.model.state import State
from euterpe.queue.handle import JobHandle
from euterpe.queue.queue import Queue, core_of
from tests.faults.stores import sqlite_path
from tests.servers import PostgresServer
from tests.worker.floor import Floor, in_state, until

LEASE_S = 4.0
WORKERS = 8
JOBS = 40


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A Postgres of this file's own, to be stopped and started."""
    with PostgresServer() as server:
        yield server


async def busy_workers(client: Queue, floor: Floor, workers: int = WORKERS) -> list[JobHandle[Any]]:
    """Start the workers and give each its share of jobs that wait for the gate."""
    started = [floor.start(lease=f"{LEASE_S}s", concurrency=JOBS // workers) for _ in range(workers)]
    for worker in started:
        await worker.working()
    jobs = [await client.submit("gated") for _ in range(JOBS)]
    await floor.noted("begun", count=JOBS)
    return jobs


async def past(moment: float) -> None:
    await until(lambda: time.monotonic() > moment, "the outage lasts for two leases")


async def kept(client: Queue, floor: Floor, jobs: list[JobHandle[Any]], since_us: int) -> None:
    """Every lease is renewed after the outage; then the jobs end in their first attempts."""

    async def renewed() -> bool:
        rows = [await core_of(client).get(job.id) for job in jobs]
        assert {(row.state, row.attempt_count) for row in rows} == {(State.RUNNING, 1)}, "a living worker lost a job"
        return all((row.heartbeat_at or 0) > since_us for row in rows)

    await until(renewed, "every lease is renewed again")
    # Every worker has looked for lost jobs since: they do so every three seconds.
    await past(time.monotonic() + LEASE_S)
    floor.open_gate()
    for job in jobs:
        assert (await in_state(client, job, State.COMPLETED)).attempt_count == 1
    assert len(floor.journal("begun")) == JOBS


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_sqlite_write_lock_past_the_lease_costs_no_living_worker_a_job(
    url: str, client: Queue, floor: Floor
) -> None:
    jobs = await busy_workers(client, floor)
    holder = sqlite3.connect(sqlite_path(url), isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    await past(time.monotonic() + 2 * LEASE_S)
    freed_us = time.time_ns() // 1000
    holder.execute("COMMIT")
    holder.close()
    await kept(client, floor, jobs, freed_us)


async def test_postgres_outage_of_two_leases_costs_eight_living_workers_no_job(
    server: PostgresServer, tmp_path: Path
) -> None:
    floor = Floor(server.url, tmp_path)
    try:
        async with Queue(server.url) as client:
            jobs = await busy_workers(client, floor)
        await asyncio.to_thread(server.stop, immediate=True)
        await past(time.monotonic() + 2 * LEASE_S)
        await asyncio.to_thread(server.start)
        back_us = time.time_ns() // 1000
        async with Queue(server.url) as client:
            await kept(client, floor, jobs, back_us)
    finally:
        floor.dismiss()
