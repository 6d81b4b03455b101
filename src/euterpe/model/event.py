"""Outbox events: which transitions are told to the outside, and the body that never changes afterwards."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from euterpe.model.document import rfc3339, status_document
from euterpe.model.job import Job
from euterpe.model.readable import origin_of
from euterpe.model.state import TERMINAL, State

PAYLOAD_VERSION: Final = 1

TOLD: Final = frozenset({State.RUNNING, State.RETRYING, *TERMINAL})
"""Waiting states are bookkeeping: the requester learnt of them from the answer to its submission."""


class Event(msgspec.Struct, frozen=True, gc=False):
    """A row to insert into `job_outbox_events`, in the transaction of the change it tells of."""

    event_id: str
    job_id: str
    requester_id: str
    sequence: int
    type: str
    url: str
    origin: str
    """Scheme, host and port: whose slowness must not delay the others."""
    body: bytes
    created_at: int


def is_told(job: Job) -> bool:
    """Whether the state the job has just entered is worth an event."""
    if job.callback_url is None:
        return False
    return job.state in TERMINAL or (job.callback_events == "all" and job.state in TOLD)


def event_of(job: Job, event_id: str) -> Event:
    """The event of the state `job` has just entered. `transitions` grows with every change: drop lower ones."""
    assert job.callback_url is not None
    kind = f"job.{job.state}"
    body: dict[str, Any] = {
        "event_id": event_id,
        "type": kind,
        "payload_version": PAYLOAD_VERSION,
        "sequence": job.transitions,
        "created_at": rfc3339(job.updated_at),
        "job": status_document(job),
    }
    if job.state is State.COMPLETED:
        body["outputs"] = None if job.result is None else msgspec.Raw(job.result)
    elif job.state in TERMINAL:
        body["error"] = None if job.error is None else msgspec.Raw(job.error.encode())
    return Event(
        event_id=event_id,
        job_id=job.id,
        requester_id=job.requester_id,
        sequence=job.transitions,
        type=kind,
        url=job.callback_url,
        origin=origin_of(job.callback_url),
        body=msgspec.json.encode(body),
        created_at=job.updated_at,
    )
