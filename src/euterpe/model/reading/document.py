"""A job as the outside sees it: one document for the API, the command line and webhooks."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Final

import msgspec

from euterpe.model.errors import UnprocessableRow
from euterpe.model.job import JobRow
from euterpe.model.json_depth import MOST_LEVELS, is_too_deep
from euterpe.model.priority import PRIORITY_NAMES
from euterpe.model.reading.readable import is_json

_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001  # in UTC, as everything here

# A time that has no RFC 3339 form can only have been written by hand; it must not hide the job.
_NEVER: Final = "9999-12-31T23:59:59.999999Z"
_EVER: Final = "0001-01-01T00:00:00.000000Z"


@lru_cache(maxsize=1024)  # Jobs of a batch were created, and are leased, at the same moment.
def rfc3339(at_us: int | None) -> str | None:
    if at_us is None:
        return None
    try:
        return f"{_second(at_us // 1_000_000)}.{at_us % 1_000_000:06d}Z"
    except OverflowError:
        return _NEVER if at_us > 0 else _EVER


@lru_cache(maxsize=16)  # Single submits come by the thousand in a second.
def _second(since_epoch_s: int) -> str:
    return (_EPOCH + timedelta(seconds=since_epoch_s)).isoformat()


def status_document(job: JobRow) -> dict[str, Any]:
    """Status and metadata, without payload or result: what an intermediate webhook carries."""
    return {
        "job_id": job.id,
        "type": job.type,
        "queue": job.queue,
        "state": str(job.state),
        "stage": job.stage,
        "status": job.status,
        "priority": PRIORITY_NAMES[job.priority],
        "attempt": job.attempt_count,
        "max_attempts": job.max_attempts,
        "attempt_id": job.attempt_id,
        "previous_attempt_id": job.previous_attempt_id,
        "claim_version": job.claim_version,
        "worker_id": job.worker_id,
        "progress": None if job.progress is None else {"percent": job.progress, "message": job.progress_message},
        "tags": tags_of(job),
        "correlation_id": job.correlation_id,
        "callback_url": job.callback_url,
        "parent_id": job.parent_id,
        "replay_of": job.replay_of,
        "created_at": rfc3339(job.created_at),
        "updated_at": rfc3339(job.updated_at),
        "run_at": rfc3339(job.run_at),
        "scheduled_at": rfc3339(job.scheduled_at),
        "started_at": rfc3339(job.started_at),
        "completed_at": rfc3339(job.completed_at),
        "expires_at": rfc3339(job.expires_at),
        "heartbeat_at": rfc3339(job.heartbeat_at),
        "lease_expires_at": rfc3339(job.lease_expires_at),
    }


def job_document(job: JobRow) -> dict[str, Any]:
    """The whole job. A JSON payload and result are shown as they are, bytes as base64."""
    document = status_document(job)
    document["payload"] = _shown(job.payload) if job.payload_format == "json" else _base64(job.payload)
    document["payload_format"] = job.payload_format
    document["result"] = None if job.result is None else _shown(job.result)
    document["error"] = None if job.error is None else job.error_document
    document["dependency"] = job.dependency
    document["pending_dependencies"] = job.pending_dependencies
    if job.dependency is None or job.depends_on is not None:
        document["depends_on"] = list(job.depends_on or ())
    return document


def tags_of(job: JobRow) -> dict[str, str]:
    """None of a row that was spoilt: it must not hide the rest."""
    try:
        return job.tags
    except UnprocessableRow:
        return {}


def _shown(stored: bytes) -> msgspec.Raw | dict[str, str]:
    """JSON as it is; what cannot be read as bytes, so that it does not break the document around it."""
    return msgspec.Raw(stored) if is_json(stored) else {"unreadable": _fault(stored), **_base64(stored)}


def _fault(stored: bytes) -> str:
    return f"nested deeper than {MOST_LEVELS} levels" if is_too_deep(stored) else "no JSON"


def _base64(stored: bytes) -> dict[str, str]:
    return {"base64": msgspec.to_builtins(stored)}
