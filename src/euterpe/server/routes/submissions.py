"""From a submission as it was sent to the one that is stored; whatever is wrong gets a pointer to its place."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from euterpe.model.dependency import Dependency
from euterpe.model.duration import parse_duration_us
from euterpe.model.errors import InvalidInput
from euterpe.model.failures.backoff import Backoff, Strategy
from euterpe.model.failures.retry import RetryPolicy
from euterpe.model.priority import parse_priority
from euterpe.model.state import TRANSCODE
from euterpe.model.submitting.batch import Draft, new_ids
from euterpe.model.submitting.submission import Submission, check
from euterpe.model.submitting.unique import Unique
from euterpe.server.http.decoding import opaque_json
from euterpe.server.http.problems import Refusal, pointer_of, refusal_of
from euterpe.server.job_types import UNDECLARED, JobTypes
from euterpe.server.traceparent import with_parent
from euterpe.wire.jobs import BackoffBody, BatchJobBody, SubmissionBody

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UUID_LENGTH: Final = 36
_HEX: Final = frozenset("0123456789abcdef")


class Base64(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How bytes travel in JSON."""

    base64: bytes


def job_id_of(text: str) -> str | None:
    """The canonical form of a job's (or event's) id; None for what cannot be one."""
    text = text.lower()
    parts = text.split("-")
    if len(text) == _UUID_LENGTH and [len(p) for p in parts] == [8, 4, 4, 4, 12] and _HEX.issuperset("".join(parts)):
        return text
    return None


def submission_of(
    body: SubmissionBody,
    requester_id: str,
    payload_limit: int,
    key: str | None = None,
    at: str = "",
    types: JobTypes = {},  # noqa: B006  # read only
) -> Submission:
    """Checked. `at` is the pointer to this body inside the request; `key` the Idempotency-Key header."""
    declared = types.get(body.type)
    usual = UNDECLARED if declared is None else declared.usual
    try:
        if body.type == TRANSCODE:
            raise InvalidInput("type", "transcode is built in: submit transcodes by POST /transcode")
        submission = _translated(body, usual, requester_id, at, key)
        check(submission, payload_limit)
        if declared is not None:
            declared.check_arguments(submission.payload, submission.payload_format)
    except InvalidInput as error:
        refusal = refusal_of(error)
        raise Refusal(refusal.status, refusal.code, refusal.detail, pointer=at + pointer_of(error.field)) from None
    return submission


def _translated(body: SubmissionBody, usual: Submission, requester_id: str, at: str, key: str | None) -> Submission:
    """What the request says wins over what is usual for its type. As in Python, null says nothing."""
    says_when = body.delay is not None or body.run_at is not None
    return Submission(
        type=body.type,
        payload=bytes_of(body.payload, body.payload_format, f"{at}/payload"),
        payload_format=body.payload_format,
        requester_id=requester_id,
        queue=usual.queue if body.queue is UNSET else body.queue,
        priority=usual.priority if body.priority is UNSET else parse_priority(body.priority),
        delay_us=_delay_us(body.delay) if says_when else usual.delay_us,
        run_at=_microseconds(body.run_at) if says_when else usual.run_at,
        max_attempts=usual.max_attempts if body.max_attempts is UNSET else body.max_attempts,
        execution_timeout_us=_duration_us(body.timeout, usual.execution_timeout_us, "timeout"),
        visibility_us=_duration_us(body.visibility, usual.visibility_us, "visibility"),
        lifetime_us=_duration_us(body.lifetime, usual.lifetime_us, "lifetime"),
        retry=_retry(body.backoff, usual.retry),
        stages=usual.stages if body.stages is None else tuple(body.stages),
        idempotency_key=_one_key(body.idempotency_key, key),
        idempotency_window_us=_window_us(body.idempotency_window, usual.idempotency_window_us),
        correlation_id=usual.correlation_id if body.correlation_id is None else body.correlation_id,
        tags=usual.tags if body.tags is None else body.tags or None,
        depends_on=tuple(dict.fromkeys(body.depends_on)),
        dependency=usual.dependency if body.dependency is UNSET else Dependency(body.dependency),
        callback_url=usual.callback_url if body.callback_url is None else body.callback_url,
        callback_events=usual.callback_events if body.callback_events is UNSET else body.callback_events,
        concurrency_key=usual.concurrency_key if body.concurrency_key is None else body.concurrency_key,
        concurrency_limit=usual.concurrency_limit if body.concurrency_limit is None else body.concurrency_limit,
        unique_key=usual.unique_key if body.unique_key is None else body.unique_key,
        unique=usual.unique if body.unique is UNSET else Unique(body.unique),
    )


def _window_us(value: str | float | None, usual_us: int | None) -> int | None:
    return usual_us if value is None else parse_duration_us(value, "idempotency_window")


def _duration_us(value: str | float | UnsetType, usual_us: int, field: str) -> int:
    return usual_us if value is UNSET else parse_duration_us(value, field)


def _delay_us(value: str | float | None) -> int:
    return 0 if value is None else parse_duration_us(value, "delay")


def bytes_of(raw: msgspec.Raw, form: str, pointer: str) -> bytes:
    """What is stored: JSON as it came, or the bytes inside {"base64": "..."}."""
    if form == "json":
        return opaque_json(raw, pointer)
    try:
        return msgspec.json.decode(raw, type=Base64).base64
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise Refusal(422, "invalid_input", 'bytes travel as {"base64": "..."}', pointer=pointer) from None


def _microseconds(at: datetime | None) -> int | None:
    if at is None:
        return None
    since_us = (at - _EPOCH) // timedelta(microseconds=1)
    if since_us < 0:
        raise InvalidInput("run_at", "lies before 1970")
    return since_us


def _retry(value: BackoffBody | str | None, usual: RetryPolicy) -> RetryPolicy:
    if value is None:
        return usual
    body = BackoffBody(strategy=Strategy(value).value) if isinstance(value, str) else value
    backoff = Backoff(
        strategy=Strategy(body.strategy),
        initial_us=parse_duration_us(body.initial, "backoff.initial"),
        max_us=parse_duration_us(body.max, "backoff.max"),
        multiplier=body.multiplier,
        jitter=body.jitter,
        name=body.name,
    )
    return RetryPolicy(
        backoff,
        on_timeout=usual.on_timeout if body.on_timeout is UNSET else body.on_timeout,
        on_system=usual.on_system if body.on_system is UNSET else body.on_system,
    )


def _one_key(field: str | None, header: str | None) -> str | None:
    if field is not None and header is not None and field != header:
        raise InvalidInput("idempotency_key", "differs from the Idempotency-Key header; send one of them")
    return header if field is None else field


def batch_key(field: str | None, header: str | None) -> str | None:
    try:
        return _one_key(field, header)
    except InvalidInput as error:
        raise refusal_of(error) from None


def drafts_of_batch(
    bodies: Sequence[BatchJobBody],
    requester_id: str,
    payload_limit: int,
    traceparent: str | None = None,
    types: JobTypes = {},  # noqa: B006  # read only
) -> list[Draft]:
    """Jobs with their ids; `#ref` becomes the id of the job that has this ref."""
    ids = new_ids(len(bodies))
    by_ref: dict[str, str] = {}
    for i, (body, job_id) in enumerate(zip(bodies, ids, strict=True)):
        if body.ref is not None and by_ref.setdefault(body.ref, job_id) != job_id:
            raise Refusal(422, "invalid_input", f"the ref {body.ref!r} stands there twice", pointer=f"/jobs/{i}/ref")
    drafts = []
    for i, (body, job_id) in enumerate(zip(bodies, ids, strict=True)):
        at = f"/jobs/{i}"
        submission = with_parent(submission_of(body, requester_id, payload_limit, at=at, types=types), traceparent)
        depends_on = tuple(_resolved(d, by_ref, f"{at}/depends_on") for d in submission.depends_on)
        if depends_on != submission.depends_on and submission.idempotency_key is not None:
            # Its dependencies get new ids at every try, so a repeated request would look like another one.
            detail = "a job that depends on others of its batch cannot have a key of its own; give the batch one"
            raise Refusal(422, "invalid_input", detail, pointer=f"{at}/idempotency_key")
        drafts.append(Draft(job_id, msgspec.structs.replace(submission, depends_on=depends_on)))
    return drafts


def _resolved(dependency: str, by_ref: dict[str, str], pointer: str) -> str:
    if dependency.startswith("#"):
        job_id = by_ref.get(dependency[1:])
        if job_id is None:
            raise unknown_dependency(dependency, pointer)
        return job_id
    return canonical_dependency(dependency, pointer)


def canonical_dependency(dependency: str, pointer: str) -> str:
    job_id = job_id_of(dependency)
    if job_id is None:
        raise unknown_dependency(dependency, pointer)
    return job_id


def unknown_dependency(dependency: str, pointer: str) -> Refusal:
    return Refusal(422, "unknown_dependency", f"there is no job {dependency[:100]!r}", pointer=pointer)
