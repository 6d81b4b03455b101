"""From rows to the model: the only place that knows the order of `job_columns.sql`."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Final

import msgspec

from euterpe.model.claims.exchange import ClaimRequest
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


def taken_from(
    row: Row,
    worker_id: str,
    lease_ttl_us: int,
    overrun_us: int = OVERRUN_US,
    *,
    key: str | None = None,
    limit: int | None = None,
) -> JobRow:
    """A job that was just claimed, in a row of `turn.sql`: six columns, then those of `taken_columns.sql`. What all
    such jobs have in common does not travel. `overrun_us`: the time to end after the deadline, which a worker over
    HTTP does not have. `key`, `limit`: those of concurrency."""
    (
        _, _, _, _, _, _,
        seq, id_, requester_id, queue, type_, priority, payload, payload_format, attempt_count, max_attempts,
        release_count, claim_version, run_at, created_at, scheduled_at, started_at, expires_at, execution_timeout_us,
        visibility_us, retry_policy, stages, error, checkpoint, tags, correlation_id, callback_events, idempotency_key,
        dependency, depth, has_dependents, parent_id, replay_of, cancel_version, transitions, callback_url, *_,
    ) = row  # fmt: skip
    expires_in_us = execution_timeout_us + overrun_us
    if lease_ttl_us < expires_in_us:
        expires_in_us = lease_ttl_us
    if visibility_us < expires_in_us:
        expires_in_us = visibility_us
    return JobRow(
        seq, id_, requester_id, queue, type_, State.RUNNING, CLAIMED, priority, payload, payload_format, attempt_count,
        max_attempts, release_count, claim_version, worker_id, started_at + expires_in_us,
        started_at, run_at, created_at, started_at, scheduled_at, started_at, None, expires_at, execution_timeout_us,
        visibility_us, retry_policy, stages, None, error, None, None, checkpoint, tags, correlation_id, callback_url,
        callback_events, idempotency_key, dependency, 0, depth, has_dependents, parent_id, replay_of, cancel_version,
        transitions, key, limit,
    )  # fmt: skip


def fresh_from(
    seq: int, id_: str, payload: bytes, kind: Row, queue: str, request: ClaimRequest, picked_at: int
) -> JobRow:
    """A job that is claimed for the first time, with little but what every job has (`kind_columns.sql`, as JSON), as
    `take.sql` leaves it; but for its concurrency key."""
    (
        requester_id, type_, priority, payload_format, max_attempts, run_at, created_at,
        scheduled_at, expires_at, execution_timeout_us, visibility_us, retry_policy,
        callback_url, callback_events, dependency, depth, has_dependents, transitions, only_dependency,
    ) = kind  # fmt: skip
    expires_in_us = execution_timeout_us + request.overrun_us
    if request.lease_ttl_us < expires_in_us:
        expires_in_us = request.lease_ttl_us
    if visibility_us < expires_in_us:
        expires_in_us = visibility_us
    return JobRow(
        seq, id_, requester_id, queue, type_, State.RUNNING, CLAIMED, priority, payload, payload_format,
        1, max_attempts, 0, 1, request.worker_id, picked_at + expires_in_us,
        picked_at, run_at, created_at, picked_at, scheduled_at, picked_at, None, expires_at, execution_timeout_us,
        visibility_us, retry_policy, None, None, None, None, None, None, None, None, callback_url,
        callback_events, None, dependency, 0, depth, has_dependents != 0, None, None, None, transitions + 1,
        None, None, None if only_dependency is None else (only_dependency,),
    )  # fmt: skip


URGENCY: Final = attrgetter("priority", "seq")
"""The order in which jobs are claimed: the most urgent first, the oldest first among those."""
_PRIORITY: Final = attrgetter("priority")
_SEQ: Final = attrgetter("seq")


def sort_by_urgency(jobs: list[JobRow]) -> None:
    """Two sorts by a number each are cheaper than one by a pair."""
    jobs.sort(key=_SEQ)
    jobs.sort(key=_PRIORITY)


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
