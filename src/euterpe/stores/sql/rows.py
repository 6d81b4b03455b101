"""From rows to the model: the only place that knows the order of `job_columns.sql`."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Final

import msgspec

from euterpe.model.errors import UnprocessableRow
from euterpe.model.job import JobRow
from euterpe.model.state import CLAIMED, STATES, State
from euterpe.model.submitting.submission import OVERRUN_US
from euterpe.stores.sql.program import Row

_STATE = JobRow.__struct_fields__.index("state")
_ID = JobRow.__struct_fields__.index("id")
_HAS_DEPENDENTS = JobRow.__struct_fields__.index("has_dependents")


def job_from(row: Row) -> JobRow:
    values = list(row)
    try:
        values[_STATE] = STATES[values[_STATE]]
    except KeyError:
        raise UnprocessableRow(values[_ID], "state") from None
    values[_HAS_DEPENDENTS] = bool(values[_HAS_DEPENDENTS])
    return JobRow(*values)


def taken_from(row: Row, worker_id: str, lease_ttl_us: int) -> JobRow:
    """A plain job that was just claimed (`taken_columns.sql`): what all such jobs have in common does not travel."""
    (
        seq, id_, requester_id, queue, type_, priority, payload, payload_format, attempt_count, max_attempts,
        release_count, claim_version, run_at, created_at, scheduled_at, started_at, expires_at, execution_timeout_us,
        visibility_us, retry_policy, stages, error, checkpoint, tags, correlation_id, callback_events, idempotency_key,
        dependency, depth, has_dependents, parent_id, replay_of, cancel_version, transitions,
    ) = row  # fmt: skip
    expires_in_us = min(lease_ttl_us, visibility_us, execution_timeout_us + OVERRUN_US)
    return JobRow(
        seq, id_, requester_id, queue, type_, State.RUNNING, CLAIMED, priority, payload, payload_format, attempt_count,
        max_attempts, release_count, claim_version, worker_id, started_at + expires_in_us,
        started_at, run_at, created_at, started_at, scheduled_at, started_at, None, expires_at, execution_timeout_us,
        visibility_us, retry_policy, stages, None, error, None, None, checkpoint, tags, correlation_id, None,
        callback_events, idempotency_key, dependency, 0, depth, has_dependents, parent_id, replay_of, cancel_version,
        transitions, None, None,
    )  # fmt: skip


URGENCY: Final = attrgetter("priority", "seq")
"""Sorts jobs as they are claimed: the most urgent first, the oldest first among those."""


def jobs_from(rows: Iterable[Row]) -> list[JobRow]:
    return [job_from(row) for row in rows]


def limit_key_of(job: JobRow) -> str | None:
    """What a concurrency limit counts by: a requester's own key. `limit_key.sql` says the same."""
    return None if job.concurrency_key is None else limit_key(job.requester_id, job.concurrency_key)


def limit_key(requester_id: str, concurrency_key: str) -> str:
    return f"{requester_id}\x1f{concurrency_key}"


class Moved(msgspec.Struct, frozen=True, gc=False):
    """What a state change returned (`moved_columns.sql`): enough to know what else must follow from it."""

    id: str
    state: State
    has_dependents: bool
    has_callback: bool
    callback_events: str
    limit_key: str | None


def moved_from(rows: Iterable[Row]) -> list[Moved]:
    return [Moved(r[0], STATES[r[1]], bool(r[2]), bool(r[3]), r[4], r[5]) for r in rows]
