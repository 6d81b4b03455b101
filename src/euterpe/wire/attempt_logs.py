"""What handlers logged, as it travels: in a worker's report, and to those who look at the job."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from euterpe.model.claims.attempt_log import LINES_CEILING, AttemptLog, LogLine, read_log, stored_log
from euterpe.model.job import attempt_id, parse_attempt_id

SAID_LIMIT: Final = 100_000
"""Characters of a line that are read; fewer are kept."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


class LogLineDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A line, at the worker's time."""

    at: Annotated[datetime, Meta(tz=True)]
    level: Annotated[str, Meta(max_length=100)] = "info"
    logger: Annotated[str, Meta(max_length=1_000)] = ""
    message: Annotated[str, Meta(max_length=SAID_LIMIT)]


class AttemptLogBody(msgspec.Struct, frozen=True, kw_only=True):
    """What the attempt logged. The newest 100 lines are kept, and at most 16 KB. `dropped`: older ones, left out."""

    lines: Annotated[list[LogLineDocument], Meta(max_length=LINES_CEILING)]
    dropped: Annotated[int, Meta(ge=0, le=2**31)] = 0


class AttemptLogDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of one attempt. `dropped`: so many older lines are not."""

    attempt_id: str
    dropped: int
    lines: list[LogLineDocument]


class JobLogs(msgspec.Struct, frozen=True):
    """Of the attempts of which something is kept, first to last."""

    attempts: list[AttemptLogDocument]


def job_logs(job_id: str, logs: list[AttemptLog]) -> JobLogs:
    return JobLogs([_attempt_document(job_id, log) for log in logs])


def _attempt_document(job_id: str, log: AttemptLog) -> AttemptLogDocument:
    name = attempt_id(job_id, log.claim_version)
    return AttemptLogDocument(attempt_id=name, dropped=log.dropped, lines=[*map(_document, log.lines)])


def attempt_logs_of(body: bytes) -> list[AttemptLog]:
    """The same, read by a client."""
    found = msgspec.json.decode(body, type=JobLogs).attempts
    return [
        AttemptLog((parse_attempt_id(log.attempt_id) or ("", 0))[1], [*map(_line, log.lines)], log.dropped)
        for log in found
    ]


def attempt_log_body(stored: str) -> AttemptLogBody:
    """What a worker keeps of an attempt, as its report carries it."""
    log = read_log(0, stored)
    return AttemptLogBody(lines=[*map(_document, log.lines)], dropped=log.dropped)


def stored_of(log: AttemptLogBody, clean: Callable[[str], str]) -> str | None:
    """What a report carries, as a store keeps it; each message goes through `clean`."""
    lines = (msgspec.structs.replace(line, message=clean(line.message)) for line in map(_line, log.lines))
    return stored_log(lines, log.dropped)


def _document(line: LogLine) -> LogLineDocument:
    at = _EPOCH + timedelta(microseconds=line.at)
    return LogLineDocument(at=at, level=line.level, logger=line.logger, message=line.message)


def _line(document: LogLineDocument) -> LogLine:
    return LogLine((document.at - _EPOCH) // _MICROSECOND, document.level, document.logger, document.message)
