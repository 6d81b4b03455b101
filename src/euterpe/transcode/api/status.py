"""The status document: where a transcode is, what came of it, and how its callbacks go."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from euterpe.model.errors import JobNotFound
from euterpe.model.job import JobRow, read_error
from euterpe.model.reading.status_report import status_report
from euterpe.model.state import TERMINAL
from euterpe.ports import Store
from euterpe.transcode.credentials.repository import CredentialStore, StoredCredentials
from euterpe.transcode.estimate import RunHistory
from euterpe.transcode.handler.progress import progress_document
from euterpe.transcode.schema.request import JOB_TYPE, TranscodePayload

EVENTS_LOOKED_AT: Final = 100
_DELIVERED: Final = "completed"
_GIVEN_UP: Final = "dead_letter"


class Statuses:
    def __init__(self, store: Store, credentials: CredentialStore, history: RunHistory) -> None:
        self._store = store
        self._credentials = credentials
        self._history = history

    async def get(self, job_id: str, requester_id: str | None) -> dict[str, Any]:
        """Raises JobNotFound or JobPruned."""
        job = await self._store.get(job_id, requester_id)
        if job.type != JOB_TYPE:
            raise JobNotFound(job_id)
        stored = await self._credentials.get(job_id)
        events = await self._store.outbox.search(job_id=job_id, limit=EVENTS_LOOKED_AT) if job.callback_url else []
        states = [event.state for _, event in events]
        webhook = {
            "pending": sum(state not in (_DELIVERED, _GIVEN_UP) for state in states),
            "dead_letter": states.count(_GIVEN_UP),
        }
        return status_document(job, stored, webhook, await self._expected_seconds(job))

    async def _expected_seconds(self, job: JobRow) -> float | None:
        if job.state in TERMINAL:
            return None
        try:
            payload = msgspec.json.decode(job.payload, type=TranscodePayload)
        except msgspec.ValidationError:
            return None  # Its attempt will say what is wrong with it.
        expected_ms = await self._history.expected_ms(payload.outputs, _media_ms(job))
        return None if expected_ms is None else expected_ms / 1000


def status_document(
    job: JobRow, stored: StoredCredentials | None, webhook: dict[str, int], expected_seconds: float | None
) -> dict[str, Any]:
    returned = _object(job.result)
    return {
        **status_report(job),
        "progress": progress_document(job.progress, job.progress_message),
        "expected_seconds": expected_seconds,
        "refresh_attempts": 0 if stored is None else stored.refresh_attempts,
        "credential_version": None if stored is None else stored.version,
        "source": returned.get("source") or _object(_checkpoint(job)).get("source"),
        "outputs": returned.get("outputs"),
        "reused_from": returned.get("reused_from"),
        "warnings": returned.get("warnings", []),
        "last_error": None if job.error is None else _error(job.error),
        "webhook": webhook,
    }


def _error(stored: str) -> dict[str, Any]:
    """As it is sent: a stack is for the log."""
    return {name: value for name, value in dict(read_error(stored)).items() if name != "stack"}


def _media_ms(job: JobRow) -> int | None:
    """The length of the source, once it was probed."""
    source = _object(_checkpoint(job)).get("source")
    probe = source.get("probe") if isinstance(source, dict) else None
    length = probe.get("duration_ms") if isinstance(probe, dict) else None
    return length if isinstance(length, int) else None


def _checkpoint(job: JobRow) -> bytes | None:
    return job.checkpoint[1:] if job.checkpoint and job.checkpoint[:1] == b"j" else None


def _object(stored: bytes | None) -> dict[str, Any]:
    """What is no JSON object was spoilt by hand, and must not hide the rest."""
    if not stored:
        return {}
    try:
        value = msgspec.json.decode(stored)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return {}
    return value if isinstance(value, dict) else {}
