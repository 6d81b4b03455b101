"""Postgres connections between two uses: which one is taken, what is not used again, and closing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from euterpe.stores.sql.postgres.connections import Connection, Connections
from euterpe.stores.sql.postgres.engine import split_url


@pytest.fixture
async def connections(postgres_url: str) -> AsyncIterator[Connections]:
    async def connect() -> Connection:
        return await asyncpg.connect(split_url(postgres_url)[0])

    async def look_at(connection: Connection) -> None:
        assert not connection.is_closed()

    connections = Connections(connect, 3, look_at)
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
    async with asyncio.timeout(30):
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


async def test_one_whose_user_was_cut_off_is_rolled_back_before_it_is_used_again(connections: Connections) -> None:
    cut_off = await connections.acquire()
    pid = cut_off.get_server_pid()
    beginning = asyncio.create_task(cut_off.execute("BEGIN"))
    await asyncio.sleep(0)
    beginning.cancel()
    await asyncio.wait({beginning})
    connections.recover(cut_off)
    taken = [await connections.acquire() for _ in range(3)]
    assert pid in {connection.get_server_pid() for connection in taken}
    assert not any(connection.is_in_transaction() for connection in taken)


async def test_one_whose_statement_does_not_end_is_closed(
    connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("euterpe.stores.sql.postgres.connections.RECOVERY_S", 0.05)
    stuck = await connections.acquire()
    pid = stuck.get_server_pid()
    sleeping = asyncio.create_task(stuck.execute("SELECT pg_sleep(60)"))
    await asyncio.sleep(0)
    connections.recover(stuck)
    taken = [await connections.acquire() for _ in range(3)]
    assert pid not in {connection.get_server_pid() for connection in taken}
    with pytest.raises(asyncpg.PostgresConnectionError):
        await sleeping


async def test_one_that_opens_too_late_for_its_caller_is_there_for_the_next(connections: Connections) -> None:
    for _ in range(10):
        waiting = asyncio.create_task(connections.acquire())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait({waiting})
        if not waiting.cancelled():
            connections.release(waiting.result())  # one was at hand already
    taken = [await connections.acquire() for _ in range(3)]
    assert {await connection.fetchval("SELECT 1") for connection in taken} == {1}
