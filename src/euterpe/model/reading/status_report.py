"""A job by its status: the document of job types whose requesters see stages and not states."""

from __future__ import annotations

from typing import Any

from euterpe.model.job import JobRow
from euterpe.model.priority import PRIORITY_NAMES
from euterpe.model.reading.document import rfc3339, tags_of
from euterpe.model.state import TERMINAL, State
from euterpe.model.submitting.submission import TRACE_TAG


def status_report(job: JobRow) -> dict[str, Any]:
    """What the row of the job tells, without payload, result and error."""
    return {
        "job_id": job.id,
        "status": job.status,
        "terminal": job.state in TERMINAL,
        "external_id": job.correlation_id,
        "metadata": {name: value for name, value in tags_of(job).items() if name != TRACE_TAG},
        "priority": PRIORITY_NAMES[job.priority],
        "progress": None if job.progress is None else {"percent": job.progress, "message": job.progress_message},
        "attempt_count": job.attempt_count,
        "max_attempts": job.max_attempts,
        "claim_version": job.claim_version,
        "worker_id": job.worker_id,
        "lease_expires_at": rfc3339(job.lease_expires_at),
        "heartbeat_at": rfc3339(job.heartbeat_at),
        "next_attempt_at": rfc3339(job.run_at) if job.state in (State.RETRYING, State.DELAYED) else None,
        "created_at": rfc3339(job.created_at),
        "updated_at": rfc3339(job.updated_at),
        "started_at": rfc3339(job.started_at),
        "completed_at": rfc3339(job.completed_at),
    }
