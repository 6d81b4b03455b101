"""The events of jobs that differ in nothing but their ids: one body is made for all of them, and their ids are put in.

`event_of` alone knows what a body looks like. It is asked for the event of a job with an id that nobody else has, and
where that stands in the body, the id of each job goes.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Final

import msgspec

from euterpe.model.events.event import Event, event_of
from euterpe.model.job import JobRow
from euterpe.model.submitting.batch import new_ids

_EVENT_ID, _JOB_ID = new_ids(2)
"""Random, and told to nobody: they stand in no result and no tag that somebody wrote."""
MOST_JOB_IDS: Final = 3
"""So often a body names its job, or an attempt by the id of its job."""

told_of: Final = attrgetter(
    "requester_id", "queue", "type", "state", "stage", "priority", "attempt_count", "max_attempts", "claim_version",
    "worker_id", "lease_expires_at", "heartbeat_at", "run_at", "created_at", "updated_at", "scheduled_at",
    "started_at", "completed_at", "expires_at", "result", "error", "progress", "progress_message", "tags_json",
    "correlation_id", "callback_url", "callback_events", "parent_id", "replay_of", "transitions",
)  # fmt: skip
"""All that an event tells of a job but its id. Jobs of which it is the same have the same event."""


class EventOfMany(msgspec.Struct, frozen=True, gc=False):
    """The event that some jobs share. The body of each is `before_event`, the event's id, `before_job`, and then the
    job's id and what follows it, as often as there is such a piece."""

    event: Event
    """With ids that are nobody's."""
    before_event: str
    before_job: str
    after_job: tuple[str | None, ...]
    """MOST_JOB_IDS pieces; the last may be missing."""


def event_of_many(job: JobRow) -> EventOfMany | None:
    """The event of all jobs that are told of as this one is; None where it cannot be put together of pieces."""
    event = event_of(msgspec.structs.replace(job, id=_JOB_ID), _EVENT_ID)
    try:
        body = event.body.decode()
    except UnicodeDecodeError:  # A result that is no JSON.
        return None
    before, *behind = body.split(_EVENT_ID)
    if len(behind) != 1 or _JOB_ID in before or "\0" in body:
        return None
    before_job, *after_job = behind[0].split(_JOB_ID)
    if len(after_job) > MOST_JOB_IDS:
        return None
    missing = [None] * (MOST_JOB_IDS - len(after_job))
    return EventOfMany(event, before, before_job, (*after_job, *missing))
