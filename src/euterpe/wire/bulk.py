"""The words of acts on everything that matches a query, and of failures by cause."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from euterpe.model.bulk import COUNTED, Skipped
from euterpe.model.failures.group import GROUPS_LIMIT
from euterpe.model.reading.job_query import QUERY_LIMIT
from euterpe.wire.jobs import PAGE_LIMIT, RequesterScope, Timestamp

Query = Annotated[str, Meta(min_length=1, max_length=QUERY_LIMIT, description="As in `state:failed type:report.*`")]
ActionName = Literal["cancel", "retry", "replay"]
OperationStateName = Literal["running", "completed", "cancelled"]


class CountQuery(RequesterScope, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Without `q`: every job."""

    q: Query | None = None
    dependents: Annotated[
        Literal["true", "false"], Meta(description="Whether to count what would be replayed beside them, too")
    ] = "false"


class JobCountDocument(msgspec.Struct, frozen=True):
    """Not `exact`: there are at least so many. `dependents`, where asked for: jobs that do not match and ended because
    of one that does; a replay takes them along."""

    count: Annotated[int, Meta(ge=0, le=COUNTED)]
    exact: bool
    dependents: int | None = None
    dependents_exact: bool = True
    cause: Annotated[str | None, Meta(description="What they failed with, where `q` asks for a fingerprint")] = None


class OperationBody(RequesterScope, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`force` is for cancel only: running jobs are taken away from their workers. An admin says whose jobs, or `*`."""

    action: ActionName
    q: Query
    force: bool = False


class OperationQuery(RequesterScope, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Those that one has ordered; an admin names who ordered them, or `*`."""

    limit: Annotated[int, Meta(ge=1, le=PAGE_LIMIT)] = 50


class OperationCancelBody(RequesterScope, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An admin says who ordered it, or `*`."""


class OperationDocument(msgspec.Struct, frozen=True, kw_only=True):
    """An operation and how far it is. `requester` is whose jobs it is about; null: everybody's."""

    operation_id: str
    action: ActionName
    force: bool
    query: str
    cause: Annotated[
        str | None, Meta(description="What its jobs had failed with, where `query` asks for a fingerprint")
    ]
    requester: str | None
    state: OperationStateName
    total: int
    total_exact: Annotated[bool, Meta(description="Whether no more jobs than `total` matched when it was ordered")]
    done: int
    dependents: Annotated[int, Meta(description="Replayed beside them: they had ended because of one of them")]
    skipped: Annotated[dict[Skipped, int], Meta(description="Jobs that were passed over, by reason")]
    failed: int
    error: Annotated[str | None, Meta(description="Of the last job that could not be acted on")]
    created_at: Timestamp
    updated_at: Timestamp
    completed_at: Timestamp | None


class OperationPage(msgspec.Struct, frozen=True):
    """Newest first."""

    operations: list[OperationDocument]


class FailuresQuery(RequesterScope, frozen=True, kw_only=True, forbid_unknown_fields=True):
    limit: Annotated[int, Meta(ge=1, le=GROUPS_LIMIT)] = 50


class FailureGroupDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Failed and dead-lettered jobs of one cause. `query` finds them; the sample is the newest of them."""

    fingerprint: str
    query: str
    type: str
    code: str
    category: str
    message: str
    count: int
    exact: Annotated[bool, Meta(description="Whether there are no more than `count`")]
    first_at: Timestamp
    last_at: Timestamp
    sample_job_id: str


class FailuresDocument(msgspec.Struct, frozen=True):
    """The cause that struck last comes first. `more`: there are others."""

    groups: list[FailureGroupDocument]
    more: bool
