"""What `--json` prints for each thing: the field names of the HTTP API."""

from __future__ import annotations

from typing import Any

import msgspec

from euterpe.model.accounts import KeyRecord
from euterpe.model.claims.attempt_log import AttemptLog
from euterpe.model.events.outbox import OutboxEvent
from euterpe.model.job import AttemptRow, JobRow, read_error
from euterpe.model.reading.document import job_document, rfc3339
from euterpe.model.reading.views import StoreStats
from euterpe.wire.attempt_logs import job_logs


def attempt_document(attempt: AttemptRow) -> dict[str, Any]:
    return {
        "attempt_id": attempt.attempt_id,
        "attempt": attempt.attempt,
        "worker_id": attempt.worker_id,
        "started_at": rfc3339(attempt.started_at),
        "ended_at": rfc3339(attempt.ended_at),
        "outcome": attempt.outcome,
        "error": None if attempt.error is None else read_error(attempt.error),
    }


def job_with_attempts(job: JobRow, attempts: list[AttemptRow], logs: list[AttemptLog] | None = None) -> dict[str, Any]:
    document = {**job_document(job), "attempts": [attempt_document(attempt) for attempt in attempts]}
    return document if logs is None else {**document, "logs": msgspec.to_builtins(job_logs(job.id, logs).attempts)}


def event_document(event: OutboxEvent) -> dict[str, Any]:
    waiting = event.state in ("scheduled", "retrying")
    return {
        "event_id": event.id,
        "job_id": event.job_id,
        "type": event.type,
        "sequence": event.sequence,
        "url": event.url,
        "state": event.state,
        "attempts": event.attempt_count,
        "created_at": rfc3339(event.created_at),
        "next_attempt_at": rfc3339(event.run_at) if waiting else None,
        "completed_at": rfc3339(event.completed_at),
        "error": event.error,
    }


def key_document(record: KeyRecord) -> dict[str, Any]:
    return {
        "prefix": record.prefix,
        "requester": record.requester_id,
        "scopes": list(record.scopes),
        "created_at": rfc3339(record.created_at),
        "expires_at": rfc3339(record.expires_at),
        "revoked_at": rfc3339(record.revoked_at),
    }


def stats_document(stats: StoreStats, paused: list[tuple[str, str]]) -> dict[str, Any]:
    return {
        "by_state": stats.by_state,
        "by_queue": stats.by_queue,
        "by_type": stats.by_type,
        "oldest_age_seconds": {queue: age_us / 1e6 for queue, age_us in stats.oldest_age_us.items()},
        "per_minute": stats.per_minute,
        "outbox": stats.outbox,
        "estimated": list(stats.estimated),
        "paused": [{"kind": kind, "name": name} for kind, name in paused],
    }
