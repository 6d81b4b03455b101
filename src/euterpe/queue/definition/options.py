"""What a user may say about a job, in the words of the public API, and how it becomes a submission."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypedDict

from msgspec import UNSET

from euterpe.model.dependency import Dependency, parse_dependency
from euterpe.model.duration import DurationLike, parse_duration_us
from euterpe.model.errors import InvalidInput
from euterpe.model.failures.backoff import Backoff, CustomDelay
from euterpe.model.failures.retry import DEFAULT_RETRY, RetryPolicy
from euterpe.model.priority import Priority, parse_priority
from euterpe.model.submitting.changes import Changes
from euterpe.model.submitting.references import ReferenceCollector
from euterpe.model.submitting.submission import Submission
from euterpe.model.submitting.unique import Unique, parse_unique
from euterpe.queue.definition.backoffs import parse_backoff
from euterpe.worker.handling.json_types import to_json_with_references


class Options(TypedDict, total=False):
    """All options of a submit. The decorator of a job type takes the same options as defaults. None means not set.

    `queue`: the name of the queue (`"default"`). `priority`: critical, high, normal, low or bulk. `delay`, `run_at`:
    when the job may start. `max_attempts`, `backoff`, `retry_on_timeout`, `retry_on_system`: how it is retried.
    `timeout`: the longest time of one attempt. `visibility`: the longest lease. `lifetime`: the longest time from the
    submit to the end. `idempotency_key`: a second submit with this key returns the first job, during the
    `idempotency_window`. `correlation_id`, `tags`: values to find the job by. `depends_on`: jobs or ids that it waits
    for. `dependency`: how it waits for them. `callback_url`, `callback_events`: where webhooks go, and for which
    events. `concurrency_key`, `concurrency_limit`: how many jobs with this key run at once. `stages`: the names of its
    steps. `unique_key`: only one job of this type and key is stored at a time. `unique`: `waiting` (one waiting job),
    `active` (one waiting or running job), `replace` (the waiting job gets the new arguments) or `debounce` (the same,
    and its delay starts again).

    Example:
        await queue.submit("report.render", {"report_id": 7}, priority="bulk", delay="5m", tags={"team": "a"})
    """

    queue: str | None
    priority: Priority | int | str | None
    delay: DurationLike | None
    run_at: datetime | float | None
    max_attempts: int | None
    timeout: DurationLike | None
    visibility: DurationLike | None
    lifetime: DurationLike | None
    backoff: Backoff | str | Mapping[str, Any] | CustomDelay | None
    retry_on_timeout: bool | None
    retry_on_system: bool | None
    idempotency_key: str | None
    idempotency_window: DurationLike | None
    correlation_id: str | None
    tags: Mapping[str, str] | None
    depends_on: Iterable[Any] | None
    dependency: Dependency | str | None
    callback_url: str | None
    callback_events: str | None
    concurrency_key: str | None
    concurrency_limit: int | None
    unique_key: str | None
    unique: Unique | str | None
    stages: Iterable[str] | None


class Updates(TypedDict, total=False):
    """What `queue.update` can change. None removes the tags, the correlation id or the callback. Options that you leave
    out do not change.

    Example:
        await queue.update(job.id, priority="high", callback_url=None)
    """

    priority: Priority | int | str
    tags: Mapping[str, str] | None
    correlation_id: str | None
    callback_url: str | None


def changes_of(updates: Updates) -> Changes:
    """InvalidInput names what cannot be changed."""
    if unknown := sorted(set(updates) - set(Updates.__annotations__)):
        raise InvalidInput(unknown[0], f"cannot be changed; use {', '.join(Updates.__annotations__)}")
    tags = updates.get("tags", UNSET)
    return Changes(
        priority=int(parse_priority(updates["priority"])) if "priority" in updates else UNSET,
        tags=dict(tags) if isinstance(tags, Mapping) else tags,
        correlation_id=updates.get("correlation_id", UNSET),
        callback_url=updates.get("callback_url", UNSET),
    )


def depending_on(options: Mapping[str, Any], references: Sequence[str]) -> dict[str, Any]:
    """Options that wait for these jobs first, in this order: a reference in the payload counts by it."""
    depends_on = options.get("depends_on")
    if depends_on is not None and (isinstance(depends_on, (str, bytes)) or not isinstance(depends_on, Iterable)):
        raise InvalidInput("depends_on", f"must be a list of jobs or job ids, not {type(depends_on).__name__}")
    return {**options, "depends_on": [*references, *(depends_on or ())]}


NAMES: Final = frozenset(Options.__annotations__)
Fields = dict[str, Any]
Reader = Callable[[Fields, Any], None]


def submission_of(job_type: str, payload: bytes, payload_format: str, options: Mapping[str, Any]) -> Submission:
    """Turn options into a submission; an unknown or ill-typed one is an InvalidInput that names it."""
    fields: Fields = {"type": job_type, "payload": payload, "payload_format": payload_format}
    for name, value in options.items():
        read = _READ.get(name)
        if read is None:
            raise InvalidInput(name, f"is not an option; known are {', '.join(sorted(NAMES))}")
        if value is not None:
            read(fields, value)
    if "delay_us" in fields and "run_at" in fields:
        raise InvalidInput("run_at", "and delay both say when; give one of them")
    fields["retry"] = _retry(options)
    return Submission(**fields)


def _duration(field: str, name: str) -> Reader:
    def read(fields: Fields, value: Any) -> None:
        fields[field] = parse_duration_us(value, name)

    return read


def _same(name: str) -> Reader:
    def read(fields: Fields, value: Any) -> None:
        fields[name] = value

    return read


def _elsewhere(_fields: Fields, _value: Any) -> None:
    return None


def _priority(fields: Fields, value: Any) -> None:
    fields["priority"] = int(parse_priority(value))


def _dependency(fields: Fields, value: Any) -> None:
    fields["dependency"] = parse_dependency(value)


def _unique(fields: Fields, value: Any) -> None:
    fields["unique"] = parse_unique(value)


def _run_at(fields: Fields, value: Any) -> None:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise InvalidInput("run_at", "a datetime without a time zone is ambiguous; use datetime.now(UTC)")
        value = value.astimezone(UTC).timestamp()
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidInput("run_at", f"must be an aware datetime or epoch seconds, not {type(value).__name__}")
    if not math.isfinite(value):
        raise InvalidInput("run_at", f"{value!r} is not a time")
    fields["run_at"] = int(value * 1_000_000)


def _tags(fields: Fields, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise InvalidInput("tags", f"must be a map of text to text, not {type(value).__name__}")
    fields["tags"] = dict(value)


def _stages(fields: Fields, value: Any) -> None:
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise InvalidInput("stages", f"must be a list of names, not {type(value).__name__}")
    fields["stages"] = tuple(value)


def _depends_on(fields: Fields, value: Any) -> None:
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise InvalidInput("depends_on", f"must be a list of jobs or job ids, not {type(value).__name__}")
    fields["depends_on"] = tuple(dict.fromkeys(dependency_id(item) for item in value))


def dependency_id(item: Any) -> str:
    """A job handle, a workflow node or an id."""
    found = item if isinstance(item, str) else getattr(item, "id", None)
    if not isinstance(found, str) or len(found) != 36:
        raise InvalidInput("depends_on", f"{item!r} is not a job or a job id")
    return found.lower()


_READ: Final[dict[str, Reader]] = {
    "queue": _same("queue"),
    "priority": _priority,
    "delay": _duration("delay_us", "delay"),
    "run_at": _run_at,
    "max_attempts": _same("max_attempts"),
    "timeout": _duration("execution_timeout_us", "timeout"),
    "visibility": _duration("visibility_us", "visibility"),
    "lifetime": _duration("lifetime_us", "lifetime"),
    # These three make up the retry policy, which is read as a whole.
    "backoff": _elsewhere,
    "retry_on_timeout": _elsewhere,
    "retry_on_system": _elsewhere,
    "idempotency_key": _same("idempotency_key"),
    "idempotency_window": _duration("idempotency_window_us", "idempotency_window"),
    "correlation_id": _same("correlation_id"),
    "tags": _tags,
    "depends_on": _depends_on,
    "dependency": _dependency,
    "callback_url": _same("callback_url"),
    "callback_events": _same("callback_events"),
    "concurrency_key": _same("concurrency_key"),
    "concurrency_limit": _same("concurrency_limit"),
    "unique_key": _same("unique_key"),
    "unique": _unique,
    "stages": _stages,
}


def _retry(options: Mapping[str, Any]) -> RetryPolicy:
    backoff = options.get("backoff")
    on_timeout, on_system = _flag(options, "retry_on_timeout"), _flag(options, "retry_on_system")
    if backoff is None and on_timeout and on_system:
        return DEFAULT_RETRY
    return RetryPolicy(parse_backoff(backoff), on_timeout, on_system)


def _flag(options: Mapping[str, Any], name: str) -> bool:
    value = options.get(name)
    if value is None:
        return True
    if not isinstance(value, bool):
        raise InvalidInput(name, f"must be True or False, not {value!r}")
    return value


def encode_payload(payload: Any, collector: ReferenceCollector | None = None) -> tuple[bytes, str]:
    """Bytes stay bytes; anything else becomes JSON, and jobs in it references to their results."""
    if isinstance(payload, (bytes, bytearray, memoryview)):
        return bytes(payload), "bytes"
    try:
        return to_json_with_references({} if payload is None else payload, collector or ReferenceCollector()), "json"
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidInput("payload", f"cannot be written as JSON: {error}") from error
