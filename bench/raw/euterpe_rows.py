"""Our own row by the bare driver, into our own table with its indexes: what submitting could reach at most.

The row is one that our submit made, every column of it; only the id (and a payload's number) is new each time.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from bench.peers.adapter import make_payload
from bench.raw.probe import Probe
from euterpe.backends.engines import connect, sqlite_path
from euterpe.model.submitting.submission import Submission
from euterpe.queue.definition.options import encode_payload
from euterpe.stores.sql.postgres.engine import PostgresEngine
from euterpe.stores.sql.sqlite.engine import connect as connect_apsw

ROWS_A_COMMIT = 1_000
SAMPLE = "SELECT * FROM inbox_jobs"
Row = tuple[Any, ...]


async def submit_sample(url: str) -> None:
    backend = connect(url)
    await backend.open()
    await backend.store.submit_many([Submission(type="noop", payload=encode_payload(make_payload(0))[0])])
    await backend.close()


def rows_like(sample: dict[str, Any], count: int) -> list[Row]:
    columns = list(sample)
    id_at, payload_at = columns.index("id"), columns.index("payload")
    rows = []
    for number in range(count):
        values = list(sample.values())
        fresh = uuid4()
        values[id_at] = str(fresh) if isinstance(values[id_at], str) else fresh
        values[payload_at] = encode_payload(make_payload(number))[0]
        rows.append(tuple(values))
    return rows


def insert_into(columns: Sequence[str], placeholders: Sequence[str]) -> str:
    return f"INSERT INTO inbox_jobs ({', '.join(columns)}) VALUES ({', '.join(placeholders)})"


async def on_postgres(url: str, count: int, rows_a_commit: int) -> float:
    """COPY for many rows a commit, INSERT for one."""
    await submit_sample(url)
    connection = await PostgresEngine(url).connect()
    try:
        record = await connection.fetchrow(SAMPLE)
        assert record is not None, "one job was submitted"
        sample = {name: value for name, value in record.items() if name != "seq"}  # The database makes it.
        rows = rows_like(sample, count)
        insert = insert_into(list(sample), [f"${number}" for number in range(1, len(sample) + 1)])
        start_s = time.monotonic()
        for first in range(0, count, rows_a_commit):
            if rows_a_commit == 1:
                await connection.execute(insert, *rows[first])
            else:
                batch = rows[first : first + rows_a_commit]
                await connection.copy_records_to_table("inbox_jobs", records=batch, columns=list(sample))
        return count / (time.monotonic() - start_s)
    finally:
        await connection.close()


async def on_sqlite(url: str, count: int, rows_a_commit: int) -> float:
    await submit_sample(url)
    connection = connect_apsw(sqlite_path(url))
    try:
        stored = [row[1] for row in connection.execute("PRAGMA table_info(inbox_jobs)")]  # None that is generated.
        columns = [name for name in stored if name != "seq"]
        (row,) = connection.execute(f"SELECT {', '.join(columns)} FROM inbox_jobs")
        sample = dict(zip(columns, row, strict=True))
        rows = rows_like(sample, count)
        insert = insert_into(list(sample), ["?"] * len(sample))
        start_s = time.monotonic()
        for first in range(0, count, rows_a_commit):
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(insert, rows[first : first + rows_a_commit])
            connection.execute("COMMIT")
        return count / (time.monotonic() - start_s)
    finally:
        connection.close()


async def postgres_one_by_one(url: str, count: int) -> float:
    return await on_postgres(url, count, rows_a_commit=1)


async def postgres_in_bulk(url: str, count: int) -> float:
    return await on_postgres(url, count, ROWS_A_COMMIT)


async def sqlite_one_by_one(url: str, count: int) -> float:
    return await on_sqlite(url, count, rows_a_commit=1)


async def sqlite_in_bulk(url: str, count: int) -> float:
    return await on_sqlite(url, count, ROWS_A_COMMIT)


PROBES = (
    Probe("asyncpg: INSERT of our row + commit, 1 client", "postgres", 2_000, postgres_one_by_one),
    Probe("asyncpg: COPY of our rows, 1000 a commit", "postgres", 50_000, postgres_in_bulk),
    Probe("apsw: INSERT of our row, 1 a commit", "sqlite", 3_000, sqlite_one_by_one),
    Probe("apsw: INSERT of our rows, 1000 a commit", "sqlite", 50_000, sqlite_in_bulk),
)
