"""Operations as rows: asked for, looked at, cancelled."""

from __future__ import annotations

from typing import Final

import msgspec

from euterpe.model.bulk import BulkOperation, BulkOrder, JobCount, OperationState
from euterpe.model.errors import IdempotencyConflict, IllegalTransition, InvalidInput, JobNotFound
from euterpe.model.reading.job_query import parse_query, query_text
from euterpe.model.submitting.batch import as_stored, new_ids
from euterpe.stores.sql.program import Program, Row, one
from euterpe.stores.sql.reads.scan import newest_place

LISTED_LIMIT: Final = 200
RUNNING_LIMIT: Final = 20
"""Of one requester at a time. Each costs the sweeps a look."""
_FIELDS: Final = BulkOperation.__struct_fields__
PLACE: Final = _FIELDS.index("place")


def operation_from(row: Row) -> BulkOperation:
    values = dict(zip(_FIELDS, row, strict=True))
    values["skipped"] = msgspec.json.decode(values["skipped"], type=dict[str, int])
    return msgspec.convert(values, BulkOperation, strict=False)


def order(order: BulkOrder, counted: JobCount) -> Program[tuple[BulkOperation, bool]]:
    """Store the operation; (it, whether its key had asked for it before). What comes later has a higher place."""
    if order.key is not None and (known := (yield from _known(order))) is not None:
        return known, True
    resolved = query_text(order.search)
    parse_query(resolved, 0)  # What whoever works it off will read; ages written out as moments may make it too long.
    running = yield one("running_of", ordered_by=order.ordered_by)
    if running[0][0] >= RUNNING_LIMIT:
        raise InvalidInput("operations", f"{RUNNING_LIMIT} of yours are under way; wait for one, or cancel one")
    nothing = counted.exact and not counted.count
    rows = yield one(
        "insert_operation",
        id=new_ids(1)[0],
        ordered_by=order.ordered_by,
        requester_id=order.search.requester_id,
        action=order.action,
        force=order.force,
        query=order.query,
        resolved=resolved,
        key=order.key,
        state=OperationState.COMPLETED if nothing else OperationState.RUNNING,
        place=(yield from newest_place()) + 1,
        total=counted.count,
        total_exact=counted.exact,
        cause=counted.cause,
    )
    if rows:
        return operation_from(rows[0]), False
    known = yield from _known(order)  # Somebody else came with this key meanwhile.
    assert known is not None
    return known, True


def _known(order: BulkOrder) -> Program[BulkOperation | None]:
    rows = yield one("operation_of_key", ordered_by=order.ordered_by, key=order.key)
    if not rows:
        return None
    known = operation_from(rows[0])
    order_key = (order.action, order.force, order.query, order.search.requester_id)
    if order_key != (known.action, known.force, known.query, known.requester_id):
        assert order.key is not None
        raise IdempotencyConflict(order.key, known.id, "operation")
    return known


def get(operation_id: str, ordered_by: str | None) -> Program[BulkOperation]:
    stored_id = as_stored(operation_id)
    rows = (yield one("get_operation", id=stored_id)) if stored_id is not None else []
    found = operation_from(rows[0]) if rows else None
    if found is None or ordered_by not in (None, found.ordered_by):
        raise JobNotFound(operation_id, f"no operation {operation_id[:100]!r}")
    return found


def listed(ordered_by: str | None, limit: int) -> Program[list[BulkOperation]]:
    if not 1 <= limit <= LISTED_LIMIT:
        raise InvalidInput("limit", f"{limit} is not between 1 and {LISTED_LIMIT}")
    rows = yield one("list_operations", ordered_by=ordered_by, limit=limit)
    return [operation_from(row) for row in rows]


def cancel(operation_id: str, ordered_by: str | None) -> Program[BulkOperation]:
    """What was done stays done; no further job is acted on."""
    found = yield from get(operation_id, ordered_by)
    rows = yield one("cancel_operation", id=found.id)
    if rows:
        return operation_from(rows[0])
    now = yield from get(operation_id, ordered_by)
    if now.state is OperationState.CANCELLED:
        return now
    raise IllegalTransition(now.state, OperationState.CANCELLED, "it has acted on all its jobs", "operation")
