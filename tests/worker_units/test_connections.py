"""Postgres connections between two uses: which one is taken, what is not used again, and closing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from euterpe.store.connections import Connections
from euterpe.store.postgres import split_url


@pytest.fixture
async def connections(postgres_url: str) -> AsyncIterator[Connections]:
    pool = await asyncpg.create_pool(split_url(postgres_url)[0], min_size=0, max_size=3)
    connections = Connections(pool, 3)
    yield connections
    connections.terminate()


async def pid_of(connections: Connections) -> int:
    connection = await connections.acquire()
    try:
        return int(connection.get_server_pid())
    finally:
        connections.release(connection)


async def test_the_oldest_is_taken_first(connections: Connections) -> None:
    first, second = await connections.acquire(), await connections.acquire()
    oldest = first.get_server_pid()
    connections.release(first)
    connections.release(second)
    assert [await pid_of(connections) for _ in range(3)] == [oldest] * 3


async def test_closing_waits_for_those_in_use(connections: Connections) -> None:
    in_use = await connections.acquire()
    closing = asyncio.create_task(connections.close())
    done, _ = await asyncio.wait({closing}, timeout=0.05)
    assert not done
    assert await in_use.fetchval("SELECT 1") == 1
    connections.release(in_use)
    async with asyncio.timeout(4):
        await closing


async def test_one_that_was_left_inside_a_transaction_is_not_used_again(connections: Connections) -> None:
    left = await connections.acquire()
    pid = left.get_server_pid()
    await left.execute("BEGIN")
    connections.release(left)
    assert await pid_of(connections) != pid


async def test_one_that_broke_makes_room_for_another(connections: Connections) -> None:
    for _ in range(5):
        broken = await connections.acquire()
        broken.terminate()
        connections.release(broken)
    taken = [await connections.acquire() for _ in range(3)]
    assert {await connection.fetchval("SELECT 1") for connection in taken} == {1}
