"""Outbox events: which transitions are told to the outside, and the body that never changes afterwards."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from euterpe.model.events.callback_events import WITH_STACK, family_of, has_event_in
from euterpe.model.job import JobRow, read_error
from euterpe.model.reading.document import rfc3339, status_document
from euterpe.model.reading.readable import is_json, origin_of
from euterpe.model.reading.status_report import status_report
from euterpe.model.state import TERMINAL, State

PAYLOAD_VERSION: Final = 1


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


def has_event(job: JobRow) -> bool:
    """Whether the state the job has just entered is worth an event."""
    return job.callback_url is not None and has_event_in(job.state, job.callback_events)


def event_of(job: JobRow, event_id: str) -> Event:
    """The event of the state `job` has just entered. `transitions` grows with every change: drop lower ones."""
    assert job.callback_url is not None
    family = family_of(job.callback_events)
    kind = f"job.{job.state}" if family is None else f"{family}.{job.status}"
    body: dict[str, Any] = {
        "event_id": event_id,
        "type": kind,
        "payload_version": PAYLOAD_VERSION,
        "sequence": job.transitions,
        "created_at": rfc3339(job.updated_at),
        "job": status_document(job) if family is None else status_report(job),
    }
    if job.state is State.COMPLETED:
        body = _with_result(body, job.result, spread=family is not None)
    elif job.state in TERMINAL and not (family is not None and job.state is State.CANCELLED):
        body["error"] = None if job.error is None else _error_told(job.error, job.callback_events)
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


def _error_told(stored: str, callback_events: str) -> dict[str, Any]:
    """The receiver may be anybody: a traceback, which names paths of the server, goes only where it was asked for."""
    error = read_error(stored)
    return error if callback_events.endswith(WITH_STACK) else {k: v for k, v in error.items() if k != "stack"}


def _with_result(body: dict[str, Any], result: bytes | None, *, spread: bool) -> dict[str, Any]:
    """`spread`: what a job type of such a family returns are members of its last event, `outputs` among them."""
    if spread and result is not None and is_json(result):
        returned = msgspec.json.decode(result)
        if isinstance(returned, dict):
            return {**returned, **body}
    return {**body, "outputs": None if result is None else msgspec.Raw(result)}
