"""What a user may say about a job, in the words of the public API, and how it becomes a submission."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, TypedDict

import msgspec

from euterpe.duration import DurationLike, parse_duration_us
from euterpe.model.backoff import Backoff, CustomDelay, Strategy, register_custom_delay
from euterpe.model.dependency import Dependency, parse_dependency
from euterpe.model.errors import InvalidInput
from euterpe.model.priority import Priority, parse_priority
from euterpe.model.retry import DEFAULT_RETRY, RetryPolicy
from euterpe.model.submission import Submission


class Options(TypedDict, total=False):
    """Every option of a submission; a job type's decorator takes the same ones as defaults."""

    queue: str
    priority: Priority | int | str
    delay: DurationLike
    run_at: datetime | float
    max_attempts: int
    timeout: DurationLike
    visibility: DurationLike
    lifetime: DurationLike
    backoff: Backoff | str | Mapping[str, Any] | CustomDelay
    retry_on_timeout: bool
    retry_on_system: bool
    idempotency_key: str
    correlation_id: str
    tags: Mapping[str, str]
    depends_on: Iterable[Any]
    dependency: Dependency | str
    callback_url: str
    callback_events: str
    concurrency_key: str
    concurrency_limit: int
    stages: Iterable[str]


NAMES = frozenset(Options.__annotations__)


def submission_of(job_type: str, payload: bytes, payload_format: str, options: Mapping[str, Any]) -> Submission:
    """Turn options into a submission; an unknown or ill-typed one is an InvalidInput that names it."""
    unknown = sorted(set(options) - NAMES)
    if unknown:
        raise InvalidInput(unknown[0], f"is not an option; known are {', '.join(sorted(NAMES))}")
    fields: dict[str, Any] = {"type": job_type, "payload": payload, "payload_format": payload_format}
    for name, value in options.items():
        if value is not None:
            _READ[name](fields, value)
    fields["retry"] = _retry(options)
    return Submission(**fields)


def _duration(field: str, name: str) -> Any:
    def read(fields: dict[str, Any], value: Any) -> None:
        fields[field] = parse_duration_us(value, name)

    return read


def _same(name: str) -> Any:
    def read(fields: dict[str, Any], value: Any) -> None:
        fields[name] = value

    return read


def _elsewhere(_fields: dict[str, Any], _value: Any) -> None:
    return None


def _run_at(fields: dict[str, Any], value: Any) -> None:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise InvalidInput("run_at", "a datetime without a time zone is ambiguous; use datetime.now(UTC)")
        value = value.astimezone(UTC).timestamp()
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidInput("run_at", f"must be an aware datetime or epoch seconds, not {type(value).__name__}")
    fields["run_at"] = int(value * 1_000_000)


def _depends_on(fields: dict[str, Any], value: Any) -> None:
    if isinstance(value, str):
        raise InvalidInput("depends_on", "must be a list of jobs or job ids")
    fields["depends_on"] = tuple(dict.fromkeys(dependency_id(item) for item in value))


def dependency_id(item: Any) -> str:
    """A job handle, a workflow node or an id."""
    found = item if isinstance(item, str) else getattr(item, "id", None)
    if not isinstance(found, str) or len(found) != 36:
        raise InvalidInput("depends_on", f"{item!r} is not a job or a job id")
    return found.lower()


_READ: dict[str, Any] = {
    "queue": _same("queue"),
    "priority": lambda fields, value: fields.update(priority=int(parse_priority(value))),
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
    "correlation_id": _same("correlation_id"),
    "tags": lambda fields, value: fields.update(tags=dict(value)),
    "depends_on": _depends_on,
    "dependency": lambda fields, value: fields.update(dependency=parse_dependency(value)),
    "callback_url": _same("callback_url"),
    "callback_events": _same("callback_events"),
    "concurrency_key": _same("concurrency_key"),
    "concurrency_limit": _same("concurrency_limit"),
    "stages": lambda fields, value: fields.update(stages=tuple(value)),
}


def _retry(options: Mapping[str, Any]) -> RetryPolicy:
    backoff = options.get("backoff")
    on_timeout, on_system = options.get("retry_on_timeout", True), options.get("retry_on_system", True)
    if backoff is None and on_timeout and on_system:
        return DEFAULT_RETRY
    return RetryPolicy(parse_backoff(backoff), bool(on_timeout), bool(on_system))


def parse_backoff(value: Any) -> Backoff:
    """`"linear"`, `{"strategy": "constant", "initial": "5s"}`, a Backoff, or a function delay(n, initial, max)."""
    if value is None:
        return Backoff()
    if isinstance(value, Backoff):
        return value
    if callable(value):
        name = f"{value.__module__}.{value.__qualname__}"
        register_custom_delay(name, value)
        return Backoff(Strategy.CUSTOM, name=name)
    said: dict[str, Any] = {"strategy": value} if isinstance(value, str) else dict(value)
    known = {"strategy", "initial", "max", "multiplier", "jitter"}
    if unknown := sorted(set(said) - known):
        raise InvalidInput(f"backoff.{unknown[0]}", f"is not known; use {', '.join(sorted(known))}")
    try:
        strategy = Strategy(str(said.get("strategy", "exponential")).lower())
    except ValueError:
        raise InvalidInput("backoff.strategy", f"{said['strategy']!r} is not constant, linear or exponential") from None
    if strategy is Strategy.CUSTOM:
        raise InvalidInput("backoff.strategy", "a custom backoff is given as a function")
    fields: dict[str, Any] = {"strategy": strategy}
    if "initial" in said:
        fields["initial_us"] = parse_duration_us(said["initial"], "backoff.initial")
        fields["max_us"] = max(Backoff().max_us, fields["initial_us"])
    if "max" in said:
        fields["max_us"] = parse_duration_us(said["max"], "backoff.max")
    for name in ("multiplier", "jitter"):
        if name in said:
            if isinstance(said[name], bool) or not isinstance(said[name], (int, float)):
                raise InvalidInput(f"backoff.{name}", f"must be a number, not {type(said[name]).__name__}")
            fields[name] = float(said[name])
    return Backoff(**fields)


def encode_payload(payload: Any) -> tuple[bytes, str]:
    """Bytes stay bytes; anything else becomes JSON."""
    if isinstance(payload, (bytes, bytearray, memoryview)):
        return bytes(payload), "bytes"
    try:
        return msgspec.json.encode({} if payload is None else payload), "json"
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidInput("payload", f"cannot be written as JSON: {error}") from error
