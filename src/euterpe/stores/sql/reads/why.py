"""Reading a job's situation: its row by id, and then only what its state makes worth knowing."""

from __future__ import annotations

import msgspec

from euterpe.model.errors import UnprocessableRow
from euterpe.model.reading.why import AHEAD_LIMIT, BLOCKERS_NAMED, Blocker, Explanation, Situation, explain
from euterpe.model.state import State
from euterpe.stores.sql.maintenance.operator import missing, possible_id
from euterpe.stores.sql.program import Program, Row, one
from euterpe.stores.sql.rows import limit_key
from euterpe.stores.sql.workers import service_for


def why(job_id: str, requester_id: str | None) -> Program[Explanation]:
    stored_id = possible_id(job_id)
    rows = yield one("situation", id=stored_id)
    if not rows or requester_id not in (None, rows[0][1]):
        raise (yield from missing(stored_id, requester_id))
    found = _situation(rows[0])
    if found.state is State.PENDING:
        blockers = yield one("unfinished_dependencies", id=stored_id, limit=BLOCKERS_NAMED)
        found = msgspec.structs.replace(found, blockers=tuple(Blocker(*row) for row in blockers))
    elif found.state is State.SCHEDULED:
        found = yield from _in_queue(found)
    return explain(found)


def _in_queue(found: Situation) -> Program[Situation]:
    if found.concurrency_key is not None:
        key = limit_key(found.requester_id, found.concurrency_key)
        rows = yield one("running_of_key", limit_key=key, limit=BLOCKERS_NAMED)
        found = msgspec.structs.replace(
            found, blockers=tuple(Blocker(*row[:4]) for row in rows), blocker_count=rows[0][4] if rows else 0
        )
    if found.parked:
        return found
    ((ahead, looked_at),) = yield one(
        "jobs_ahead", queue=found.queue, priority=found.priority, seq=found.seq, limit=AHEAD_LIMIT + 1
    )
    return msgspec.structs.replace(
        found,
        ahead=looked_at if looked_at > AHEAD_LIMIT else int(ahead),
        service=(yield from service_for(found.queue, found.type, found.now)),
    )


def _situation(row: Row) -> Situation:
    values = dict(zip(Situation.__struct_fields__, row, strict=False))
    try:
        values["state"] = State(values["state"])
    except ValueError:
        raise UnprocessableRow(values["job_id"], "state") from None
    for flag in ("cancel_requested", "parked", "queue_paused", "type_paused"):
        values[flag] = bool(values[flag])
    return Situation(**values)
