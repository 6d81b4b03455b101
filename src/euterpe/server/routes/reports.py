"""Checks what an HTTP worker reports and turns it into what the store takes: outcomes, heartbeats, progress.

Each function takes one entry, alone or of an exchange; `at` is the pointer to it inside the request. None stands for a
lease that can be nobody's: the attempt's id is not that of the job.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final

import msgspec

from euterpe.model.claims.outcome import Cancelled, Failed, Outcome, Released, Success
from euterpe.model.claims.worker_reports import ProgressFields, ShownLease, TokenReport, version_in
from euterpe.model.duration import parse_duration_us
from euterpe.model.errors import InvalidInput
from euterpe.model.failures.failure import Category, Failure, category_of_status
from euterpe.model.job import parse_attempt_id
from euterpe.model.submitting.submission import RESULT_LIMIT
from euterpe.observe.logs import hide_secrets
from euterpe.server.http.decoding import canonical_json
from euterpe.server.http.problems import Refusal, pointer_of
from euterpe.server.routes.submissions import bytes_of
from euterpe.wire.attempt_logs import stored_of
from euterpe.wire.worker import (
    ABSENT,
    AttemptFailure,
    Completion,
    LeaseHeartbeat,
    ProgressBody,
    SpawnBody,
    StreamRef,
    WorkerError,
)

FIRST_REFUSAL: Final = 400
_NOTHING: Final = Success(None)


def _hash(said: bytes) -> bytes:
    """By which a report that comes again is known."""
    return hashlib.sha256(said).digest()


_HASH_OF_NOTHING: Final = _hash(b"complete" + b"null")


def held_claims(attempt_ids: Iterable[str]) -> set[tuple[str, int]]:
    """By job_id and claim_version. An id that cannot be read is refused: its job would be given back while it runs."""
    found = set()
    for i, text in enumerate(attempt_ids):
        claim = parse_attempt_id(text)
        if claim is None:
            raise Refusal(422, "invalid_input", f"{text!r} is no attempt_id", pointer=f"/held/{i}")
        found.add(claim)
    return found


def completion_report(completion: Completion, worker_id: str, at: str = "") -> TokenReport | None:
    if bytes(completion.result) in ABSENT:
        return _report(completion, worker_id, _NOTHING, _HASH_OF_NOTHING)
    spelled, result = _result(completion.result, f"{at}/result")
    return _report(completion, worker_id, Success(result), _hash(b"complete" + spelled))


def _result(raw: msgspec.Raw, pointer: str) -> tuple[bytes, bytes]:
    """In the one spelling that is hashed, and as it came."""
    result, spelled = bytes(raw), canonical_json(raw, pointer)
    if len(result) > RESULT_LIMIT:
        detail = f"{len(result)} bytes; the limit is {RESULT_LIMIT}. Store it elsewhere and send a pointer"
        raise Refusal(413, "payload_too_large", detail, pointer=pointer)
    return spelled, result


def failure_report(failure: AttemptFailure, worker_id: str, at: str = "") -> TokenReport | None:
    if failure.released:
        outcome: Outcome = Released()
    elif failure.error is None:
        raise Refusal(422, "invalid_input", "say what went wrong, or `released`", pointer=f"{at}/error")
    else:
        outcome = _failed(failure.error, f"{at}/error")
    said = msgspec.json.encode((failure.released, failure.error))
    return _report(failure, worker_id, outcome, _hash(b"fail" + said))


def _report(
    entry: Completion | AttemptFailure, worker_id: str, outcome: Outcome, outcome_hash: bytes
) -> TokenReport | None:
    lease = lease_of(entry, worker_id)
    if lease is None:
        return None
    said = (outcome, outcome_hash, _message(entry), _log(entry))
    return TokenReport(lease.job_id, lease.claim_version, worker_id, lease.token, *said)


def _log(entry: Completion | AttemptFailure) -> str | None:
    """Workers in other languages hide no secrets of their own accord."""
    return None if entry.log is None else stored_of(entry.log, hide_secrets)


def _message(entry: Completion | AttemptFailure) -> tuple[str, str] | None:
    if isinstance(entry.stream, StreamRef):
        return entry.stream.name, entry.stream.message_id
    return None if entry.stream is None or entry.message_id is None else (entry.stream, entry.message_id)


def _failed(error: WorkerError, at: str) -> Outcome:
    """The category says it best, then the HTTP status by the contract's table, then `retryable`."""
    if error.category is not None:
        category = Category(error.category)
    elif error.http_status is not None and error.http_status >= FIRST_REFUSAL:
        category = category_of_status(error.http_status)
    else:
        category = Category.TEMPORARY if error.retryable else Category.PERMANENT
    if category is Category.CANCELLED:
        return Cancelled(error.message)
    try:
        retry_after_us = None if error.retry_after is None else parse_duration_us(error.retry_after, "retry_after")
    except InvalidInput as wrong:
        raise Refusal(422, "invalid_input", wrong.reason, pointer=at + pointer_of(wrong.field)) from None
    failure = Failure(category, error.message, error.code, error.stack, retry_after_us, error.http_status)
    return Failed(msgspec.structs.replace(failure, unfit=error.unfit) if error.unfit else failure)


def lease_of(entry: LeaseHeartbeat | Completion | AttemptFailure | SpawnBody, worker_id: str) -> ShownLease | None:
    """A heartbeat may name no attempt; then its token says which claim it is for."""
    job_id = str(entry.job_id)
    if entry.attempt_id is None:
        version = version_in(entry.lease_token)
    else:
        parsed = parse_attempt_id(entry.attempt_id)
        version = None if parsed is None or parsed[0].lower() != job_id else parsed[1]
    if version is None or version >= 2**63:
        return None
    return ShownLease(job_id, version, worker_id, entry.lease_token)


def fields_of(heartbeat: LeaseHeartbeat, at: str = "") -> ProgressFields | None:
    """What a heartbeat tells beside being one; None: nothing."""
    has_checkpoint = bytes(heartbeat.checkpoint) not in ABSENT
    if heartbeat.stage is None and heartbeat.progress is None and not has_checkpoint:
        return None
    progress = heartbeat.progress
    percent = progress.percent if isinstance(progress, ProgressBody) else progress
    checkpoint = None
    if has_checkpoint:
        mark = b"j" if heartbeat.checkpoint_format == "json" else b"b"
        checkpoint = mark + bytes_of(heartbeat.checkpoint, heartbeat.checkpoint_format, f"{at}/checkpoint")
        if len(checkpoint) > RESULT_LIMIT:
            detail = f"{len(checkpoint)} bytes; the limit is {RESULT_LIMIT}"
            raise Refusal(413, "payload_too_large", detail, pointer=f"{at}/checkpoint")
    message = progress.message if isinstance(progress, ProgressBody) else None
    return ProgressFields(stage=heartbeat.stage, progress=percent, message=message, checkpoint=checkpoint)
