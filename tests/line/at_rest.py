"""What the tables must say when no transaction is open. Each rule is a SELECT of what breaks it.

The row of `inbox_jobs` is the truth; the line, the lines of keys, their counters and `euterpe_running` must agree with
it.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

import asyncpg

KEY: Final = "requester_id || chr(31) || concurrency_key"
RUNS_OF: Final = """(SELECT COUNT(*) FROM euterpe_line AS r
    WHERE r.queue = j.queue AND r.type = j.type AND r.priority = j.priority
    AND j.seq BETWEEN r.seq AND r.seq + r.jobs - 1 AND r.key IS NOT DISTINCT FROM j.key)"""
OWN_LINE: Final = (
    "(SELECT COUNT(*) FROM euterpe_key_line AS l WHERE l.key = j.key AND l.priority = j.priority AND l.seq = j.seq)"
)
JOBS: Final = f"(SELECT *, {KEY} AS key FROM inbox_jobs) AS j"

LISTS_LIE: Final = """
    SELECT j.seq, j.state, j.listed FROM inbox_jobs AS j
    WHERE j.listed IS DISTINCT FROM
          CASE WHEN j.state IN ('pending', 'delayed', 'retrying', 'failed', 'dead_letter', 'cancelled')
          THEN j.state END"""

LINE: Final[dict[str, str]] = {
    "a scheduled job is in no run": f"""
        SELECT j.seq FROM {JOBS} WHERE j.state = 'scheduled' AND j.key IS NULL AND {RUNS_OF} = 0""",
    "a scheduled job of a key is not in one line": f"""
        SELECT j.seq FROM {JOBS} WHERE j.state = 'scheduled' AND j.key IS NOT NULL AND {RUNS_OF} + {OWN_LINE} <> 1""",
    "a run of one job, which is not scheduled there": f"""
        SELECT r.seq FROM euterpe_line AS r LEFT JOIN {JOBS} ON j.seq = r.seq
        WHERE r.jobs = 1 AND (j.state = 'scheduled' AND j.queue = r.queue AND j.type = r.type
                              AND j.priority = r.priority AND j.key IS NOT DISTINCT FROM r.key) IS NOT TRUE""",
    "two runs of one job": "SELECT seq FROM euterpe_line WHERE jobs = 1 GROUP BY seq HAVING COUNT(*) > 1",
    "an empty run": "SELECT seq FROM euterpe_line WHERE jobs < 1",
    "a longer run of a key": "SELECT seq FROM euterpe_line WHERE key IS NOT NULL AND jobs > 1",
    "a job in a key's own line, which is not scheduled there": f"""
        SELECT l.seq FROM euterpe_key_line AS l LEFT JOIN {JOBS} ON j.seq = l.seq
        WHERE (j.state = 'scheduled' AND j.key = l.key AND j.priority = l.priority) IS NOT TRUE""",
    "a job runs and no claim tells of it": """
        SELECT j.seq FROM inbox_jobs AS j WHERE j.state = 'running'
        AND NOT EXISTS (SELECT 1 FROM euterpe_running AS r WHERE j.seq = ANY (r.seqs))""",
    "a list by state lies": LISTS_LIE,
}
KEYS: Final[dict[str, str]] = {
    "a counter of running jobs is wrong": f"""
        SELECT k.name, k.running FROM euterpe_keys AS k
        WHERE k.running <> (SELECT COUNT(*) FROM {JOBS} WHERE j.key = k.name AND j.state = 'running')""",
    "a counter of jobs in the line is wrong": """
        SELECT k.name, k.in_line FROM euterpe_keys AS k
        WHERE k.in_line <> (SELECT COUNT(*) FROM euterpe_line AS r WHERE r.key = k.name)""",
    "a key with jobs has no counter": f"""
        SELECT j.seq FROM {JOBS} WHERE j.key IS NOT NULL AND j.state IN ('scheduled', 'running')
        AND NOT EXISTS (SELECT 1 FROM euterpe_keys AS k WHERE k.name = j.key)""",
    "more jobs run than the limit": f"""
        SELECT j.key, COUNT(*) FROM {JOBS} WHERE j.state = 'running' AND j.key IS NOT NULL
        GROUP BY j.key HAVING COUNT(*) > MAX(j.concurrency_limit)""",
    "a key has a place and lets nobody in": f"""
        SELECT k.name FROM euterpe_keys AS k, LATERAL (
            SELECT j.concurrency_limit FROM euterpe_key_line AS l JOIN {JOBS} ON j.seq = l.seq
            WHERE l.key = k.name ORDER BY l.priority, l.seq LIMIT 1) AS first
        WHERE k.running + k.in_line < first.concurrency_limit
        AND NOT EXISTS (SELECT 1 FROM euterpe_key_rates AS r WHERE r.name = k.name)
        AND NOT EXISTS (SELECT 1 FROM euterpe_pauses)""",
}
RULES: Final = LINE | KEYS
_NAMES: Final = {rule: rule.replace("'", "''") for rule in RULES}
BROKEN: Final = " UNION ALL ".join(f"SELECT '{_NAMES[rule]}' WHERE EXISTS ({query})" for rule, query in RULES.items())
"""The names of all rules that are broken, in one statement."""


class Tables(Protocol):
    async def run(self, sql: str) -> list[tuple[Any, ...]]: ...


class ConnectionTables:
    def __init__(self, connection: asyncpg.Connection[Any]) -> None:
        self._connection = connection

    async def run(self, sql: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in await self._connection.fetch(sql)]


async def faults_at_rest(tables: Tables) -> list[str]:
    """What is wrong, one text for each rule that is broken; empty where all agree."""
    found = []
    for rule, query in RULES.items():
        rows = await tables.run(query)
        if rows:
            found.append(f"{rule}: {rows[:5]}")
    return found
