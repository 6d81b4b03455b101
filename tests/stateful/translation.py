"""The same thing in three languages: the oracle's words, the store's types, and the rows as they are stored."""

from __future__ import annotations

from typing import Any

import msgspec

from euterpe.model.claims.outcome import Cancelled, Failed, Outcome, Released, Success
from euterpe.model.dependency import Dependency
from euterpe.model.failures.backoff import Backoff
from euterpe.model.failures.failure import Category, Failure
from euterpe.model.failures.retry import RetryPolicy
from euterpe.model.submitting.submission import Submission
from tests.stateful.oracle_job import SECOND, OracleJob, Said

STEADY = RetryPolicy(Backoff(jitter=0.0))


def submission(said: Said) -> Submission:
    return Submission(
        type=said.type,
        priority=said.priority,
        delay_us=said.delay,
        max_attempts=said.max_attempts,
        lifetime_us=said.lifetime,
        visibility_us=said.visibility,
        callback_url=None if said.callback is None else "https://receiver.example/hook",
        callback_events=said.callback or "all",
        depends_on=said.depends_on,
        dependency=Dependency(said.kind),
        idempotency_key=said.key,
        concurrency_key=None if said.limit is None else f"limit of {said.type}",
        concurrency_limit=said.limit,
        retry=STEADY,
    )


def outcome_of(word: str, retry_after_s: int) -> Outcome:
    match word:
        case "completed":
            return Success(b"1")
        case "released":
            return Released()
        case "cancelled":
            return Cancelled()
    return Failed(Failure(Category(word), "no luck", code=word, retry_after_us=retry_after_s * SECOND or None))


def seen(row: dict[str, Any]) -> dict[str, Any]:
    """A stored row in the oracle's words."""
    error = msgspec.json.decode(row["error"]) if row["error"] else {}
    running = row["state"] == "running"
    return {
        "state": row["state"],
        "stage": row["stage"] if running else None,
        "priority": row["priority"],
        "attempts": (row["attempt_count"], row["release_count"], row["claim_version"]),
        "worker": row["worker_id"] if running else None,
        "lease": row["lease_expires_at"],
        "times": [row[f"{name}_at"] for name in ("run", "created", "scheduled", "started", "completed", "expires")],
        "waits": row["pending_dependencies"],
        "depth": row["depth"],
        "cancel": row["cancel_version"],
        "transitions": row["transitions"],
        "result": row["result"],
        "error": error.get("code"),
        "news": (row["progress"], row["checkpoint"]),
        "family": (row["parent_id"], row["replay_of"]),
    }


def predicted(job: OracleJob) -> dict[str, Any]:
    running = job.state == "running"
    return {
        "state": job.state,
        "stage": job.stage if running else None,
        "priority": job.priority,
        "attempts": (job.attempts, job.releases, job.version),
        "worker": job.worker if running else None,
        "lease": job.lease,
        "times": [job.run_at, job.created_at, job.scheduled_at, job.started_at, job.completed_at, job.expires_at],
        "waits": job.pending_count,
        "depth": job.depth,
        "cancel": job.cancel_seen,
        "transitions": job.transitions,
        "result": job.result,
        "error": job.error_code,
        "news": (job.progress, job.checkpoint),
        "family": (job.parent, job.replay_of),
    }
