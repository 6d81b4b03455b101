"""What our own targets ask beyond what peers are compared by: more workers, callbacks, chains, keys, snapshots.

They are the drains of `scenarios.py` with other jobs, or in other circumstances; the same clock is read.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from functools import partial

import asyncpg

from bench.harness.catalogue import Subject
from bench.harness.scenarios import WARM_UP_JOBS, Figures, Scenario, Sizes, drain, submitting
from bench.harness.statistics import percentile
from bench.harness.stores import Stores
from euterpe.stores.sql.postgres.engine import split_url
from tests.plans.history import add_history

SUBMITTERS = 64
CROWD_FACTOR = 3
"""Eight workers and their keepers take seconds of two cores to come up; more jobs make that small again."""
LONG_JOBS = 360_000
SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ"


def is_ours(subject: Subject) -> bool:
    return subject.adapter == "bench.peers.euterpe"


def ours_on(*stores: str) -> Callable[[Subject], bool]:
    return lambda subject: is_ours(subject) and subject.store in stores


async def submit_64(subject: Subject, stores: Stores, sizes: Sizes) -> Figures:
    """64 tasks of one process, each awaiting its own submits one after the other."""
    jobs = SUBMITTERS * max(1, sizes.count(10 * subject.single_jobs) // SUBMITTERS)
    async with submitting(subject, stores) as (_, client):
        await client.call("submit_at_once", jobs=SUBMITTERS, submitters=SUBMITTERS)
        answer = await client.call("submit_at_once", jobs=jobs, submitters=SUBMITTERS)
    return {"submit_64": jobs / answer["seconds"]}


async def drain_x4(subject: Subject, stores: Stores, sizes: Sizes) -> Figures:
    return {"drain_x4": (await drain(subject, stores, sizes.count(subject.drain_jobs), processes=4)).rate}


async def drain_x8(subject: Subject, stores: Stores, sizes: Sizes) -> Figures:
    jobs = sizes.count(CROWD_FACTOR * subject.drain_jobs)
    return {"drain_x8": (await drain(subject, stores, jobs, processes=8)).rate}


async def drain_middle(subject: Subject, stores: Stores, sizes: Sizes) -> Figures:
    """Two workers and eight in the middle half of a drain, when all of them have long been up."""
    jobs = sizes.count(CROWD_FACTOR * subject.drain_jobs)
    two = (await drain(subject, stores, jobs, processes=2)).progress.rate(0.25, 0.75)
    eight = (await drain(subject, stores, jobs, processes=8)).progress.rate(0.25, 0.75)
    return told({"drain_x2_middle": two, "drain_x8_middle": eight})


async def drain_long(subject: Subject, stores: Stores, sizes: Sizes) -> Figures:
    """So many jobs that whatever a drain leaves behind would slow it down: how fast it begins and how fast it ends."""
    progress = (await drain(subject, stores, sizes.count(LONG_JOBS))).progress
    return told({"drain_begin": progress.rate(0.02, 0.2), "drain_end": progress.rate(0.8, 0.98)})


def told(figures: Mapping[str, float | None]) -> Figures:
    return {name: value for name, value in figures.items() if value is not None}


async def drain_callbacks(subject: Subject, stores: Stores, sizes: Sizes) -> Figures:
    """One event is stored for each job; nobody delivers them meanwhile."""
    return {"drain_callbacks": await drain_shaped(subject, stores, sizes, "callbacks")}


async def drain_chains(subject: Subject, stores: Stores, sizes: Sizes) -> Figures:
    """Each job but the first of ten waits for the one before it."""
    return {"drain_chains": await drain_shaped(subject, stores, sizes, "chains")}


async def drain_keys(subject: Subject, stores: Stores, sizes: Sizes) -> Figures:
    """Each job has a concurrency key, as jobs of tenants have; the limits are seldom met."""
    return {"drain_keys": await drain_shaped(subject, stores, sizes, "keys")}


async def drain_shaped(subject: Subject, stores: Stores, sizes: Sizes, shape: str) -> float:
    shaped = replace(subject, settings={**subject.settings, "shape": shape})
    return (await drain(shaped, stores, sizes.count(subject.drain_jobs))).rate


async def connect_beside(url: str) -> asyncpg.Connection[asyncpg.Record]:
    """Not by our engine: its connections end a transaction that idles, and a snapshot must be held."""
    dsn, options = split_url(url)
    return await asyncpg.connect(dsn, server_settings={"search_path": options.get("schema", "public")})


@contextlib.asynccontextmanager
async def beside_history(count: int, url: str) -> AsyncIterator[None]:
    """Finished jobs as a long life leaves them: counted, vacuumed and on the disk, as autovacuum and time had done."""
    await add_history(url, count, time.time_ns() // 1000)
    if url.startswith("postgres"):
        connection = await connect_beside(url)
        try:
            await connection.execute("VACUUM (ANALYZE) inbox_jobs, euterpe_ended_attempts")
            await connection.execute("CHECKPOINT")
        finally:
            await connection.close()
    os.sync()
    yield


async def drain_history(subject: Subject, stores: Stores, sizes: Sizes) -> Figures:
    circumstance = partial(beside_history, sizes.history_jobs)
    drained = await drain(subject, stores, sizes.count(subject.drain_jobs), circumstance=circumstance)
    return {"drain_history": drained.rate}


@contextlib.asynccontextmanager
async def under_snapshot(url: str) -> AsyncIterator[None]:
    """Somebody's report runs all the while, so that no row version that it may see can be vacuumed away."""
    connection = await connect_beside(url)
    try:
        await connection.execute(SNAPSHOT)
        seen = await connection.fetchval("SELECT count(*) FROM inbox_jobs")
        yield
        # It must have been one and the same snapshot to the end, or nothing was measured.
        assert await connection.fetchval("SELECT count(*) FROM inbox_jobs") == seen
    finally:
        await connection.close()


async def drain_snapshot(subject: Subject, stores: Stores, sizes: Sizes) -> Figures:
    drained = await drain(subject, stores, sizes.count(subject.drain_jobs), circumstance=under_snapshot)
    return {"drain_snapshot": drained.rate}


async def latency_local(subject: Subject, stores: Stores, sizes: Sizes) -> Figures:
    """From just before the submit call to the handler's first line, both in one process."""
    async with submitting(subject, stores) as (_, client):
        answer = await client.call(
            "latency_local",
            warm_up=WARM_UP_JOBS,
            per_second=sizes.latency_per_second,
            jobs=round(sizes.latency_per_second * sizes.latency_s),
        )
    seen_ms = [value_us / 1000 for value_us in answer["latencies_us"]]
    return {"latency_local_p50": percentile(seen_ms, 50), "latency_local_p99": percentile(seen_ms, 99)}


OWN_SCENARIOS = (
    Scenario("submit-64", submit_64, ours_on("postgres", "sqlite")),
    Scenario("drain-x4", drain_x4, ours_on("postgres", "sqlite")),
    Scenario("drain-x8", drain_x8, ours_on("postgres")),
    Scenario("drain-middle", drain_middle, ours_on("postgres")),
    Scenario("drain-long", drain_long, ours_on("postgres")),
    Scenario("drain-callbacks", drain_callbacks, ours_on("postgres", "sqlite")),
    Scenario("drain-chains", drain_chains, ours_on("postgres", "sqlite")),
    Scenario("drain-keys", drain_keys, ours_on("postgres", "sqlite")),
    Scenario("drain-history", drain_history, ours_on("postgres", "sqlite")),
    Scenario("drain-snapshot", drain_snapshot, ours_on("postgres")),
    Scenario("latency-local", latency_local, ours_on("postgres", "sqlite")),
)
