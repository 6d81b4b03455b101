"""What the rows say, past the store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import asyncpg

from euterpe.stores.sql.store import SqlStore

TRUTH = """
SELECT k.name, k.running, k.in_line,
       (SELECT COUNT(*) FROM inbox_jobs AS j
        WHERE j.requester_id || chr(31) || j.concurrency_key = k.name AND j.state = 'running'),
       (SELECT COUNT(*) FROM euterpe_line AS r WHERE r.key = k.name)
FROM euterpe_keys AS k ORDER BY k.name
"""
PLACES = """
SELECT j.id FROM inbox_jobs AS j
LEFT JOIN euterpe_line AS r
  ON r.queue = j.queue AND r.type = j.type AND r.priority = j.priority AND r.seq <= j.seq AND r.seq + r.jobs > j.seq
LEFT JOIN euterpe_key_line AS l ON l.seq = j.seq AND l.priority = j.priority AND l.queue = j.queue AND l.type = j.type
WHERE j.state = 'scheduled' AND (r.seq IS NULL) = (l.seq IS NULL)
UNION ALL
SELECT j.id FROM euterpe_key_line AS l JOIN inbox_jobs AS j ON j.seq = l.seq WHERE j.state <> 'scheduled'
"""


@dataclass(frozen=True, slots=True)
class Watched:
    store: SqlStore
    connection: asyncpg.Connection[Any]

    async def run(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in await self.connection.fetch(sql, *values)]

    async def count(self, table: str) -> int:
        return int(await self.connection.fetchval(f"SELECT COUNT(*) FROM {table}"))

    async def wrong_counters(self) -> list[tuple[Any, ...]]:
        """Keys whose counters are not what the rows say: name, running, in the line; and both as counted."""
        return [row for row in await self.run(TRUTH) if row[1:3] != row[3:5]]

    async def wrong_places(self) -> list[str]:
        """Jobs that are ready and in no line or in two, and those in the line of a key that are not ready."""
        return [str(row[0]) for row in await self.run(PLACES)]
