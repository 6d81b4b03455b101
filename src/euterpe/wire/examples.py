"""One true story told in examples: the documents that OpenAPI and /docs show. A test decodes each with its type."""

from __future__ import annotations

from typing import Any, Final

JOB_ID: Final = "3f0c2a5e-8a54-4a0e-9d5b-6a2f5f6f4f11"
ATTEMPT_ID: Final = f"{JOB_ID}:1"
EVENT_ID: Final = "b7c1f7f2-1f0a-4f7e-8a3c-0d0b8f1e2a55"
TOKEN: Final = "the-lease_token-of-the-claim"  # noqa: S105  # not a secret, an example of one
AT: Final = "2026-01-15T12:00:00.000000Z"
Json = dict[str, Any]

SUBMISSION: Final[Json] = {
    "type": "report.render",
    "payload": {"report_id": 7},
    "priority": "high",
    "delay": "5m",
    "tags": {"team": "a"},
}
BATCH: Final[Json] = {
    "jobs": [
        {"ref": "extract", "type": "etl.extract", "payload": {"day": "mon"}},
        {"type": "etl.load", "depends_on": ["#extract"]},
    ],
    "idempotency_key": "etl-mon",
}
ACCEPTED: Final[Json] = {
    "job_id": JOB_ID,
    "type": "report.render",
    "queue": "default",
    "state": "delayed",
    "priority": "high",
    "created_at": AT,
    "correlation_id": None,
}
BATCH_ACCEPTED: Final[Json] = {"jobs": [ACCEPTED | {"type": "etl.extract", "state": "scheduled", "priority": "normal"}]}
JOB: Final[Json] = {
    "job_id": JOB_ID,
    "type": "report.render",
    "queue": "default",
    "state": "completed",
    "stage": "claimed",
    "status": "succeeded",
    "priority": "high",
    "attempt": 1,
    "max_attempts": 3,
    "attempt_id": ATTEMPT_ID,
    "previous_attempt_id": None,
    "claim_version": 1,
    "worker_id": "shell-1",
    "progress": {"percent": 100.0, "message": "done"},
    "tags": {"team": "a"},
    "correlation_id": None,
    "callback_url": None,
    "parent_id": None,
    "replay_of": None,
    "created_at": AT,
    "updated_at": AT,
    "run_at": AT,
    "scheduled_at": AT,
    "started_at": AT,
    "completed_at": AT,
    "expires_at": AT,
    "heartbeat_at": AT,
    "lease_expires_at": None,
    "payload": {"report_id": 7},
    "payload_format": "json",
    "result": {"pages": 3},
    "error": None,
    "dependency": None,
    "pending_dependencies": 0,
    "depends_on": [],
}
WHY: Final[Json] = {
    "job_id": JOB_ID,
    "state": "scheduled",
    "reason": "position",
    "sentence": "12 jobs are ahead of it in queue 'default'.",
    "until": None,
    "ahead": 12,
    "blocked_by": [],
}
PAGE: Final[Json] = {"jobs": [JOB], "cursor": "1041"}
ATTEMPTS: Final[Json] = {
    "attempts": [
        {
            "attempt_id": ATTEMPT_ID,
            "attempt": 1,
            "worker_id": "shell-1",
            "started_at": AT,
            "ended_at": AT,
            "outcome": "completed",
            "error": None,
        }
    ]
}
LOGS: Final[Json] = {
    "attempts": [
        {
            "attempt_id": ATTEMPT_ID,
            "dropped": 0,
            "lines": [{"at": AT, "level": "info", "logger": "reports", "message": "page 12 of 30"}],
        }
    ]
}
CANCELLED: Final[Json] = {"job_id": JOB_ID, "state": "cancelled", "cancel_requested": False}
STATS: Final[Json] = {
    "by_state": {"scheduled": 2, "completed": 40},
    "by_queue": {"default": {"scheduled": 2, "completed": 40}},
    "by_type": {"report.render": {"scheduled": 2, "completed": 40}},
    "oldest_age_seconds": {"default": 0.25},
    "per_minute": {"completed": 12, "failed": 0, "dead_letter": 0},
    "estimated": [],
    "outbox": {"scheduled": 1},
}
EVENT: Final[Json] = {
    "event_id": EVENT_ID,
    "job_id": JOB_ID,
    "type": "job.completed",
    "sequence": 3,
    "url": "https://example.com/hook",
    "state": "completed",
    "attempts": 1,
    "created_at": AT,
    "next_attempt_at": None,
    "completed_at": AT,
    "error": None,
}
OUTBOX: Final[Json] = {"events": [EVENT], "cursor": None}
EVENT_DETAIL: Final[Json] = {
    "event": EVENT,
    "body": {"event_id": EVENT_ID, "type": "job.completed", "sequence": 3},
    "deliveries": [
        {
            "attempt": 1,
            "worker_id": "pod-1:0b6d",
            "started_at": AT,
            "ended_at": AT,
            "outcome": "delivered",
            "http_status": 204,
            "answer": "",
            "error": None,
        }
    ],
}
CLAIM: Final[Json] = {"worker_id": "shell-1", "streams": ["default"], "max_wait_ms": 20000}
CLAIMED: Final[Json] = {
    "claimed": True,
    "job_id": JOB_ID,
    "attempt_id": ATTEMPT_ID,
    "lease_token": TOKEN,
    "stream": {"name": "default", "message_id": ATTEMPT_ID},
    "queue": "default",
    "payload": {"report_id": 7},
    "lease_ttl_seconds": 60.0,
    "heartbeat_interval_seconds": 20.0,
    "type": "report.render",
    "attempt": 1,
    "max_attempts": 3,
    "timeout_seconds": 1800.0,
    "lease_expires_at": AT,
    "priority": "high",
    "created_at": AT,
}
_LEASE: Final[Json] = {"worker_id": "shell-1", "job_id": JOB_ID, "attempt_id": ATTEMPT_ID, "lease_token": TOKEN}
_MESSAGE: Final[Json] = {"stream": "default", "message_id": ATTEMPT_ID}
HEARTBEAT: Final[Json] = _LEASE | {"progress": 40}
HEARTBEAT_ANSWER: Final[Json] = {"ok": True, "lease_expires_at": AT, "cancel_requested": False}
COMPLETE: Final[Json] = _LEASE | _MESSAGE | {"result": {"pages": 3}}
COMPLETE_ANSWER: Final[Json] = {"ok": True, "ack": True}
FAIL: Final[Json] = (
    _LEASE | _MESSAGE | {"error": {"code": "upstream", "message": "503 from the printer", "retryable": True}}
)
FAIL_ANSWER: Final[Json] = {"ok": True, "ack": True, "requeued": True, "dlq": False}
SPAWN: Final[Json] = _LEASE | {"jobs": [{"type": "report.page", "payload": {"page": 1}}], "idempotency_key": "pages"}
SPAWN_ANSWER: Final[Json] = {"ok": True, "jobs": [ACCEPTED | {"replayed": False}]}
_ENTRY: Final[Json] = {"job_id": JOB_ID, "attempt_id": ATTEMPT_ID, "lease_token": TOKEN}
EXCHANGE: Final[Json] = {
    "worker_id": "shell-1",
    "complete": [_ENTRY | {"result": {"pages": 3}}, _ENTRY | {"attempt_id": f"{JOB_ID}:2"}],
    "claim": {"streams": ["default"], "max_jobs": 100},
}
EXCHANGE_ANSWER: Final[Json] = {
    "complete": [
        {"ok": True, "ack": True},
        {"ok": False, "ack": False, "code": "stale_lease", "detail": "this attempt is closed with another result"},
    ],
    "fail": [],
    "heartbeat": [],
    "claimed": True,
    "jobs": [{key: value for key, value in CLAIMED.items() if key != "claimed"}],
}
READY: Final[Json] = {"status": "ready", "checks": {"store": "ok"}, "failing": []}
UNREADY: Final[Json] = {"status": "unavailable", "checks": {"store": "StoreUnavailable"}, "failing": ["store"]}
