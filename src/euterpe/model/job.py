"""The job as stored, its lease, and one execution of it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import msgspec

from euterpe.model.errors import UnprocessableRow
from euterpe.model.failures.failure import Category, unprocessable
from euterpe.model.failures.retry import DEFAULT_RETRY, RetryPolicy, retry_from_wire
from euterpe.model.state import CLAIMED, PLAIN_STAGES, State, status

_TAGS: Final = msgspec.json.Decoder(dict[str, str])
_STAGES: Final = msgspec.json.Decoder(tuple[str, ...])
_POLICY: Final = msgspec.json.Decoder(dict[str, Any] | None)
_ERROR: Final = msgspec.json.Decoder(dict[str, Any])
LOST_ATTEMPTS: Final = "lost_attempts"
"""In the error document: how many attempts in a row ended with a lost worker."""
REFUNDED_LOSSES: Final = "refunded_losses"
"""In the error document: how many of these have been given back already."""
UNFIT_CLAIMS: Final = "unfit_claims"
"""In the error document: how many workers in a row could not run the job just then."""
# What a decoder of stored text may raise; the last two come from a policy that is JSON and makes no sense.
_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeError, ValueError, TypeError)


class JobRow(msgspec.Struct, frozen=True, gc=False):
    """One row of `inbox_jobs`, field for field in the order of `queries/read/job_columns.sql`.

    A msgspec.Struct and not a dataclass because a claim makes a thousand of these at once, and this
    is built in C; without `gc`, the collector does not look through them. Times are integer microseconds
    since the epoch, UTC.
    """

    seq: int
    id: str
    requester_id: str
    queue: str
    type: str
    state: State
    stage: str | None
    priority: int
    payload: bytes
    payload_format: str
    attempt_count: int
    max_attempts: int
    release_count: int
    claim_version: int
    worker_id: str | None
    lease_expires_at: int | None
    heartbeat_at: int | None
    run_at: int
    created_at: int
    updated_at: int
    scheduled_at: int | None
    started_at: int | None
    completed_at: int | None
    expires_at: int
    execution_timeout_us: int
    visibility_us: int
    retry_policy: str | None
    stages_json: str | None
    result: bytes | None
    error: str | None
    progress: float | None
    progress_message: str | None
    checkpoint: bytes | None
    tags_json: str | None
    correlation_id: str | None
    callback_url: str | None
    callback_events: str
    idempotency_key: str | None
    dependency: str | None
    pending_dependencies: int
    depth: int
    has_dependents: bool
    parent_id: str | None
    replay_of: str | None
    cancel_version: int | None
    transitions: int
    concurrency_key: str | None
    concurrency_limit: int | None
    depends_on: tuple[str, ...] | None = None
    """No column: the ids of its dependencies, where somebody has read them."""

    @property
    def attempt_id(self) -> str | None:
        """The current or last attempt; None before the first claim."""
        return attempt_id(self.id, self.claim_version) if self.claim_version else None

    @property
    def previous_attempt_id(self) -> str | None:
        """Links a retry to the attempt before it. Every claim takes the next version, so it is the one below."""
        return attempt_id(self.id, self.claim_version - 1) if self.claim_version > 1 else None

    @property
    def status(self) -> str:
        return status(self.state, self.stage)

    @property
    def tags(self) -> dict[str, str]:
        if not self.tags_json:
            return {}
        try:
            return _TAGS.decode(self.tags_json)
        except _UNREADABLE:
            raise UnprocessableRow(self.id, "tags") from None

    @property
    def stages(self) -> tuple[str, ...]:
        if not self.stages_json:
            return PLAIN_STAGES
        try:
            return stages_of(self.stages_json)
        except _UNREADABLE:
            raise UnprocessableRow(self.id, "stages") from None

    @property
    def retry(self) -> RetryPolicy:
        if not self.retry_policy:
            return DEFAULT_RETRY
        try:
            return policy_of(self.retry_policy)
        except _UNREADABLE:
            raise UnprocessableRow(self.id, "retry_policy") from None

    @property
    def error_document(self) -> dict[str, Any] | None:
        return read_error(self.error) if self.error else None

    @property
    def lost_attempts(self) -> int:
        """How many attempts in a row ended with a lost worker. A job with any is a suspect (ADR 018)."""
        return 0 if self.error is None else count_in(read_error(self.error), LOST_ATTEMPTS)

    @property
    def refunded_losses(self) -> int:
        return 0 if self.error is None else count_in(read_error(self.error), REFUNDED_LOSSES)

    @property
    def times_left(self) -> int:
        """How many claims in a row were given back because their worker could not run the job just then."""
        return 0 if self.error is None else count_in(read_error(self.error), UNFIT_CLAIMS)

    @property
    def can_lose_its_worker(self) -> bool:
        """Whether a running job would be tried again if its worker were lost now."""
        if self.attempt_count >= self.max_attempts:
            return False
        try:
            return self.retry_policy is None or self.retry.retries(Category.SYSTEM)
        except UnprocessableRow:
            return False

    @property
    def cancel_requested(self) -> bool:
        """A cancel is bound to the claim that it saw."""
        return self.cancel_version is not None and self.cancel_version == self.claim_version

    @property
    def outlived_its_deadline(self) -> bool:
        """Of a running job whose lease is over: whether its time to execute was used up, and not its worker lost.

        The deadline bounds the lease of an HTTP worker; one beside the database may renew it for a while longer."""
        if self.started_at is None or self.lease_expires_at is None:
            return False
        deadline = self.started_at + self.execution_timeout_us
        return self.lease_expires_at == deadline or (self.heartbeat_at or 0) >= deadline

    @property
    def current_stage(self) -> str:
        return self.stage or CLAIMED


@lru_cache(maxsize=1024)  # Few texts, many jobs: a job type declares them.
def policy_of(stored: str) -> RetryPolicy:
    return retry_from_wire(_POLICY.decode(stored))


@lru_cache(maxsize=1024)
def stages_of(stored: str) -> tuple[str, ...]:
    return _STAGES.decode(stored)


def read_error(stored: str) -> dict[str, Any]:
    """A stored error; one that cannot be read says so."""
    try:
        return _ERROR.decode(stored)
    except _UNREADABLE:
        return unprocessable("its error cannot be read").as_error(0, retryable=False)


def count_in(error: dict[str, Any], name: str) -> int:
    """A count that an error document carries; 0 if it carries none, or nonsense."""
    try:
        return max(0, int(error.get(name, 0)))
    except (TypeError, ValueError):
        return 0


def attempt_id(job_id: str, claim_version: int) -> str:
    """An attempt needs no id of its own: a claim version is used once, so job and version name it."""
    return f"{job_id}:{claim_version}"


def parse_attempt_id(value: str) -> tuple[str, int] | None:
    """(job_id, claim_version), or None for anything that is not an attempt id."""
    job_id, _, version = value.rpartition(":")
    return (job_id, int(version)) if job_id and version.isascii() and version.isdigit() else None


class Lease(msgspec.Struct, frozen=True, gc=False):
    """The exclusive right to run a job until it expires. The version fences; the token authenticates."""

    job_id: str
    claim_version: int
    expires_at: int
    token: str | None = None
    worker_id: str | None = None
    """Who shows the token; a worker beside the database needs neither."""

    @property
    def attempt_id(self) -> str:
        return attempt_id(self.job_id, self.claim_version)


class Claim(msgspec.Struct, frozen=True, gc=False):
    """What a worker gets: the job and the lease that lets it write."""

    job: JobRow
    lease: Lease


class AttemptRow(msgspec.Struct, frozen=True):
    """One execution. The open one is read off the job's row; one that ended is a row of `job_attempts`."""

    job_id: str
    claim_version: int
    attempt: int
    worker_id: str | None
    started_at: int
    ended_at: int | None
    outcome: str | None
    error: str | None

    @property
    def attempt_id(self) -> str:
        return attempt_id(self.job_id, self.claim_version)
