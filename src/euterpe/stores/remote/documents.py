"""The API's words on the client's side: submissions into request bodies, documents back into jobs."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

import msgspec

from euterpe.model.duration import LONGEST_US, format_duration
from euterpe.model.failures.backoff import Backoff
from euterpe.model.failures.failure import MESSAGE_LIMIT, STACK_LIMIT, Failure
from euterpe.model.failures.retry import DEFAULT_RETRY, RetryPolicy
from euterpe.model.job import LOST_ATTEMPTS, UNFIT_CLAIMS, AttemptRow, Claim, JobRow, Lease, parse_attempt_id
from euterpe.model.priority import PRIORITY_NAMES
from euterpe.model.reading.job_query import query_text
from euterpe.model.reading.views import Search
from euterpe.model.state import CLAIMED, PLAIN_STAGES, State
from euterpe.model.submitting.submission import EXECUTION_TIMEOUT_US, NAME_LIMIT, VISIBILITY_US, Submission

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_SECOND_US: Final = 1_000_000
_NULL: Final = b"null"
Blank = msgspec.Raw(_NULL)


class Timed(msgspec.Struct, frozen=True, kw_only=True):
    """The times of a job's document."""

    created_at: datetime
    updated_at: datetime | None = None
    run_at: datetime | None = None
    scheduled_at: datetime | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    expires_at: datetime | None = None
    heartbeat_at: datetime | None = None
    lease_expires_at: datetime | None = None


class ProgressReply(msgspec.Struct, frozen=True):
    percent: float
    message: str | None = None


class JobReply(Timed, frozen=True, kw_only=True):
    """What `GET /jobs/{id}` answers. Payload and result stay the bytes that they were."""

    job_id: str
    type: str
    queue: str
    state: State
    stage: str | None
    priority: str
    attempt: int
    max_attempts: int
    claim_version: int
    worker_id: str | None = None
    progress: ProgressReply | None = None
    tags: dict[str, str] = {}
    correlation_id: str | None = None
    callback_url: str | None = None
    parent_id: str | None = None
    replay_of: str | None = None
    payload: msgspec.Raw = Blank
    payload_format: str = "json"
    result: msgspec.Raw = Blank
    error: msgspec.Raw = Blank
    dependency: str | None = None
    pending_dependencies: int = 0
    depends_on: tuple[str, ...] | None = None


class ClaimedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """One job of a claim's answer."""

    job_id: str
    attempt_id: str
    lease_token: str
    queue: str
    payload: msgspec.Raw
    lease_ttl_seconds: float
    type: str
    attempt: int
    max_attempts: int
    timeout_seconds: float
    lease_expires_at: str
    priority: str
    created_at: str
    payload_format: str = "json"
    tags: dict[str, str] | None = None
    correlation_id: str | None = None
    requester: str = ""
    depends_on: tuple[str, ...] | None = None
    stages: list[str] | None = None
    checkpoint: msgspec.Raw = Blank
    checkpoint_format: str = "json"
    lost_attempts: int = 0
    unfit_claims: int = 0


class UniformDocument(msgspec.Struct, frozen=True):
    """Jobs of a claim's answer that differ in little: the first, and of each other its id, token and payload."""

    first: ClaimedDocument
    others: list[tuple[str, str, msgspec.Raw]]


class AttemptReply(msgspec.Struct, frozen=True, kw_only=True):
    attempt_id: str
    attempt: int
    worker_id: str | None
    started_at: datetime
    ended_at: datetime | None
    outcome: str | None
    error: msgspec.Raw = Blank


class JobPageReply(msgspec.Struct, frozen=True):
    jobs: list[JobReply]
    cursor: str | None


def microseconds(at: datetime | None) -> int | None:
    return None if at is None else (at - _EPOCH) // _MICROSECOND


AS_SAID: Final = (
    "idempotency_key", "correlation_id", "callback_url", "concurrency_key", "concurrency_limit", "tags", "unique_key",
)  # fmt: skip


def body_of(submission: Submission) -> dict[str, Any]:
    """A submission as `POST /jobs` takes it; what is the default anyway is left out."""
    s = submission
    body: dict[str, Any] = {
        "type": s.type,
        "payload": stored_to_wire(s.payload, s.payload_format),
        "payload_format": s.payload_format,
        "queue": s.queue,
        "priority": PRIORITY_NAMES[s.priority],
        "max_attempts": s.max_attempts,
        "timeout": _duration(s.execution_timeout_us),
        "visibility": _duration(s.visibility_us),
        "lifetime": _duration(s.lifetime_us),
        "callback_events": s.callback_events,
        "dependency": str(s.dependency),
    }
    for name in (
        "idempotency_key",
        "correlation_id",
        "callback_url",
        "concurrency_key",
        "concurrency_limit",
        "tags",
        "unique_key",
    ):
        if (value := getattr(s, name)) is not None:
            body[name] = value
    if s.unique_key is not None:
        body["unique"] = str(s.unique)
    if s.idempotency_window_us is not None:
        body["idempotency_window"] = _duration(s.idempotency_window_us)
    if s.delay_us:
        body["delay"] = _duration(s.delay_us)
    if s.run_at is not None:
        body["run_at"] = (_EPOCH + s.run_at * _MICROSECOND).isoformat()
    if s.retry != DEFAULT_RETRY:
        body["backoff"] = _backoff(s.retry)
    if s.stages is not PLAIN_STAGES:
        body["stages"] = s.stages
    if s.depends_on:
        body["depends_on"] = s.depends_on
    return body


def _backoff(retry: RetryPolicy) -> dict[str, Any]:
    backoff: Backoff = retry.backoff
    body: dict[str, Any] = {
        "strategy": str(backoff.strategy),
        "initial": _duration(backoff.initial_us),
        "max": _duration(backoff.max_us),
        "multiplier": backoff.multiplier,
        "jitter": backoff.jitter,
        "on_timeout": retry.on_timeout,
        "on_system": retry.on_system,
    }
    if backoff.name is not None:
        body["name"] = backoff.name
    return body


def _duration(duration_us: int) -> str:
    return format_duration(duration_us) if duration_us else "0s"


def stored_to_wire(stored: bytes, form: str) -> msgspec.Raw | dict[str, str]:
    """JSON as it is, bytes as {"base64": "..."}."""
    return msgspec.Raw(stored) if form == "json" else {"base64": base64.b64encode(stored).decode()}


def wire_to_stored(raw: msgspec.Raw, form: str) -> bytes:
    if form == "json":
        return bytes(raw)
    return base64.b64decode(msgspec.json.decode(raw)["base64"])


def error_body(failure: Failure) -> dict[str, Any]:
    """A failure as `fail` takes it: within its limits, and without what JSON or a database would refuse."""
    body: dict[str, Any] = {
        "message": _clean(failure.message[:MESSAGE_LIMIT]),
        "code": _clean(failure.code[:NAME_LIMIT]) or "error",
        "category": str(failure.category),
    }
    if failure.stack:
        body["stack"] = _clean(failure.stack[-STACK_LIMIT:])
    if failure.retry_after_us is not None:
        body["retry_after"] = _duration(min(failure.retry_after_us, LONGEST_US))
    if failure.http_status is not None and 100 <= failure.http_status <= 599:
        body["http_status"] = failure.http_status
    if failure.unfit:
        body["unfit"] = True
    return body


def _clean(text: str) -> str:
    return text.encode(errors="replace").decode().replace("\x00", "\N{REPLACEMENT CHARACTER}")


def job_of(document: JobReply) -> JobRow:
    """A job as far as its document tells; the rest, which only an engine uses, is at its default."""
    d = document
    created_at = microseconds(d.created_at) or 0
    return _job(
        id=d.job_id,
        queue=d.queue,
        type=d.type,
        state=d.state,
        stage=d.stage,
        priority=PRIORITY_NAMES.index(d.priority),
        payload=wire_to_stored(d.payload, d.payload_format),
        payload_format=d.payload_format,
        attempt_count=d.attempt,
        max_attempts=d.max_attempts,
        claim_version=d.claim_version,
        worker_id=d.worker_id,
        lease_expires_at=microseconds(d.lease_expires_at),
        heartbeat_at=microseconds(d.heartbeat_at),
        run_at=microseconds(d.run_at) or created_at,
        created_at=created_at,
        updated_at=microseconds(d.updated_at) or created_at,
        scheduled_at=microseconds(d.scheduled_at),
        started_at=microseconds(d.started_at),
        completed_at=microseconds(d.completed_at),
        expires_at=microseconds(d.expires_at) or 0,
        result=_or_none(d.result),
        error=_text_or_none(d.error),
        progress=None if d.progress is None else d.progress.percent,
        progress_message=None if d.progress is None else d.progress.message,
        tags_json=msgspec.json.encode(d.tags).decode() if d.tags else None,
        correlation_id=d.correlation_id,
        callback_url=d.callback_url,
        dependency=d.dependency,
        pending_dependencies=d.pending_dependencies,
        depends_on=None if d.dependency is None else d.depends_on,
        parent_id=d.parent_id,
        replay_of=d.replay_of,
    )


def claim_of(document: ClaimedDocument, worker_id: str) -> Claim:
    """A claim as a worker knows it. Its lease lasts as long as the control plane says, whatever was asked for."""
    d = document
    _, version = parse_attempt_id(d.attempt_id) or ("", 0)
    ttl_us = round(d.lease_ttl_seconds * _SECOND_US)
    expires_at, created_at = _moment(d.lease_expires_at), _moment(d.created_at)
    checkpoint = None
    if bytes(d.checkpoint) != _NULL:
        mark = b"j" if d.checkpoint_format == "json" else b"b"
        checkpoint = mark + wire_to_stored(d.checkpoint, d.checkpoint_format)
    # Each field in its place: a busy worker reads thousands a second, and names would cost twice as much.
    job = JobRow(
        0, d.job_id, d.requester, d.queue, d.type, State.RUNNING, CLAIMED,
        PRIORITY_NAMES.index(d.priority), wire_to_stored(d.payload, d.payload_format), d.payload_format, d.attempt,
        d.max_attempts, 0, version, worker_id, expires_at,
        None, created_at, created_at, created_at, None, expires_at - ttl_us, None, 0,
        round(d.timeout_seconds * _SECOND_US), ttl_us, None,
        None if d.stages is None else msgspec.json.encode(d.stages).decode(), None, _counts(d), None, None,
        checkpoint, msgspec.json.encode(d.tags).decode() if d.tags else None, d.correlation_id, None,
        "all", None, None, 0, 0, False, None, None, None, 0, None, None, d.depends_on,
    )  # fmt: skip
    return Claim(job, Lease(d.job_id, version, expires_at, d.lease_token, worker_id))


def _counts(d: ClaimedDocument) -> str | None:
    """The part of the stored error that a worker needs."""
    if not d.lost_attempts and not d.unfit_claims:
        return None
    return msgspec.json.encode({LOST_ATTEMPTS: d.lost_attempts, UNFIT_CLAIMS: d.unfit_claims}).decode()


def claims_of(group: UniformDocument, worker_id: str) -> Iterator[Claim]:
    first = claim_of(group.first, worker_id)
    yield first
    job, lease = first.job, first.lease
    form = job.payload_format
    for job_id, token, payload in group.others:
        yield Claim(
            msgspec.structs.replace(job, id=job_id, payload=wire_to_stored(payload, form)),
            Lease(job_id, lease.claim_version, lease.expires_at, token, worker_id),
        )


@lru_cache(maxsize=1024)  # Jobs of a batch were created, and are leased, at the same moment.
def _moment(text: str) -> int:
    return microseconds(msgspec.convert(text, datetime)) or 0


def attempt_of(job_id: str, document: AttemptReply) -> AttemptRow:
    _, version = parse_attempt_id(document.attempt_id) or (job_id, 0)
    return AttemptRow(
        job_id,
        version,
        document.attempt,
        document.worker_id,
        microseconds(document.started_at) or 0,
        microseconds(document.ended_at),
        document.outcome,
        _text_or_none(document.error),
    )


_DEFAULTS: Final[Mapping[str, Any]] = {
    **dict.fromkeys(JobRow.__struct_fields__),
    "seq": 0,
    "requester_id": "",
    "release_count": 0,
    "expires_at": 0,
    "execution_timeout_us": EXECUTION_TIMEOUT_US,
    "visibility_us": VISIBILITY_US,
    "callback_events": "all",
    "pending_dependencies": 0,
    "depth": 0,
    "has_dependents": False,
    "transitions": 0,
}
_UNREPORTED: Final = JobRow(**_DEFAULTS)


def _job(**told: Any) -> JobRow:
    return msgspec.structs.replace(_UNREPORTED, **told)


def _or_none(raw: msgspec.Raw) -> bytes | None:
    return None if bytes(raw) == _NULL else bytes(raw)


def _text_or_none(raw: msgspec.Raw) -> str | None:
    return None if bytes(raw) == _NULL else bytes(raw).decode()


def criteria_of(query: Search) -> dict[str, str]:
    """A search as the parameters of `GET /jobs`. What bounds how far a page looks travels as a query text."""
    params = {} if query.cursor is None else {"cursor": query.cursor}
    if query.scan_limit is not None or query_text(query) != query_text(_plain(query)):
        return params | {"q": query_text(query)}
    for name in ("state", "type", "queue"):
        if (value := getattr(query, name)) is not None:
            params[name] = str(value)
    if query.tag is not None:
        params["tag"] = ":".join(query.tag)
    return params


def _plain(query: Search) -> Search:
    """Of all that is asked for, what has a parameter of its own."""
    return Search(state=query.state, type=query.type, queue=query.queue, tag=query.tag)
