"""What wake-ups over Redis ask the database, which is the truth: what became of jobs, and which wait for long."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from euterpe.model.state import State
from euterpe.model.submitting.batch import as_stored
from euterpe.stores.sql.engine import Engine
from euterpe.stores.sql.program import Program, one


class WaitingJob(NamedTuple):
    """A job that a worker could take now."""

    queue: str
    priority: int
    job_id: str


class WaitingJobs:
    """Looks without taking anything."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def states_of(self, job_ids: Collection[str]) -> dict[str, State]:
        """Of those that are there. A made-up id has none."""
        possible = sorted(job_id for job_id in job_ids if as_stored(job_id) == job_id)
        return await self._engine.read(lambda: states_of(possible)) if possible else {}

    async def waiting_since(self, queues: Collection[str], age_us: int, limit: int) -> list[WaitingJob]:
        """Up to `limit` of each queue, the most urgent first."""
        return await self._engine.read(lambda: waiting_since(queues, age_us, limit))


def states_of(job_ids: list[str]) -> Program[dict[str, State]]:
    rows = yield one("existing_ids", ids=job_ids)
    return {row[0]: State(row[2]) for row in rows}


def waiting_since(queues: Collection[str], age_us: int, limit: int) -> Program[list[WaitingJob]]:
    found: list[WaitingJob] = []
    for queue in queues:
        rows = yield one("waiting_since", queue=queue, age_us=age_us, limit=limit)
        found += [WaitingJob(queue, row[1], row[0]) for row in rows]
    return found
