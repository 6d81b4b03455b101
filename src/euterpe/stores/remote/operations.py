"""Acts on everything that matches, asked for over HTTP: the control plane stores them and works them off."""

from __future__ import annotations

from datetime import datetime

import msgspec

from euterpe.model.bulk import Action, BulkOperation, BulkOrder, JobCount, OperationState
from euterpe.model.errors import JobNotFound
from euterpe.model.failures.group import FailureGroup, FailureGroups
from euterpe.model.reading.job_query import query_text
from euterpe.model.reading.views import Search
from euterpe.model.submitting.batch import as_stored
from euterpe.stores.remote.documents import microseconds
from euterpe.stores.remote.session import ControlPlaneSession, Subject, requester_params


class OperationReply(msgspec.Struct, frozen=True, kw_only=True):
    """What the API tells of an operation."""

    operation_id: str
    action: Action
    force: bool
    query: str
    cause: str | None = None
    requester: str | None
    state: OperationState
    total: int
    total_exact: bool
    done: int
    dependents: int = 0
    skipped: dict[str, int]
    failed: int
    error: str | None
    created_at: datetime
    updated_at: datetime
    completed_at: datetime | None


class FailureGroupReply(msgspec.Struct, frozen=True, kw_only=True):
    """What the API tells of a cause."""

    fingerprint: str
    type: str
    code: str
    category: str
    message: str
    count: int
    exact: bool
    first_at: datetime
    last_at: datetime
    sample_job_id: str


class RemoteOperations:
    """The operations that this key has ordered."""

    def __init__(self, session: ControlPlaneSession) -> None:
        self._session = session

    async def count(self, query: Search, *, dependents: bool = False) -> JobCount:
        params = requester_params(query.requester_id) | {"q": query_text(query)}
        if dependents:
            params["dependents"] = "true"
        return msgspec.json.decode((await self._session.get("/jobs/count", params)).body, type=JobCount)

    async def order(self, order: BulkOrder) -> tuple[BulkOperation, bool]:
        """The control plane reads the query by its own clock."""
        body = requester_params(order.search.requester_id) | {
            "action": order.action,
            "q": order.query,
            "force": order.force,
        }
        headers = {} if order.key is None else {"Idempotency-Key": order.key}
        reply = await self._session.post("/operations", body, Subject(key=order.key or ""), headers)
        return _operation(reply.body), "idempotency-replayed" in reply.headers

    async def get(self, operation_id: str, ordered_by: str | None = None) -> BulkOperation:
        path, about = _path(operation_id)
        return _operation((await self._session.get(path, requester_params(ordered_by), about)).body)

    async def list(self, ordered_by: str | None = None, limit: int = 50) -> list[BulkOperation]:
        reply = await self._session.get("/operations", requester_params(ordered_by) | {"limit": str(limit)})
        documents = msgspec.json.decode(reply.body, type=dict[str, list[OperationReply]])["operations"]
        return [_operation_of(document) for document in documents]

    async def cancel(self, operation_id: str, ordered_by: str | None = None) -> BulkOperation:
        path, about = _path(operation_id)
        return _operation((await self._session.post(f"{path}/cancel", requester_params(ordered_by), about)).body)

    async def failure_groups(self, requester_id: str | None, limit: int) -> FailureGroups:
        reply = await self._session.get("/failures", requester_params(requester_id) | {"limit": str(limit)})
        decoded = msgspec.json.decode(reply.body, type=FailuresReply)
        return FailureGroups([_group(document) for document in decoded.groups], decoded.more)


class FailuresReply(msgspec.Struct, frozen=True):
    groups: list[FailureGroupReply]
    more: bool


def _path(operation_id: str) -> tuple[str, Subject]:
    stored_id = as_stored(operation_id)
    if stored_id is None:
        raise JobNotFound(operation_id, f"no operation {operation_id[:100]!r}")
    return f"/operations/{stored_id}", Subject(operation_id)


def _operation(body: bytes) -> BulkOperation:
    return _operation_of(msgspec.json.decode(body, type=OperationReply))


def _operation_of(reply: OperationReply) -> BulkOperation:
    """Where it is in the history of jobs, and who ordered it, stays with the control plane."""
    fields = msgspec.structs.asdict(reply)
    del fields["operation_id"], fields["requester"]
    return BulkOperation(
        id=reply.operation_id,
        ordered_by="",
        requester_id=reply.requester,
        resolved=reply.query,
        place=0,
        **fields | {name: microseconds(fields[name]) for name in ("created_at", "updated_at", "completed_at")},
    )


def _group(reply: FailureGroupReply) -> FailureGroup:
    fields = msgspec.structs.asdict(reply)
    return FailureGroup(**fields | {name: microseconds(fields[name]) for name in ("first_at", "last_at")})
