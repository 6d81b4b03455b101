"""A job as the outside sees it: one document for the API, the command line and webhooks."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Final

import msgspec

from euterpe.model.job import Job
from euterpe.model.priority import PRIORITY_NAMES

_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001  # in UTC, as everything here


@lru_cache(maxsize=1024)  # Jobs of a batch were created, and are leased, at the same moment.
def rfc3339(at_us: int | None) -> str | None:
    if at_us is None:
        return None
    return (_EPOCH + timedelta(microseconds=at_us)).isoformat(timespec="microseconds") + "Z"


def status_document(job: Job) -> dict[str, Any]:
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
        "tags": job.tags,
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


def job_document(job: Job) -> dict[str, Any]:
    """The whole job. A JSON payload and result are shown as they are, bytes as base64."""
    document = status_document(job)
    document["payload"] = (
        msgspec.Raw(job.payload) if job.payload_format == "json" else {"base64": msgspec.to_builtins(job.payload)}
    )
    document["payload_format"] = job.payload_format
    document["result"] = None if job.result is None else msgspec.Raw(job.result)
    document["error"] = None if job.error is None else msgspec.Raw(job.error.encode())
    document["dependency"] = job.dependency
    document["pending_dependencies"] = job.pending_dependencies
    return document
