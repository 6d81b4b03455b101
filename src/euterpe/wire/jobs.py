"""The jobs API's words: what requesters send and what they get. OpenAPI is made from these very types.

A request with an unknown field is refused, because a misspelt option would otherwise be silently lost.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from euterpe.model.reading.job_query import QUERY_LIMIT
from euterpe.model.reading.why import AHEAD_LIMIT, Reason
from euterpe.model.submitting.submission import KEY_LIMIT, MAX_ATTEMPTS_LIMIT, NAME_LIMIT, TAGS_LIMIT, URL_LIMIT

StateName = Literal[
    "pending", "scheduled", "delayed", "running", "retrying", "completed", "failed", "dead_letter", "cancelled"
]
PriorityName = Literal["critical", "high", "normal", "low", "bulk"]
DependencyName = Literal["after", "after_any", "chain", "fan_in"]
Name = Annotated[str, Meta(min_length=1, max_length=NAME_LIMIT)]
Key = Annotated[str, Meta(min_length=1, max_length=KEY_LIMIT)]
Duration = (
    Annotated[str, Meta(max_length=64, description="With units: 500ms, 30s, 5m, 1h30m, 7d")]
    | Annotated[float, Meta(ge=0, le=315_360_000, description="Seconds")]
)
Instant = Annotated[datetime, Meta(tz=True, description="RFC 3339, with an offset")]
Timestamp = Annotated[str, Meta(description="RFC 3339, UTC, microseconds")]
CallbackUrl = Annotated[str, Meta(min_length=1, max_length=URL_LIMIT, pattern="^[Hh][Tt][Tt][Pp][Ss]?://")]
Tags = Annotated[dict[str, Annotated[str, Meta(max_length=KEY_LIMIT)]], Meta(max_length=TAGS_LIMIT)]
PAGE_LIMIT = 200
BATCH_LIMIT = 10_000


class NoInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Nothing to say."""


def _unless_declared(default: str | int | bool) -> Meta:
    """What holds when neither the request nor the job type says anything; OpenAPI shows it."""
    return Meta(extra_json_schema={"default": default})


class BackoffBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long to wait between attempts, and whether timeouts and lost workers are worth another one."""

    strategy: Literal["constant", "linear", "exponential", "custom"] = "exponential"
    initial: Duration = "1s"
    max: Duration = "1h"
    multiplier: Annotated[float, Meta(ge=1, le=1000)] = 2.0
    jitter: Annotated[float, Meta(ge=0, le=1)] = 0.1
    name: Name | None = None
    on_timeout: Annotated[bool | UnsetType, _unless_declared(True)] = UNSET
    on_system: Annotated[bool | UnsetType, _unless_declared(True)] = UNSET


class SubmissionBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job to run. Only `type` is needed. What is left out is as the job type declares it, where the control plane
    was started with the application, and else the default."""

    type: Name
    payload: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b"{}"))
    payload_format: Annotated[
        Literal["json", "bytes"], Meta(description='`bytes`: the payload is {"base64": "..."}')
    ] = "json"
    queue: Annotated[Name | UnsetType, _unless_declared("default")] = UNSET
    priority: Annotated[PriorityName | Annotated[int, Meta(ge=0, le=4)] | UnsetType, _unless_declared("normal")] = UNSET
    delay: Duration | None = None
    run_at: Instant | None = None
    max_attempts: Annotated[Annotated[int, Meta(ge=1, le=MAX_ATTEMPTS_LIMIT)] | UnsetType, _unless_declared(3)] = UNSET
    timeout: Annotated[Duration | UnsetType, _unless_declared("30m")] = UNSET
    visibility: Annotated[Duration | UnsetType, _unless_declared("5m")] = UNSET
    lifetime: Annotated[Duration | UnsetType, _unless_declared("7d")] = UNSET
    backoff: BackoffBody | Literal["constant", "linear", "exponential"] | None = None
    stages: Annotated[list[str], Meta(max_length=50)] | None = None
    idempotency_key: Key | None = None
    idempotency_window: Duration | None = None
    correlation_id: Annotated[str, Meta(max_length=KEY_LIMIT)] | None = None
    tags: Tags | None = None
    depends_on: Annotated[
        list[Annotated[str, Meta(max_length=100)]],
        Meta(max_length=1000, description="Job ids; inside a batch also `#ref`, another job of the batch"),
    ] = []
    dependency: Annotated[DependencyName | UnsetType, _unless_declared("after")] = UNSET
    callback_url: CallbackUrl | None = None
    callback_events: Annotated[
        Literal["all", "terminal", "all_with_stack", "terminal_with_stack"] | UnsetType, _unless_declared("all")
    ] = UNSET
    concurrency_key: Key | None = None
    concurrency_limit: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    unique_key: Annotated[Key, Meta(description="One job of this type and key at a time")] | None = None
    unique: Annotated[Literal["waiting", "active", "replace", "debounce"] | UnsetType, _unless_declared("waiting")] = (
        UNSET
    )


class BatchJobBody(SubmissionBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job of a batch. Others of the batch may depend on it by `#` and its `ref`."""

    ref: Annotated[str, Meta(min_length=1, max_length=99)] | None = None


class BatchBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Jobs that are stored together, or not at all."""

    jobs: Annotated[list[BatchJobBody], Meta(min_length=1, max_length=BATCH_LIMIT)]
    idempotency_key: Key | None = None


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a submission; a replay gets it byte for byte."""

    job_id: str
    type: str
    queue: str
    state: StateName
    priority: PriorityName
    created_at: Timestamp
    correlation_id: str | None


class BatchAccepted(msgspec.Struct, frozen=True):
    """In the order of the batch."""

    jobs: list[Accepted]


class ProgressDocument(msgspec.Struct, frozen=True):
    percent: float
    message: str | None


class ErrorDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Why the last attempt ended badly."""

    code: str
    category: Literal["temporary", "permanent", "timeout", "cancelled", "system"]
    message: str
    retryable: bool
    attempt: int
    stack: str | UnsetType = UNSET
    http_status: int | UnsetType = UNSET


class JobDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A job, whole."""

    job_id: str
    type: str
    queue: str
    state: StateName
    stage: str | None
    status: str
    priority: PriorityName
    attempt: int
    max_attempts: int
    attempt_id: str | None
    previous_attempt_id: str | None
    claim_version: int
    worker_id: str | None
    progress: ProgressDocument | None
    tags: dict[str, str]
    correlation_id: str | None
    callback_url: str | None
    parent_id: str | None
    replay_of: str | None
    created_at: Timestamp
    updated_at: Timestamp
    run_at: Timestamp
    scheduled_at: Timestamp | None
    started_at: Timestamp | None
    completed_at: Timestamp | None
    expires_at: Timestamp
    heartbeat_at: Timestamp | None
    lease_expires_at: Timestamp | None
    payload: Any
    payload_format: Annotated[Literal["json", "bytes"], Meta(description='`bytes`: the payload is {"base64": "..."}')]
    result: Any
    error: ErrorDocument | None
    dependency: str | None
    pending_dependencies: int
    depends_on: Annotated[list[str], Meta(description="The ids of its dependencies, in the order submitted")] = []


class JobPage(msgspec.Struct, frozen=True):
    """Newest first. `cursor` continues after this page; null on the last one."""

    jobs: list[JobDocument]
    cursor: str | None


class AttemptDocument(msgspec.Struct, frozen=True, kw_only=True):
    """One execution. The open one has neither end nor outcome."""

    attempt_id: str
    attempt: int
    worker_id: str | None
    started_at: Timestamp
    ended_at: Timestamp | None
    outcome: str | None
    error: ErrorDocument | None


class Attempts(msgspec.Struct, frozen=True):
    """First to last."""

    attempts: list[AttemptDocument]


WhoseJobs = Annotated[
    str, Meta(min_length=1, max_length=100, description="Another requester's, or `*` for all: needs scope admin")
]


class RequesterScope(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose jobs to look at: one's own unless an admin says otherwise."""

    requester: WhoseJobs | None = None


class JobQuery(RequesterScope, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`q` is a query such as `state:failed type:report.* created:<1h`. A page looks at 20,000 jobs of a state, so it
    may be short, or empty, and still have a cursor."""

    q: Annotated[str, Meta(max_length=QUERY_LIMIT)] | None = None
    state: StateName | None = None
    type: Annotated[str, Meta(max_length=NAME_LIMIT)] | None = None
    queue: Annotated[str, Meta(max_length=NAME_LIMIT)] | None = None
    tag: Annotated[str, Meta(max_length=2 * KEY_LIMIT + 1, pattern="^[^:]+:", description="name:value")] | None = None
    cursor: Annotated[str, Meta(pattern="^[0-9]{1,18}$")] | None = None
    limit: Annotated[int, Meta(ge=1, le=PAGE_LIMIT)] = 50


class BlockerDocument(msgspec.Struct, frozen=True):
    job_id: str
    type: str
    state: StateName
    worker_id: str | None


class WhyDocument(msgspec.Struct, frozen=True):
    """Why a job is where it is. `blocked_by` names the first few jobs that it waits for."""

    job_id: str
    state: StateName
    reason: Reason
    sentence: str
    until: Timestamp | None
    ahead: Annotated[int, Meta(ge=0, le=AHEAD_LIMIT + 1)] | None
    blocked_by: list[BlockerDocument]


class CancelBody(RequesterScope, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`force` takes a running job away from its worker at once. An admin says whose job it is, or `*`."""

    force: bool = False


class RetryBody(RequesterScope, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An admin says whose job it is, or `*`."""

    dependents: Annotated[
        bool, Meta(description="Also what ended because of it, behind it; once, whatever the key says")
    ] = False


class DeadLetterBody(RequesterScope, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An admin says whose job it is, or `*`."""


class UpdateBody(RequesterScope, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is left out stays as it is; null takes a value away. The priority changes only while the job waits."""

    priority: PriorityName | Annotated[int, Meta(ge=0, le=4)] | UnsetType = UNSET
    tags: Tags | UnsetType | None = UNSET
    correlation_id: Annotated[str, Meta(max_length=KEY_LIMIT)] | UnsetType | None = UNSET
    callback_url: CallbackUrl | UnsetType | None = UNSET


class CancelAnswer(msgspec.Struct, frozen=True):
    """A running job stays `running` until its worker stops: the request travels in its next heartbeat's answer."""

    job_id: str
    state: StateName
    cancel_requested: bool


class StatsDocument(msgspec.Struct, frozen=True):
    """Counts by state, queue and type; the oldest waiting job of each queue; ends in the last minute."""

    by_state: dict[str, int]
    by_queue: dict[str, dict[str, int]]
    by_type: dict[str, dict[str, int]]
    oldest_age_seconds: dict[str, float]
    per_minute: dict[str, int]
    outbox: dict[str, int]
    estimated: Annotated[
        list[str],
        Meta(description="States with more than 50,000 jobs: their counts are estimated. All others are exact"),
    ]


EventStateName = Literal["scheduled", "running", "retrying", "completed", "dead_letter"]


class OutboxQuery(RequesterScope, frozen=True, kw_only=True, forbid_unknown_fields=True):
    state: EventStateName | None = None
    job_id: Annotated[str, Meta(max_length=100)] | None = None
    cursor: Annotated[str, Meta(pattern="^[0-9]{1,18}$")] | None = None
    limit: Annotated[int, Meta(ge=1, le=PAGE_LIMIT)] = 50


class OutboxEventDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook event and how its delivery goes."""

    event_id: str
    job_id: str
    type: str
    sequence: int
    url: str
    state: EventStateName
    attempts: int
    created_at: Timestamp
    next_attempt_at: Timestamp | None
    completed_at: Timestamp | None
    error: str | None


class OutboxPage(msgspec.Struct, frozen=True):
    events: list[OutboxEventDocument]
    cursor: str | None


class DeliveryDocument(msgspec.Struct, frozen=True, kw_only=True):
    """One POST and what came of it."""

    attempt: int
    worker_id: str | None
    started_at: Timestamp
    ended_at: Timestamp
    outcome: str
    http_status: int | None
    answer: str | None
    error: str | None


class OutboxEventDetail(msgspec.Struct, frozen=True, kw_only=True):
    """An event with the body that is sent and the log of its deliveries."""

    event: OutboxEventDocument
    body: Any
    deliveries: list[DeliveryDocument]


class Alive(msgspec.Struct, frozen=True):
    status: Literal["ok"]


class Readiness(msgspec.Struct, frozen=True):
    """Each part by name: `ok`, or why not."""

    status: Literal["ready", "unavailable"]
    checks: dict[str, str]
    failing: list[str]
