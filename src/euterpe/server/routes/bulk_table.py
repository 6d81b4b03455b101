"""The routes of acts on everything that matches a query, and of failures by cause."""

from __future__ import annotations

from typing import Final

from euterpe.model.accounts import Scope
from euterpe.server.http.router import AnyRoute, ReplySpec, Route
from euterpe.server.routes.bulk import BulkRoutes
from euterpe.wire import bulk as wire
from euterpe.wire import bulk_examples as e
from euterpe.wire.jobs import RequesterScope

_BULK: Final = "Bulk operations"
_NO_OPERATION: Final = {404: "No such operation, or somebody else's."}


def bulk_routes(bulk: BulkRoutes) -> list[AnyRoute]:
    return [*_read_routes(bulk), *_operation_routes(bulk)]


def _read_routes(bulk: BulkRoutes) -> list[AnyRoute]:
    return [
        Route(
            "GET",
            "/jobs/count",
            bulk.count,
            wire.CountQuery,
            "How many jobs match a query",
            {200: ReplySpec("Counted up to 10,000.", wire.JobCountDocument, example=e.COUNT)},
            Scope.READ,
            _BULK,
        ),
        Route(
            "GET",
            "/failures",
            bulk.failures,
            wire.FailuresQuery,
            "Failures by cause",
            {200: ReplySpec("The cause that struck last first.", wire.FailuresDocument, example=e.FAILURES)},
            Scope.READ,
            _BULK,
            description="A cause is the type of the job and its error without ids, numbers, quoted text and paths.",
        ),
    ]


def _operation_routes(bulk: BulkRoutes) -> list[AnyRoute]:
    operation = ReplySpec("The operation.", wire.OperationDocument, example=e.OPERATION)
    return [
        Route(
            "POST",
            "/operations",
            bulk.order,
            wire.OperationBody,
            "Cancel, retry or replay everything that matches",
            {202: ReplySpec("Stored.", wire.OperationDocument, example=e.OPERATION, headers=("Location",))},
            Scope.SUBMIT,
            _BULK,
            description="It is worked off in the background. Each job that matched at this moment is acted on once; "
            "what comes or changes later does not join. With an idempotency key the same request is one operation.",
            example={"action": "retry", "q": "state:failed type:report.*"},
            request_headers=("Idempotency-Key",),
            problems={409: "The idempotency key was used for another request."},
        ),
        Route(
            "GET",
            "/operations",
            bulk.list_operations,
            wire.OperationQuery,
            "Operations",
            {200: ReplySpec("Newest first.", wire.OperationPage, example={"operations": [e.OPERATION]})},
            Scope.READ,
            _BULK,
        ),
        Route(
            "GET",
            "/operations/{operation_id}",
            bulk.get,
            RequesterScope,
            "One operation",
            {200: operation},
            Scope.READ,
            _BULK,
            problems=_NO_OPERATION,
        ),
        Route(
            "POST",
            "/operations/{operation_id}/cancel",
            bulk.cancel,
            wire.OperationCancelBody,
            "Stop an operation",
            {200: operation},
            Scope.SUBMIT,
            _BULK,
            description="What was done stays done; no further job is acted on.",
            example={},
            problems=_NO_OPERATION | {409: "It has acted on all its jobs."},
        ),
    ]
