"""SQLite and Postgres under one frozen clock, driven from synchronous code: every act on both, every answer compared.

Job ids are made from a counter that starts anew for each engine, and event ids from what they tell of, so the two
databases must be equal byte for byte. Only the order of events of different jobs is nobody's promise.
"""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import apsw
import msgspec
import psycopg
import pytest

from euterpe.model.events.event import Event, event_of
from euterpe.model.events.outbox import OutboxEvent
from euterpe.model.job import JobRow
from euterpe.model.submitting import batch
from euterpe.stores.sql.engine import Engine
from euterpe.stores.sql.jobs import effects
from euterpe.stores.sql.postgres.engine import PostgresEngine, split_url
from euterpe.stores.sql.program import One, one
from euterpe.stores.sql.sqlite.engine import SqliteEngine
from euterpe.stores.sql.store import SqlStore
from tests.conformance.clock import START_US, FrozenClock
from tests.line.at_rest import BROKEN

Rows = list[tuple[Any, ...]]

TABLES = {
    "inbox_jobs": "seq",
    "euterpe_ended_attempts": "job_id, claim_version",
    "job_dependencies": "job_id, depends_on",
    "job_outbox_events": "job_id, sequence",
    "euterpe_outbox_deliveries": "event_id, claim_version",
    "idempotency_keys": "scope, key",
    "euterpe_tombstones": "job_id",
}
OF_THE_LINE = ("euterpe_line", "euterpe_running", "euterpe_keys", "euterpe_key_line", "euterpe_entered_keys")
"""Only Postgres has them: what they say must agree with its own rows (`tests/line/at_rest.py`)."""
VIEWS = {"job_attempts": "job_id, claim_version"}


class Bridge:
    """An event loop in a thread of its own: `bridge(coroutine)` waits for the answer."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="bridge", daemon=True)
        self._thread.start()

    def __call__(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(60)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Ids:
    """Version 4 UUIDs out of a counter, the same for both engines."""

    def __init__(self) -> None:
        self.number = 0

    def many(self, count: int) -> list[str]:
        return [self.one() for _ in range(count)]

    def one(self) -> str:
        self.number += 1
        return str(uuid.UUID(int=(self.number * 0x9E3779B97F4A7C15F39CC0605CEDC835) % 2**128, version=4))


class Lockstep:
    def __init__(self, folder: Path, postgres_url: str) -> None:
        self.clock = FrozenClock()
        self.ids = Ids()
        self._bridge = Bridge()
        path = str(folder / "lockstep.db")
        engines: list[Engine] = [SqliteEngine(path, self.clock), PostgresEngine(postgres_url, self.clock)]
        self.stores = [SqlStore(engine, rng=Random(7)) for engine in engines]
        for store in self.stores:
            self._bridge(store.engine.migrate())
            self._bridge(store.open())
        self._sqlite = apsw.Connection(path)
        self._sqlite.set_busy_timeout(10_000)
        dsn, options = split_url(postgres_url)
        self._postgres = psycopg.connect(dsn, autocommit=True, options=f"-c search_path={options['schema']}")

    def close(self) -> None:
        self._sqlite.close()
        self._postgres.close()
        for store in self.stores:
            self._bridge(store.close())
        self._bridge.close()

    def start_over(self) -> None:
        """Empty tables, the first instant, the first id."""
        for table in (*TABLES, "euterpe_key_fronts"):
            self._sqlite.execute(f"DELETE FROM {table}")
        self._postgres.execute(";".join(f"DELETE FROM {table}" for table in (*TABLES, *OF_THE_LINE)))
        self._postgres.execute("VACUUM inbox_jobs, euterpe_line")
        self.clock.now_us = START_US
        self.ids.number = 0

    def act(self, act: Callable[[SqlStore], Awaitable[Any]]) -> Any:
        """Do it to both; equal answers are answered, equal refusals raised, anything else is a failure."""
        start = self.ids.number
        answers = []
        used = set()
        for store in self.stores:
            self.ids.number = start
            answers.append(self._attempt(act, store))
            used.add(self.ids.number)
        first, second = answers
        assert repr(_plain(first)) == repr(_plain(second)), f"sqlite: {first!r}\npostgres: {second!r}"
        assert len(used) == 1, "the engines made different numbers of ids"
        if isinstance(first, Exception):
            raise first
        return first

    def _attempt(self, act: Callable[[SqlStore], Awaitable[Any]], store: SqlStore) -> Any:
        async def run() -> Any:
            return await act(store)

        try:
            return self._bridge(run())
        except Exception as error:  # noqa: BLE001  # whatever it is, the other engine must say the same
            return error

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """Every row of the SQLite database, after a check that Postgres has just the same ones."""
        found = {}
        for table, order in (TABLES | VIEWS).items():
            sqlite, postgres = self._sqlite_rows(table, order), self._postgres_rows(table, order)
            assert sqlite == postgres, f"{table} differs:\n{_difference(sqlite, postgres)}"
            found[table] = sqlite
        return found

    def check_line(self) -> None:
        """What Postgres has in its line, in the lines of keys and in their counters agrees with its rows."""
        broken = self._postgres.execute(BROKEN.encode()).fetchall()
        assert not broken, broken

    def _sqlite_rows(self, table: str, order: str) -> list[dict[str, Any]]:
        cursor = self._sqlite.cursor()
        rows = cursor.execute(f"SELECT * FROM {table} ORDER BY {order}")
        names: list[str] = []
        found = []
        for row in rows:
            names = names or [column[0] for column in cursor.getdescription()]
            found.append(dict(zip(names, row, strict=True)))
        return [_comparable(row) for row in found]

    def _postgres_rows(self, table: str, order: str) -> list[dict[str, Any]]:
        with self._postgres.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {table} ORDER BY {order}".encode())
            names = [column.name for column in cursor.description or ()]
            return [_comparable(dict(zip(names, row, strict=True))) for row in cursor]


@contextmanager
def counted_ids(lockstep: Lockstep) -> Iterator[None]:
    """Job ids out of the counter and event ids out of job and sequence, instead of the system's randomness."""

    def known_id(job_id: str, sequence: int) -> str:
        return str(uuid.uuid5(uuid.UUID(job_id), str(sequence)))

    def known_event_of(job: JobRow, _random_id: str) -> Event:
        return event_of(job, known_id(job.id, job.transitions))

    def one_with_known_ids(name: str, /, **arguments: Any) -> One:
        """Four events or more that differ in ids alone go into the table by a statement of their own."""
        if name == "insert_uniform_events":
            known = [known_id(job_id, arguments["sequence"]) for job_id in arguments["job_ids"].split(",")]
            arguments["ids"] = ",".join(known)
        return one(name, **arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch, "new_ids", lockstep.ids.many)
        patch.setattr(effects, "event_of", known_event_of)
        patch.setattr(effects, "one", one_with_known_ids)
        yield


def _comparable(row: dict[str, Any]) -> dict[str, Any]:
    """The same value whatever the driver; `seq` has gaps of its own, so only the order it gives counts. What stands in
    a list or a key's line is told by a column of its own on each engine."""
    for own in ("seq", "listed", "line"):
        row.pop(own, None)
    for name, value in row.items():
        if isinstance(value, uuid.UUID):
            row[name] = str(value)
        elif isinstance(value, memoryview):
            row[name] = bytes(value)
        elif name == "has_dependents":
            row[name] = bool(value)
    return row


def _plain(answer: Any) -> Any:
    """Without what may differ: the place in the table."""
    if isinstance(answer, JobRow):
        return msgspec.structs.replace(answer, seq=0)
    if isinstance(answer, list):
        plain = [_plain(item) for item in answer]
        return sorted(plain, key=lambda event: event.id) if plain and isinstance(plain[0], OutboxEvent) else plain
    if isinstance(answer, set):
        return sorted(answer)
    if isinstance(answer, msgspec.Struct) and hasattr(answer, "job"):
        return msgspec.structs.replace(answer, job=_plain(answer.job))
    return answer


def _difference(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> str:
    if len(one) != len(other):
        return f"{len(one)} rows in sqlite, {len(other)} in postgres"
    lines = []
    for left, right in zip(one, other, strict=True):
        lines += [f"{name}: {left[name]!r} != {right.get(name)!r}" for name in left if left[name] != right.get(name)]
    return "\n".join(lines)
