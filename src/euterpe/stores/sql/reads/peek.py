"""Looking at what would be claimed next, without claiming it."""

from __future__ import annotations

from collections.abc import Sequence

from euterpe.model.errors import InvalidInput
from euterpe.model.job import JobRow
from euterpe.stores.sql.program import Program, one
from euterpe.stores.sql.rows import jobs_from


def peek(queues: Sequence[str], limit: int) -> Program[list[JobRow]]:
    """The next jobs of these queues, in the order in which a worker that knows every type would take them."""
    if not 1 <= limit <= 1000:
        raise InvalidInput("limit", f"{limit} is not between 1 and 1000")
    jobs: list[JobRow] = []
    for queue in queues:
        if len(jobs) < limit:
            jobs += jobs_from((yield one("peek", queue=queue, limit=limit - len(jobs))))
    return jobs
