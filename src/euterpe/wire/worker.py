"""The worker protocol's words: the fields of the worker contract, and the optional ones that were added.

Unknown fields are ignored here, so that a new worker may talk to an old control plane.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal
from uuid import UUID

import msgspec
from msgspec import Meta

from euterpe.model.claims.presence import BREAKERS_TOLD
from euterpe.model.submitting.submission import NAME_LIMIT
from euterpe.wire.attempt_logs import AttemptLogBody
from euterpe.wire.jobs import BATCH_LIMIT, Accepted, BatchJobBody, Duration, Key, StateName, Timestamp

WorkerId = Annotated[str, Meta(min_length=1, max_length=NAME_LIMIT)]
QueueName = Annotated[str, Meta(min_length=1, max_length=NAME_LIMIT)]
Token = Annotated[str, Meta(min_length=1, max_length=200)]
AttemptId = Annotated[str, Meta(min_length=1, max_length=100)]
CLAIM_LIMIT = 1000
EXCHANGE_LIMIT = 1000
"""How many completions, failures or heartbeats one exchange may carry, each."""
AHEAD_TYPES_LIMIT = 200
HELD_LIMIT = 10_000
"""How many attempts a worker may name that it has."""
SECONDS_LIMIT = 1_000_000_000
ABSENT = (b"", b"null")
"""A raw field that says nothing: it was left out, or is null."""


class StreamRef(msgspec.Struct, frozen=True):
    """Where the transport's message of a claim lies. Without a transport: the queue, and the attempt's own id."""

    name: Annotated[str, Meta(max_length=NAME_LIMIT)]
    message_id: Annotated[str, Meta(max_length=NAME_LIMIT)]


StreamField = StreamRef | Annotated[str, Meta(max_length=NAME_LIMIT)] | None
MessageId = Annotated[str, Meta(max_length=NAME_LIMIT)] | None


class ClaimCriteria(msgspec.Struct, frozen=True, kw_only=True):
    """Which work is asked for."""

    streams: Annotated[list[QueueName], Meta(min_length=1, max_length=50)]
    max_wait_ms: Annotated[int, Meta(ge=0, description="How long to wait for a job; capped by the server")] = 0
    types: Annotated[list[QueueName], Meta(min_length=1, max_length=200)] | None = None
    max_jobs: Annotated[int, Meta(ge=1, le=CLAIM_LIMIT)] | None = None


class ClaimBody(ClaimCriteria, frozen=True, kw_only=True):
    """Ask for work. With `max_jobs` the answer is a list."""

    worker_id: WorkerId


class ExchangeCriteria(ClaimCriteria, frozen=True, kw_only=True):
    """Which work an exchange asks for. `max_ahead` more jobs may come, behind `max_jobs` of them, if they can wait in
    the worker for a free slot: jobs of `ahead_types` that nobody claimed before, with more than one attempt and
    within the limit of their concurrency key. The first that cannot wait ends the answer. `uniform`: the worker takes
    jobs that were submitted alike together, and reads `uniform` in place of `jobs`."""

    max_jobs: Annotated[int, Meta(ge=0, le=CLAIM_LIMIT)] | None = None
    max_ahead: Annotated[int, Meta(ge=0, le=CLAIM_LIMIT)] | None = None
    ahead_types: Annotated[list[QueueName], Meta(max_length=AHEAD_TYPES_LIMIT)] = []
    uniform: bool = False


class ClaimedJob(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One job to run, and the lease to run it under."""

    job_id: str
    attempt_id: str
    lease_token: str
    stream: StreamRef
    queue: str
    payload: Any
    lease_ttl_seconds: float
    heartbeat_interval_seconds: float
    type: str
    attempt: int
    max_attempts: int
    timeout_seconds: float
    lease_expires_at: Timestamp
    priority: str
    created_at: Timestamp
    payload_format: Literal["json", "bytes"] = "json"
    previous_attempt_id: str | None = None
    requester: Annotated[str, Meta(description="Whose job it is")] = ""
    tags: dict[str, str] | None = None
    correlation_id: str | None = None
    depends_on: Annotated[list[str], Meta(description="The ids of its dependencies")] | None = None
    stages: list[str] | None = None
    checkpoint: Any = None
    checkpoint_format: Literal["json", "bytes"] = "json"
    lost_attempts: Annotated[int, Meta(description="Attempts in a row that ended with a lost worker")] = 0
    unfit_claims: Annotated[int, Meta(description="Claims in a row that were given back as `unfit`")] = 0


class UniformJobs(msgspec.Struct, frozen=True):
    """Jobs to run that differ in `job_id`, `attempt_id`, `lease_token`, `stream` and `payload` alone. The id of an
    attempt is the job's id and what stands behind it in that of the first one."""

    first: ClaimedJob
    others: Annotated[list[tuple[str, str, Any]], Meta(description="job_id, lease_token and payload of each")]


class NothingClaimed(msgspec.Struct, frozen=True, kw_only=True):
    claimed: Literal[False] = False


class OneClaimed(ClaimedJob, frozen=True, kw_only=True, omit_defaults=True):
    """The job's fields stand beside `claimed`."""

    claimed: Literal[True]


class ManyClaimed(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a request with `max_jobs`."""

    claimed: bool
    jobs: list[ClaimedJob]


CLAIM_ANSWERS = (OneClaimed, ManyClaimed, NothingClaimed)


class LeaseHeartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """A lease to keep, and how far its work is."""

    job_id: UUID
    lease_token: Token
    attempt_id: AttemptId | None = None
    stage: Annotated[str, Meta(min_length=1, max_length=50)] | None = None
    progress: (
        Annotated[float, Meta(ge=0, le=100)] | Annotated[ProgressBody, Meta(description="With a message")] | None
    ) = None
    checkpoint: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    checkpoint_format: Literal["json", "bytes"] = "json"


class HeartbeatBody(LeaseHeartbeat, frozen=True, kw_only=True):
    """Keep the lease, and tell how far the work is."""

    worker_id: WorkerId


class ProgressBody(msgspec.Struct, frozen=True, kw_only=True):
    percent: Annotated[float, Meta(ge=0, le=100)]
    message: Annotated[str, Meta(max_length=500)] | None = None


class HeartbeatAnswer(msgspec.Struct, frozen=True):
    """`cancel_requested`: stop, and report `fail` with category `cancelled`."""

    ok: bool
    lease_expires_at: Timestamp
    cancel_requested: bool


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """A job that is done."""

    job_id: UUID
    attempt_id: AttemptId
    lease_token: Token
    stream: StreamField = None
    message_id: MessageId = None
    result: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    log: AttemptLogBody | None = None


class CompleteBody(Completion, frozen=True, kw_only=True):
    """The job is done."""

    worker_id: WorkerId


class CompleteAnswer(msgspec.Struct, frozen=True):
    """`ack`: a worker with its own connection to the transport may acknowledge the message."""

    ok: bool
    ack: bool


class WorkerError(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong. `category` wins over `http_status`, which has its class in the contract, and that over
    `retryable`."""

    message: Annotated[str, Meta(max_length=100_000)]
    code: Annotated[str, Meta(min_length=1, max_length=NAME_LIMIT)] = "error"
    stack: Annotated[str, Meta(max_length=1_000_000)] | None = None
    retryable: bool = True
    category: Literal["temporary", "permanent", "timeout", "cancelled", "system"] | None = None
    retry_after: Duration | None = None
    http_status: Annotated[int, Meta(ge=100, le=599)] | None = None
    unfit: Annotated[bool, Meta(description="This worker cannot run it now: left to others, uncharged")] = False


class AttemptFailure(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt that failed; or, with `released`, is given back unharmed (the worker shuts down)."""

    job_id: UUID
    attempt_id: AttemptId
    lease_token: Token
    stream: StreamField = None
    message_id: MessageId = None
    error: WorkerError | None = None
    released: bool = False
    log: AttemptLogBody | None = None


class FailBody(AttemptFailure, frozen=True, kw_only=True):
    """The attempt failed; or, with `released`, is given back unharmed (the worker shuts down)."""

    worker_id: WorkerId


class FailAnswer(msgspec.Struct, frozen=True):
    """`requeued`: there will be another attempt. `dlq`: the job is a dead letter now. Neither: it ended."""

    ok: bool
    ack: bool
    requeued: bool
    dlq: bool


class SpawnBody(msgspec.Struct, frozen=True, kw_only=True):
    """Children of a running job: all are stored, or none. With a key the request can be sent again."""

    worker_id: WorkerId
    job_id: UUID
    attempt_id: AttemptId
    lease_token: Token
    jobs: Annotated[list[BatchJobBody], Meta(min_length=1, max_length=BATCH_LIMIT)]
    idempotency_key: Key | None = None


class SpawnedJob(Accepted, frozen=True, kw_only=True):
    """A child. `replayed`: it was there before, under its own key or that of the request."""

    replayed: bool


class SpawnAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """In the order of the request."""

    ok: bool
    jobs: list[SpawnedJob]


class BreakerBody(msgspec.Struct, frozen=True, kw_only=True):
    """A circuit breaker of a job type that is not closed, for everybody or for one requester and perhaps one place of
    it, and how long until it lets one job through."""

    queue: QueueName
    type: QueueName
    requester: Annotated[str, Meta(max_length=NAME_LIMIT)] | None = None
    place: Annotated[str, Meta(max_length=NAME_LIMIT)] | None = None
    state: Literal["open", "half_open"]
    retry_in_seconds: Annotated[float, Meta(ge=0, le=SECONDS_LIMIT)] = 0.0


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """That a worker is alive, and what it does; to be said again every 20 seconds. Who is silent for a minute counts
    as dead, who is `leaving` has ended."""

    queues: Annotated[list[QueueName], Meta(max_length=50)] = []
    types: Annotated[list[QueueName], Meta(max_length=1000)] | None = None
    slots: Annotated[int, Meta(ge=0, le=1_000_000)] | None = None
    running: Annotated[int, Meta(ge=0, le=1_000_000)] | None = None
    up_seconds: Annotated[float, Meta(ge=0, le=SECONDS_LIMIT)] = 0.0
    host: Annotated[str, Meta(max_length=NAME_LIMIT)] | None = None
    pid: Annotated[int, Meta(ge=0, le=2**31)] | None = None
    version: Annotated[str, Meta(max_length=100)] | None = None
    stopping: Annotated[bool, Meta(description="It claims nothing more")] = False
    blocked: Annotated[str, Meta(max_length=500, description="What blocks its event loop")] | None = None
    breakers: Annotated[list[BreakerBody], Meta(max_length=BREAKERS_TOLD)] = []
    leaving: bool = False


class ExchangeBody(msgspec.Struct, frozen=True, kw_only=True):
    """All that a worker has to say at once. Every entry is what its own route takes, without the worker's name. `held`,
    said when a claim's answer was lost and no other is under way, names all attempts that the worker has. What else is
    claimed under its name goes back, uncharged."""

    worker_id: WorkerId
    complete: Annotated[list[Completion], Meta(max_length=EXCHANGE_LIMIT)] = []
    fail: Annotated[list[AttemptFailure], Meta(max_length=EXCHANGE_LIMIT)] = []
    heartbeat: Annotated[list[LeaseHeartbeat], Meta(max_length=EXCHANGE_LIMIT)] = []
    held: Annotated[list[AttemptId], Meta(max_length=HELD_LIMIT)] | None = None
    claim: ExchangeCriteria | None = None
    registration: Registration | None = None


Code = Literal["stale_lease", "illegal_transition"] | msgspec.UnsetType
Detail = str | msgspec.UnsetType
"""Of an entry that was refused, `code` and `detail` are those of the problem that its own route would answer."""


class CompletionAnswer(CompleteAnswer, frozen=True, kw_only=True):
    """What `complete` answers; with `ok` false nothing was written, and `code` says why."""

    code: Code = msgspec.UNSET
    detail: Detail = msgspec.UNSET


class AttemptFailureAnswer(FailAnswer, frozen=True, kw_only=True):
    """What `fail` answers, and what the job became; with `ok` false nothing was written, and `code` says why."""

    state: StateName | msgspec.UnsetType = msgspec.UNSET
    code: Code = msgspec.UNSET
    detail: Detail = msgspec.UNSET


class LeaseHeartbeatAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What `heartbeat` answers; with `ok` false nothing was written, and `code` says why."""

    ok: bool
    lease_expires_at: Timestamp | msgspec.UnsetType = msgspec.UNSET
    cancel_requested: bool | msgspec.UnsetType = msgspec.UNSET
    code: Code = msgspec.UNSET
    detail: Detail = msgspec.UNSET


class ExchangeAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer for every entry, in its order, and the jobs that were claimed. `uniform`: in place of `jobs`, in their
    order, to whoever said it."""

    complete: list[CompletionAnswer]
    fail: list[AttemptFailureAnswer]
    heartbeat: list[LeaseHeartbeatAnswer]
    claimed: bool
    jobs: list[ClaimedJob]
    uniform: list[UniformJobs] | msgspec.UnsetType = msgspec.UNSET


OWN_SPANS: Final = (b"x-euterpe-spans", b"own")
"""A worker that says this makes its spans itself."""
OWN_REGISTRATION: Final = (b"x-euterpe-registration", b"own")
"""A worker that says this registers itself; of any other a claim is taken for it."""
