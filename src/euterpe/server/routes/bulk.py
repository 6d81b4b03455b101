"""Acts on everything that matches a query, and failures by cause. A requester's key acts on its own jobs only."""

from __future__ import annotations

import msgspec

from euterpe.model.bulk import Action, BulkOrder, operation_document
from euterpe.model.failures.group import group_document
from euterpe.model.reading.job_query import parse_query
from euterpe.model.reading.views import Search
from euterpe.ports import Store
from euterpe.server.http.asgi import Answer, Request
from euterpe.server.quotas import Quotas
from euterpe.server.routes.jobs import REPLAYED, key_header, requester_asked_for
from euterpe.wire.bulk import CountQuery, FailuresQuery, OperationBody, OperationCancelBody, OperationQuery
from euterpe.wire.jobs import RequesterScope


class BulkRoutes:
    """Handlers over one store. The work itself is done by sweeps."""

    def __init__(self, store: Store, quotas: Quotas) -> None:
        self._store = store
        self._quotas = quotas

    async def count(self, request: Request, query: CountQuery) -> Answer:
        search = await self._search(query.q or "", requester_asked_for(request, query))
        counted = await self._store.operations.count(search, dependents=query.dependents == "true")
        return Answer(200, msgspec.json.encode(counted))

    async def order(self, request: Request, body: OperationBody) -> Answer:
        order = BulkOrder(
            action=Action(body.action),
            query=body.q,
            search=await self._search(body.q, requester_asked_for(request, body)),
            ordered_by=request.identity.requester_id,
            force=body.force,
            key=key_header(request),
        )
        await self._quotas.admit_order(self._store, order)
        operation, replayed = await self._store.operations.order(order)
        location = (b"location", b"/operations/" + operation.id.encode())
        document = msgspec.json.encode(operation_document(operation))
        return Answer(202, document, headers=(location, REPLAYED) if replayed else (location,))

    async def _search(self, text: str, requester_id: str | None) -> Search:
        found = parse_query(text, await self._store.now_us())
        return msgspec.structs.replace(found, requester_id=requester_id)

    async def list_operations(self, request: Request, query: OperationQuery) -> Answer:
        found = await self._store.operations.list(requester_asked_for(request, query), query.limit)
        return Answer(200, msgspec.json.encode({"operations": [operation_document(o) for o in found]}))

    async def get(self, request: Request, whose: RequesterScope) -> Answer:
        found = await self._store.operations.get(
            request.parameters["operation_id"], requester_asked_for(request, whose)
        )
        return Answer(200, msgspec.json.encode(operation_document(found)))

    async def cancel(self, request: Request, body: OperationCancelBody) -> Answer:
        found = await self._store.operations.cancel(
            request.parameters["operation_id"], requester_asked_for(request, body)
        )
        return Answer(200, msgspec.json.encode(operation_document(found)))

    async def failures(self, request: Request, query: FailuresQuery) -> Answer:
        found = await self._store.failure_groups(requester_asked_for(request, query), query.limit)
        groups = [group_document(group) for group in found.groups]
        return Answer(200, msgspec.json.encode({"groups": groups, "more": found.more}))
