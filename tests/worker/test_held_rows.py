"""Somebody holds the row of a running job (an operator's open transaction): its neighbours do not notice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from euterpe import Context, Queue
from euterpe.model.state import State
from euterpe.stores.sql.postgres.engine import split_url
from tests.worker.floor import in_state, until
from tests.worker.inline import working

LEASE_S = 4
"""A third of it is the time between two heartbeats."""


@pytest.fixture
def url(fresh_postgres_url: str) -> str:
    """Only Postgres has row locks."""
    return fresh_postgres_url


@pytest.fixture
async def queue(url: str) -> AsyncIterator[Queue]:
    async with Queue(url) as opened:
        yield opened


@pytest.fixture
def holder(url: str, queue: Queue) -> Iterator[psycopg.Connection[Any]]:
    dsn, options = split_url(url)
    with psycopg.connect(dsn, options=f"-c search_path={options['schema']}") as connection:
        yield connection


async def test_a_worker_settles_and_renews_the_neighbours_of_a_held_row_and_that_one_when_it_is_let_go(
    queue: Queue, holder: psycopg.Connection[Any]
) -> None:
    gates = {name: asyncio.Event() for name in ("held", "ends", "lasts")}

    @queue.job("gated")
    async def gated(ctx: Context, gate: str) -> int:
        await gates[gate].wait()
        return ctx.attempt

    async with working(queue, lease=f"{LEASE_S}s", concurrency=10):
        held, *ending = [await gated.submit(gate="held"), *[await gated.submit(gate="ends") for _ in range(3)]]
        lasting = await gated.submit(gate="lasts")
        for job in (held, *ending, lasting):
            await in_state(queue, job, State.RUNNING)
        holder.execute("SELECT 1 FROM inbox_jobs WHERE id = %s FOR UPDATE", [held.id])
        taken_until = (await queue.get(lasting.id)).lease_expires_at

        gates["held"].set()
        gates["ends"].set()
        assert [await job.result("20s") for job in ending] == [1, 1, 1]

        async def renewed_past_a_whole_lease() -> bool:
            expires_at = (await queue.get(lasting.id)).lease_expires_at
            assert expires_at is not None
            assert taken_until is not None
            return expires_at > taken_until + timedelta(seconds=LEASE_S)

        await until(renewed_past_a_whole_lease, "the lease of the neighbour that runs on is renewed")
        assert (await queue.get(held.id)).state is State.RUNNING

        fresh = await gated.submit(gate="ends")
        assert await fresh.result("20s") == 1, "the worker takes new jobs meanwhile"

        holder.rollback()
        assert await held.result("20s") == 1
        gates["lasts"].set()
        assert await lasting.result("20s") == 1
    for job in (held, lasting, *ending):
        assert [attempt.outcome for attempt in await queue.attempts(job.id)] == ["completed"]
