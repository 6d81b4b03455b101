"""Jobs for tests of the pure model: plain values, no database."""

from __future__ import annotations

from typing import Any

import msgspec

from euterpe.model.failures.retry import RetryPolicy, retry_to_wire
from euterpe.model.job import JobRow
from euterpe.model.state import State

JOB_ID = "0b0e0d0c-1111-4222-8333-444455556666"
CREATED_US = 1_767_225_600_000_000
"""2026-01-01T00:00:00Z"""


def a_job(**changes: Any) -> JobRow:
    """A running job in its first attempt."""
    return JobRow(**(_RUNNING | changes))


def with_policy(policy: RetryPolicy, **changes: Any) -> JobRow:
    stored = retry_to_wire(policy)
    return a_job(retry_policy=None if stored is None else msgspec.json.encode(stored).decode(), **changes)


_RUNNING: dict[str, Any] = {
    "seq": 1,
    "id": JOB_ID,
    "requester_id": "local",
    "queue": "default",
    "type": "work",
    "state": State.RUNNING,
    "stage": "claimed",
    "priority": 2,
    "payload": b'{"n": 1}',
    "payload_format": "json",
    "attempt_count": 1,
    "max_attempts": 3,
    "release_count": 0,
    "claim_version": 1,
    "worker_id": "w1",
    "lease_expires_at": CREATED_US + 60_000_000,
    "heartbeat_at": CREATED_US,
    "run_at": CREATED_US,
    "created_at": CREATED_US,
    "updated_at": CREATED_US,
    "scheduled_at": CREATED_US,
    "started_at": CREATED_US,
    "completed_at": None,
    "expires_at": CREATED_US + 7 * 86_400_000_000,
    "execution_timeout_us": 1_800_000_000,
    "visibility_us": 300_000_000,
    "retry_policy": None,
    "stages_json": None,
    "result": None,
    "error": None,
    "progress": None,
    "progress_message": None,
    "checkpoint": None,
    "tags_json": None,
    "correlation_id": None,
    "callback_url": None,
    "callback_events": "all",
    "idempotency_key": None,
    "dependency": None,
    "pending_dependencies": 0,
    "depth": 1,
    "has_dependents": False,
    "parent_id": None,
    "replay_of": None,
    "cancel_version": None,
    "transitions": 2,
    "concurrency_key": None,
    "concurrency_limit": None,
}
