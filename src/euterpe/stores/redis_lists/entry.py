"""A job as it stands in a list: the JSON of the specification (004), with fields of our own behind its own."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from euterpe.model.failures.backoff import Backoff
from euterpe.model.failures.retry import RetryPolicy, retry_to_wire
from euterpe.model.job import AttemptRow, JobRow
from euterpe.model.priority import PRIORITY_NAMES, Priority
from euterpe.model.state import CLAIMED, State
from euterpe.model.submitting.submission import (
    EXECUTION_TIMEOUT_US,
    LOCAL_REQUESTER,
    TRACE_TAG,
    VISIBILITY_US,
    Submission,
)
from euterpe.stores.redis_lists.settings import ListSettings

SEPARATOR: Final = "\0"
FOREIGN_TYPE: Final = "process_file"
"""The type of a job that another program put into a list without naming one; what the producer calls its own."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_STATES: Final = {str(state).encode(): state for state in State}
_LEVELS: Final = {name: level for level, name in enumerate(PRIORITY_NAMES)}


class JobEntry(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The first eight are the document's, and are always said. The others are ours."""

    id: str
    filepath: str | None = None
    filesize: int | None = None
    priority: str | None = None
    retries: int | None = None
    creation_time: str | None = None
    trace_id: str | None = None
    span_id: str | None = None
    origin_queue: str | None = None
    queue: str | None = None
    type: str | None = None
    level: int | None = None
    payload_format: str = "json"
    requester_id: str = LOCAL_REQUESTER
    max_attempts: int | None = None
    retry_policy: str | None = None
    stages: str | None = None
    tags: str | None = None
    correlation_id: str | None = None
    idempotency_key: str | None = None
    parent_id: str | None = None
    replay_of: str | None = None


class ForeignJobs(msgspec.Struct, frozen=True):
    """What holds for jobs that other programs put into the lists."""

    type: str
    max_attempts: int
    retry_json: str | None


def foreign_jobs(settings: ListSettings) -> ForeignJobs:
    """`worker.max_retries` and `worker.backoff`: min(base * 2^(n-1), max), without jitter."""
    backoff = Backoff(initial_us=settings.backoff_base_us, max_us=settings.backoff_max_us, jitter=0.0)
    stored = retry_to_wire(RetryPolicy(backoff))
    retry_json = None if stored is None else msgspec.json.encode(stored).decode()
    return ForeignJobs(FOREIGN_TYPE, 1 + settings.max_retries, retry_json)


class FileFields(msgspec.Struct, frozen=True):
    """What a payload says of a file."""

    filepath: str = ""
    filesize: int = 0


_decode: Final = msgspec.json.Decoder(JobEntry).decode
_decode_file: Final = msgspec.json.Decoder(FileFields).decode
_encode: Final = msgspec.json.Encoder().encode
_NO_FILE: Final = FileFields()
_NO_TRACE: Final = ("", "")


def entry_of(
    job_id: str, s: Submission, list_key: str, priority_name: str, creation_time: str, parent_id: str | None
) -> bytes:
    file = _file_of(s) if b'"filepath"' in s.payload else _NO_FILE
    trace_id, span_id = _trace_of(s.tags) if s.tags else _NO_TRACE
    entry = JobEntry(
        job_id, file.filepath, file.filesize, priority_name, 0, creation_time, trace_id, span_id, list_key, s.queue,
        s.type, s.priority, s.payload_format, s.requester_id, s.max_attempts, s.retry_json, s.stages_json,
        s.tags_json, s.correlation_id, s.idempotency_key, parent_id, s.replay_of,
    )  # fmt: skip
    return _encode(entry)


class EntryTemplate:
    """The entries of jobs that differ in id, time and payload alone: all the rest is written once."""

    def __init__(self, s: Submission, list_key: str, priority_name: str) -> None:
        bare = msgspec.structs.replace(s, payload=b"{}")
        self._middle, self._end = entry_of("", bare, list_key, priority_name, "", None)[len(_BEGIN) :].split(_TIME, 1)

    def entry_of(self, job_id: str, payload: bytes, creation_time: str) -> bytes | None:
        """None for a payload that may tell of a file, which stands in the entry too."""
        if b'"filepath"' in payload:
            return None
        return b"".join((_BEGIN, job_id.encode(), self._middle, _TIME, creation_time.encode(), self._end))


_BEGIN: Final = b'{"id":"'
_TIME: Final = b'"creation_time":"'


def _file_of(s: Submission) -> FileFields:
    if s.payload_format != "json":
        return _NO_FILE
    try:
        return _decode_file(s.payload)
    except (msgspec.MsgspecError, UnicodeError):
        return _NO_FILE


def _trace_of(tags: dict[str, str]) -> tuple[str, str]:
    parts = tags[TRACE_TAG].split("-") if TRACE_TAG in tags else ()
    return (parts[1], parts[2]) if len(parts) == 4 else _NO_TRACE


def changed_entry(entry: bytes, job: JobRow, list_key: str, priority_name: str) -> bytes:
    """The entry after its requester changed what may be changed."""
    return _encode(
        msgspec.structs.replace(
            _decode(entry),
            priority=priority_name,
            level=job.priority,
            origin_queue=list_key,
            tags=job.tags_json,
            correlation_id=job.correlation_id,
        )
    )


class UnreadableEntry(Exception):
    """Redis takes it for a job, and we cannot read it."""


class ReadEntry(msgspec.Struct, frozen=True, gc=False):
    """An entry of somebody's list, as far as the reaper needs it."""

    id: str = ""
    origin_queue: str | None = None
    priority: str | None = None
    retries: int = 0


_read: Final = msgspec.json.Decoder(ReadEntry).decode


def read_entry(entry: bytes) -> ReadEntry | None:
    """None for text that is no job."""
    try:
        return _read(entry)
    except (msgspec.MsgspecError, UnicodeError):
        return None


def _int(value: bytes | None) -> int | None:
    return None if value is None else int(value)


_FIRST_CLAIM: Final = 12
"""How much is told of a job that nobody claimed before."""


class Rows:
    """Makes rows of records; knows what other programs' jobs leave out."""

    def __init__(self, foreign: ForeignJobs) -> None:
        self._max_attempts = foreign.max_attempts
        self._retry_json = foreign.retry_json

    def taken(self, line: list[Any], worker_id: str, now: int) -> JobRow:
        """A job that was just claimed, in the order of `turn.lua`. Raises UnreadableEntry."""
        if len(line) == _FIRST_CLAIM:
            text, kind, payload, version, attempt, lease, seq, created_at, expires_at, visibility, timeout, run_at = (
                line
            )
            releases = scheduled_at = error = checkpoint = cancel_version = None
        else:
            (text, kind, payload, version, attempt, lease, seq, created_at, expires_at, visibility, timeout, run_at,
             releases, scheduled_at, error, checkpoint, cancel_version) = line  # fmt: skip
        queue, _, type_ = kind.decode().partition(SEPARATOR)
        try:
            e = _decode(text)
        except (msgspec.MsgspecError, UnicodeError):
            raise UnreadableEntry from None
        created = int(created_at)
        is_ours = e.max_attempts is not None and payload is not None
        return JobRow(
            int(seq), e.id, e.requester_id, queue, type_, State.RUNNING, CLAIMED, level_of(e),
            payload if is_ours else payload_of(e, payload), e.payload_format, attempt,
            e.max_attempts or self._max_attempts, 0 if releases is None else int(releases), version, worker_id,
            int(lease), now, created if run_at is None else int(run_at), created, now,
            created if scheduled_at is None else int(scheduled_at), now, None, int(expires_at),
            EXECUTION_TIMEOUT_US if timeout is None else int(timeout),
            VISIBILITY_US if visibility is None else int(visibility),
            e.retry_policy if is_ours else self._retry_of(e), e.stages, None,
            None if error is None else _text(error), None, None, checkpoint, e.tags if is_ours else tags_of(e),
            e.correlation_id, None, "all", e.idempotency_key, None, 0, 0, False, e.parent_id, e.replay_of,
            None if cancel_version is None else int(cancel_version), 0, None, None,
        )  # fmt: skip

    def stored(self, job_id: str, record: dict[bytes, bytes]) -> JobRow:
        """A job as its record tells."""
        text = record[b"entry"]
        get = record.get
        try:
            e = _decode(text)
        except (msgspec.MsgspecError, UnicodeError):
            e = JobEntry(job_id)
        queue, _, type_ = record[b"kind"].decode().partition(SEPARATOR)
        state = _STATES[record[b"state"]]
        created = int(record[b"created_at"])
        started_at = _int(get(b"started_at"))
        is_running = state is State.RUNNING
        is_delayed = state is State.DELAYED
        heartbeat_at = max(int(get(b"heartbeat_at", 0)), started_at or 0) or None
        progress = get(b"progress")
        return JobRow(
            int(record[b"seq"]), e.id, e.requester_id, queue, type_, state,
            (_text(get(b"stage")) or CLAIMED) if started_at is not None else None, level_of(e),
            payload_of(e, get(b"payload")), e.payload_format, int(get(b"attempt_count", 0)),
            e.max_attempts or self._max_attempts, int(get(b"release_count", 0)), int(get(b"claim_version", 0)),
            _text(get(b"worker_id")), _int(get(b"lease_expires_at")) if is_running else None, heartbeat_at,
            int(get(b"run_at", created)), created,
            max(int(get(b"updated_at", created)), started_at or 0, int(get(b"completed_at", 0))),
            None if is_delayed else int(get(b"scheduled_at", created)), started_at, _int(get(b"completed_at")),
            int(record[b"expires_at"]), int(get(b"timeout_us", EXECUTION_TIMEOUT_US)),
            int(get(b"visibility_us", VISIBILITY_US)), self._retry_of(e), e.stages, get(b"result"),
            _text(get(b"error")),
            None if progress is None else float(progress), _text(get(b"progress_message")), get(b"checkpoint"),
            tags_of(e), e.correlation_id, None, "all", e.idempotency_key, None, 0, 0, False, e.parent_id, e.replay_of,
            _int(get(b"cancel_version")), 0, None, None,
        )  # fmt: skip

    def unreadable(self, job_id: str, line: list[Any]) -> JobRow:
        """What is known of a job whose entry cannot be read: enough to end it."""
        queue, _, type_ = line[1].decode().partition(SEPARATOR)
        known = {"id": job_id, "queue": queue, "type": type_, "claim_version": line[3], "attempt_count": line[4]}
        return msgspec.convert(_BLANK | known, JobRow)

    def _retry_of(self, e: JobEntry) -> str | None:
        """One that names no budget of its own is another program's."""
        return e.retry_policy if e.max_attempts is not None else self._retry_json


def level_of(e: JobEntry) -> int:
    if e.level is not None and 0 <= e.level < len(PRIORITY_NAMES):
        return e.level
    return _LEVELS.get(e.priority or "", Priority.NORMAL)


def payload_of(e: JobEntry, stored: bytes | None) -> bytes:
    """Another program's job says in its entry what it is about."""
    if stored is not None:
        return stored
    return _encode({"filepath": e.filepath or "", "filesize": e.filesize or 0, "priority": e.priority or ""})


def tags_of(e: JobEntry) -> str | None:
    """Another program's job has its trace in fields of the entry."""
    if e.tags is not None or e.max_attempts is not None or not (e.trace_id and e.span_id):
        return e.tags
    return _encode({TRACE_TAG: f"00-{e.trace_id}-{e.span_id}-01"}).decode()


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="replace")


_BLANK: Final[dict[str, Any]] = {
    **dict.fromkeys(JobRow.__struct_fields__),
    **dict.fromkeys(("seq", "priority", "max_attempts", "release_count", "run_at", "created_at", "updated_at"), 0),
    **dict.fromkeys(("expires_at", "execution_timeout_us", "visibility_us", "transitions"), 0),
    **dict.fromkeys(("pending_dependencies", "depth"), 0),
    "state": State.RUNNING,
    "requester_id": LOCAL_REQUESTER,
    "payload": b"",
    "payload_format": "json",
    "callback_events": "all",
    "has_dependents": False,
}


class StoredAttempt(msgspec.Struct, frozen=True):
    """An attempt that did not complete its job, as `close_attempt` of the scripts writes it."""

    claim_version: str
    attempt: int
    started_at: str
    ended_at: str
    outcome: str
    state: str
    worker_id: str | None = None
    error: str | None = None


read_attempt: Final = msgspec.json.Decoder(StoredAttempt).decode


def attempt_rows(job: JobRow, closed: list[bytes]) -> list[AttemptRow]:
    rows = [
        AttemptRow(
            job.id, int(a.claim_version), a.attempt, a.worker_id, int(a.started_at), int(a.ended_at), a.outcome, a.error
        )
        for a in map(read_attempt, closed)
    ]
    if job.state in (State.RUNNING, State.COMPLETED) and job.started_at is not None:
        is_over = job.state is State.COMPLETED
        ended_at, outcome = (job.completed_at, "completed") if is_over else (None, None)
        rows.append(
            AttemptRow(
                job.id, job.claim_version, job.attempt_count, job.worker_id, job.started_at, ended_at, outcome, None
            )
        )
    return rows
