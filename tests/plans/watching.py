"""Engines that remember the statements they ran, with every kind of values they ran them with, and can explain them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import asyncpg
import msgspec
import psycopg

from euterpe.stores.sql.postgres.engine import PostgresEngine
from euterpe.stores.sql.program import Each, Row, Statement
from euterpe.stores.sql.statements import numbered

TABLES = frozenset(
    {
        "inbox_jobs",
        "euterpe_ended_attempts",
        "job_dependencies",
        "job_outbox_events",
        "euterpe_outbox_deliveries",
        "idempotency_keys",
        "euterpe_tombstones",
        "euterpe_line",
        "euterpe_key_line",
    }
)


class Reach(msgspec.Struct, frozen=True):
    """How a plan gets at one of our tables."""

    table: str
    by: str
    """The index; empty for the whole table."""
    discarded: int
    """Rows it read and threw away, in all its loops; 0 where the plan was not run."""


class Run(msgspec.Struct, frozen=True):
    """A statement as it ran once."""

    sql: str
    bound: list[Any]
    values: dict[str, Any]


def shape_of(values: dict[str, Any]) -> tuple[object, ...]:
    """What may give a statement another plan: which values are missing, none, one or many, which state, how many."""
    return tuple(_shape(name, value) for name, value in sorted(values.items()))


def _shape(name: str, value: object) -> object:
    if isinstance(value, (list, tuple)):
        return str(value) if name == "states" else min(len(value), 2)
    if name in ("state", "limit"):
        return value
    return (value is None, isinstance(value, int) and value >= 2**62)


class WatchingPostgres(PostgresEngine):
    """One connection, so that every statement is prepared once and then run again and again."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.pool_size = 1
        self.seen: dict[str, dict[tuple[object, ...], Run]] = {}

    async def execute(self, connection: Any, statement: Statement, timeout_s: float | None = None) -> list[Row]:
        text = numbered("postgres", statement.name, self.schema, "$")
        values: Any = statement.columns if isinstance(statement, Each) else statement.params
        if isinstance(statement, Each) and not text.batched:
            values = {name: column[0] for name, column in statement.columns.items()}
        sql, *bound = self._bind(text, values)
        self.seen.setdefault(statement.name, {})[shape_of(dict(values))] = Run(sql, bound, dict(values))
        return await super().execute(connection, statement, timeout_s)


async def explain(connection: asyncpg.Connection[Any], sql: str, bound: list[Any]) -> list[Reach]:
    """The plan for these values, run and rolled back, so that it shows what it read in vain. An insert is only
    planned: what it inserted is there already."""
    return list(_reaches((await _plan(connection, sql, bound, run=not inserts(sql)))["Plan"]))


async def pages_read(connection: asyncpg.Connection[Any], sql: str, bound: list[Any]) -> int:
    """Pages of the database that a statement looks at, run and rolled back."""
    plan = (await _plan(connection, sql, bound, run=True))["Plan"]
    return int(plan["Shared Hit Blocks"]) + int(plan["Shared Read Blocks"])


def inserts(sql: str) -> bool:
    """Whether it stores jobs: those are there already, and it cannot be run again."""
    return sql.startswith("INSERT") or re.search(r"INSERT INTO \S*\binbox_jobs\b", sql) is not None


async def _plan(connection: asyncpg.Connection[Any], sql: str, bound: list[Any], *, run: bool) -> dict[str, Any]:
    transaction = connection.transaction()
    await transaction.start()
    try:
        found = await connection.fetchval(f"EXPLAIN ({'ANALYZE, BUFFERS, ' if run else ''}FORMAT JSON) {sql}", *bound)
    finally:
        await transaction.rollback()
    plan: dict[str, Any] = json.loads(found)[0]
    return plan


def explain_generic(connection: psycopg.Connection[Any], sql: str) -> list[Reach]:
    """The plan for any values: what the server turns to after five executions, if it is no dearer."""
    found = connection.execute(f"EXPLAIN (GENERIC_PLAN, FORMAT JSON) {sql}".encode()).fetchone()
    assert found is not None
    return list(_reaches(found[0][0]["Plan"]))


def _reaches(node: dict[str, Any], bitmap_table: str = "") -> Iterator[Reach]:
    kind = node["Node Type"]
    table = node.get("Relation Name", "")
    loops = int(node.get("Actual Loops", 0))
    discarded = int(node.get("Rows Removed by Filter", 0)) * loops
    if kind == "Seq Scan" and table in TABLES:
        yield Reach(table, "", discarded)
    elif kind in ("Index Scan", "Index Only Scan") and table in TABLES:
        yield Reach(table, node["Index Name"], discarded)
    elif kind == "Bitmap Index Scan" and bitmap_table in TABLES:
        yield Reach(bitmap_table, node["Index Name"], 0)
    for child in node.get("Plans", ()):
        yield from _reaches(child, table or bitmap_table)
