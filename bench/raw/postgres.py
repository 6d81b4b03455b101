"""What bare asyncpg reaches on a plain table, 100 bytes of payload: INSERTs with commit, and COPY."""

from __future__ import annotations

import asyncio
import json
import time

import asyncpg

from bench.peers.adapter import make_payload
from bench.raw.probe import Probe

TABLE = "CREATE TABLE raw (id bigint PRIMARY KEY, queue text, state text, payload text, created_us bigint)"
INSERT = "INSERT INTO raw VALUES ($1, $2, $3, $4, $5)"
COLUMNS = ("id", "queue", "state", "payload", "created_us")
COPY_ROWS = 1_000
Row = tuple[int, str, str, str, int]


def rows(first: int, count: int) -> list[Row]:
    numbers = range(first, first + count)
    return [(number, "default", "scheduled", json.dumps(make_payload(number)), number) for number in numbers]


async def insert_rows(connection: asyncpg.Connection[asyncpg.Record], batch: list[Row]) -> None:
    for row in batch:
        await connection.execute(INSERT, *row)


async def inserts_per_s(url: str, count: int, clients: int) -> float:
    connections = [await asyncpg.connect(url) for _ in range(clients)]
    try:
        await connections[0].execute(TABLE)
        each = count // clients
        batches = [rows(number * each, each) for number in range(clients)]
        start_s = time.monotonic()
        await asyncio.gather(*map(insert_rows, connections, batches))
        return each * clients / (time.monotonic() - start_s)
    finally:
        for connection in connections:
            await connection.close()


async def insert_by_one(url: str, count: int) -> float:
    return await inserts_per_s(url, count, clients=1)


async def insert_by_many(url: str, count: int) -> float:
    return await inserts_per_s(url, count, clients=32)


async def copy(url: str, count: int) -> float:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(TABLE)
        batches = [rows(first, COPY_ROWS) for first in range(0, max(count, COPY_ROWS), COPY_ROWS)]
        start_s = time.monotonic()
        for batch in batches:
            await connection.copy_records_to_table("raw", records=batch, columns=COLUMNS)
        return len(batches) * COPY_ROWS / (time.monotonic() - start_s)
    finally:
        await connection.close()


PROBES = (
    Probe("asyncpg: INSERT + commit, 1 client", "postgres", 3_000, insert_by_one),
    Probe("asyncpg: INSERT + commit, 32 clients", "postgres", 16_000, insert_by_many),
    Probe("asyncpg: COPY, 1000 rows a commit", "postgres", 100_000, copy),
)
