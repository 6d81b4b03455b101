"""What bare apsw reaches in WAL mode at synchronous=FULL, on a plain table with a payload of 100 bytes."""

from __future__ import annotations

import json
import time

import apsw

from bench.peers.adapter import make_payload
from bench.raw.probe import Probe

TABLE = "CREATE TABLE raw (id INTEGER PRIMARY KEY, queue TEXT, state TEXT, payload TEXT, created_us INTEGER)"
INSERT = "INSERT INTO raw VALUES (?, ?, ?, ?, ?)"


def connect(url: str) -> apsw.Connection:
    connection = apsw.Connection(url.removeprefix("sqlite://"))
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(TABLE)
    return connection


async def inserts_per_s(url: str, count: int, rows_a_commit: int) -> float:
    connection = connect(url)
    try:
        payloads = [json.dumps(make_payload(number)) for number in range(count)]
        rows = [(number, "default", "scheduled", payload, number) for number, payload in enumerate(payloads)]
        start_s = time.monotonic()
        for first in range(0, count, rows_a_commit):
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(INSERT, rows[first : first + rows_a_commit])
            connection.execute("COMMIT")
        return count / (time.monotonic() - start_s)
    finally:
        connection.close()


async def insert_one_a_commit(url: str, count: int) -> float:
    return await inserts_per_s(url, count, rows_a_commit=1)


async def insert_in_batches(url: str, count: int) -> float:
    return await inserts_per_s(url, count, rows_a_commit=1000)


PROBES = (
    Probe("apsw: INSERT, 1 row a commit", "sqlite", 5_000, insert_one_a_commit),
    Probe("apsw: INSERT, 1000 rows a commit", "sqlite", 100_000, insert_in_batches),
)
