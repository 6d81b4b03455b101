"""A request to run something, checked before anything is stored.

`Submission` is what the public API, the HTTP edge and the CLI all build; `check` names the first field that
is wrong. The payload is already encoded here: what is hashed is what is stored.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

import msgspec

from euterpe.model.dependency import WAITS, Dependency, check_breadth
from euterpe.model.duration import LONGEST_US, format_duration
from euterpe.model.errors import InvalidInput, PayloadTooLarge, UnknownDependency
from euterpe.model.events.callback_events import OF_EVERY_JOB, family_of
from euterpe.model.failures.retry import DEFAULT_RETRY, RetryPolicy, retry_to_wire
from euterpe.model.json_depth import check_depth
from euterpe.model.state import CLAIMED, PLAIN_STAGES
from euterpe.model.submitting.references import check_references, has_references
from euterpe.model.submitting.unique import Unique
from euterpe.model.urls.http_url import BadUrl, parse_http_url

MINUTE_US: Final = 60 * 1_000_000
DAY_US: Final = 24 * 60 * MINUTE_US

_BATCH: Final = "*batch"
EXECUTION_TIMEOUT_US: Final = 30 * MINUTE_US
OVERRUN_US: Final = 30 * 1_000_000
"""How long after its deadline a worker beside the database keeps a lease: to stop the handler and to write its end. A
worker over HTTP has none of it: whether it stops its handler, nobody here can tell."""
VISIBILITY_US: Final = 5 * MINUTE_US
LIFETIME_US: Final = 7 * DAY_US
SUBMISSION_TIMEOUT_US: Final = 30 * 1_000_000
IDEMPOTENCY_WINDOW_US: Final = DAY_US
"""How long a key is remembered, counted from the end of its job, where nobody says otherwise."""

PAYLOAD_LIMIT: Final = 1_000_000
PAYLOAD_CEILING: Final = 16_000_000
RESULT_LIMIT: Final = 1_000_000
KEY_LIMIT: Final = 256
NAME_LIMIT: Final = 200
URL_LIMIT: Final = 2_000
TAGS_LIMIT: Final = 64
TRACE_TAG: Final = "traceparent"
"""The tag that says which trace a job belongs to, as W3C writes it."""
MAX_ATTEMPTS_LIMIT: Final = 1_000
SHORTEST_VISIBILITY_US: Final = 1_000_000
"""A lease is renewed every third of it; below a second the renewals would be all that happens."""
LATEST_US: Final = 253_402_300_799_999_999
"""The end of the year 9999: later times have no RFC 3339 form."""

LOCAL_REQUESTER: Final = "local"
DEFAULT_QUEUE: Final = "default"


class Submission(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Everything a user may say about a job. Durations are microseconds."""

    type: str
    payload: bytes = b"{}"
    payload_format: str = "json"
    requester_id: str = LOCAL_REQUESTER
    queue: str = DEFAULT_QUEUE
    priority: int = 2
    delay_us: int = 0
    run_at: int | None = None
    max_attempts: int = 3
    execution_timeout_us: int = EXECUTION_TIMEOUT_US
    visibility_us: int = VISIBILITY_US
    lifetime_us: int = LIFETIME_US
    retry: RetryPolicy = DEFAULT_RETRY
    stages: tuple[str, ...] = PLAIN_STAGES
    idempotency_key: str | None = None
    idempotency_window_us: int | None = None
    correlation_id: str | None = None
    tags: dict[str, str] | None = None
    depends_on: tuple[str, ...] = ()
    dependency: Dependency = Dependency.AFTER
    callback_url: str | None = None
    callback_events: str = "all"
    concurrency_key: str | None = None
    concurrency_limit: int | None = None
    unique_key: str | None = None
    unique: Unique = Unique.WAITING
    replay_of: str | None = None
    expected_us: int | None = None
    """How long its requester is told that it will take: kept with the answer, so that a replay says the same."""

    def with_payload(self, payload: bytes) -> Submission:
        return msgspec.structs.replace(self, payload=payload)

    @property
    def stages_json(self) -> str | None:
        """None for a job without declared stages: the common row stays lean."""
        return None if self.stages is PLAIN_STAGES else msgspec.json.encode(self.stages).decode()

    @property
    def retry_json(self) -> str | None:
        if self.retry is DEFAULT_RETRY:
            return None
        stored = retry_to_wire(self.retry)
        return None if stored is None else msgspec.json.encode(stored).decode()

    @property
    def tags_json(self) -> str | None:
        return msgspec.json.encode(self.tags).decode() if self.tags else None


def check(submission: Submission, payload_limit: int = PAYLOAD_LIMIT) -> None:
    """Raise InvalidInput naming the field; called before any statement runs."""
    s = submission
    check_name("type", s.type)
    check_name("queue", s.queue)
    check_name("requester_id", s.requester_id)
    check_payload(s.payload, payload_limit)
    if s.payload_format not in ("json", "bytes"):
        raise InvalidInput("payload_format", f"{s.payload_format!r} is not json or bytes")
    if s.payload_format == "json":
        check_depth("payload", s.payload)
    check_priority(s.priority)
    _check_range("max_attempts", s.max_attempts, 1, MAX_ATTEMPTS_LIMIT)
    _check_duration("delay", s.delay_us, 0)
    if s.run_at is not None:
        _check_range("run_at", s.run_at, 0, LATEST_US)
    _check_duration("timeout", s.execution_timeout_us, 1)
    _check_duration("visibility", s.visibility_us, SHORTEST_VISIBILITY_US)
    _check_duration("lifetime", s.lifetime_us, 1)
    if s.delay_us >= s.lifetime_us:
        raise InvalidInput("delay", "is not shorter than the lifetime: the job would end before it could run")
    if s.depends_on != ():
        _check_dependencies(s.depends_on, s.dependency)
    if has_references(s.payload) and s.payload_format == "json":
        check_references(s.payload, s.depends_on, s.dependency)
    if s.retry is not DEFAULT_RETRY and not isinstance(s.retry, RetryPolicy):
        raise InvalidInput("retry", f"must be a RetryPolicy, not {type(s.retry).__name__}")
    if s.idempotency_key is not None:
        check_key(s.idempotency_key)
    if s.idempotency_window_us is not None:
        _check_duration("idempotency_window", s.idempotency_window_us, 1)
    if s.correlation_id is not None:
        check_text("correlation_id", s.correlation_id, KEY_LIMIT)
    if s.tags is not None:
        check_tags(s.tags)
    if s.callback_url is not None:
        check_callback(s.callback_url)
    if s.callback_events not in OF_EVERY_JOB and family_of(s.callback_events) is None:
        raise InvalidInput("callback_events", f"{s.callback_events!r} is not one of {', '.join(OF_EVERY_JOB)}")
    if s.concurrency_key is not None:
        check_limit_key(s.concurrency_key)
    if s.concurrency_limit is not None and s.concurrency_key is None:
        raise InvalidInput("concurrency_limit", "goes with a concurrency_key")
    if s.concurrency_limit is not None:
        _check_range("concurrency_limit", s.concurrency_limit, 1, 1_000_000)
    if s.unique_key is not None:
        _check_unique(s)
    if s.stages is not PLAIN_STAGES:
        _check_stages(s.stages)


def _check_unique(s: Submission) -> None:
    check_text("unique_key", s.unique_key, KEY_LIMIT, least=1)
    if not isinstance(s.unique, Unique):
        raise InvalidInput("unique", f"must be one of {', '.join(Unique)}")
    if s.idempotency_key is not None:
        raise InvalidInput("unique_key", "and idempotency_key both say when a second job is the first; give one")
    if s.depends_on:
        raise InvalidInput("unique_key", "cannot go with depends_on: a job that has the key would not wait for those")
    if s.unique is Unique.DEBOUNCE and not s.delay_us:
        raise InvalidInput("unique", "debounce needs a delay: the time without a submission after which the job runs")


def check_limit_key(key: str) -> None:
    check_text("concurrency_key", key, KEY_LIMIT, least=1)


def check_payload(payload: object, limit: int) -> None:
    if not isinstance(payload, bytes):
        raise InvalidInput("payload", f"must be bytes, not {type(payload).__name__}")
    if len(payload) > limit:
        raise PayloadTooLarge("payload", f"{len(payload)} bytes; the limit is {limit}")


def check_key(key: object) -> None:
    """An idempotency key, of one submission or of a whole batch."""
    check_text("idempotency_key", key, KEY_LIMIT, least=1)


def check_name(field: str, value: object) -> None:
    """The name of a queue, a job type or a requester."""
    check_text(field, value, NAME_LIMIT, least=1)


def check_text(field: str, value: object, limit: int, least: int = 0) -> None:
    """Text that every engine can store and compare."""
    if not isinstance(value, str):
        raise InvalidInput(field, f"must be text, not {type(value).__name__}")
    if not least <= len(value) <= limit:
        raise InvalidInput(field, f"{len(value)} characters; must have {least} to {limit}")
    if "\x00" in value:
        raise InvalidInput(field, "must not contain a NUL character")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InvalidInput(field, "is not valid Unicode (a lone surrogate)") from None


def check_priority(priority: object) -> None:
    _check_range("priority", priority, 0, 4)


def _check_range(field: str, value: object, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(field, f"must be a whole number, not {type(value).__name__}")
    if not low <= value <= high:
        raise InvalidInput(field, f"{value} is not between {low} and {high}")


def _check_duration(field: str, value: object, least_us: int) -> None:
    if isinstance(value, int) and (0 <= value < least_us or value > LONGEST_US):
        least, longest = format_duration(least_us), format_duration(LONGEST_US)
        raise InvalidInput(field, f"{format_duration(value)} is not between {least} and {longest}")
    _check_range(field, value, least_us, LONGEST_US)


def check_tags(tags: object) -> None:
    if not isinstance(tags, dict):
        raise InvalidInput("tags", f"must be a map of text to text, not {type(tags).__name__}")
    if len(tags) > TAGS_LIMIT:
        raise InvalidInput("tags", f"{len(tags)} tags; {TAGS_LIMIT} are allowed")
    for key, value in tags.items():
        check_text("tags", key, KEY_LIMIT, least=1)
        check_text(f"tags.{key}", value, KEY_LIMIT)


def check_callback(url: object) -> None:
    check_text("callback_url", url, URL_LIMIT, least=1)
    try:
        parse_http_url(str(url))
    except BadUrl as bad:
        raise InvalidInput("callback_url", str(bad)) from None


def _check_dependencies(depends_on: object, kind: object) -> None:
    if not isinstance(depends_on, tuple) or not all(isinstance(job_id, str) for job_id in depends_on):
        raise InvalidInput("depends_on", "must be a tuple of job ids")
    check_breadth(depends_on)
    if odd := next((job_id for job_id in depends_on if not job_id.isascii()), None):
        raise UnknownDependency("depends_on", f"there is no job {odd[:100]!r}")
    if not isinstance(kind, Dependency) or kind not in WAITS:
        raise InvalidInput("dependency", f"{kind!r} is not one of {', '.join(k for k in Dependency if k in WAITS)}")


def _check_stages(stages: tuple[str, ...]) -> None:
    if not isinstance(stages, tuple) or not all(isinstance(stage, str) for stage in stages):
        raise InvalidInput("stages", "must be a tuple of names")
    if not stages or stages[0] != CLAIMED or len(set(stages)) != len(stages) or len(stages) > 50:
        raise InvalidInput("stages", f"must start with {CLAIMED!r}, without repeats, at most 50")
    for stage in stages:
        check_text("stages", stage, 50, least=1)


def _without_trace(tags: dict[str, str] | None) -> dict[str, str] | None:
    """A repeated request comes in a span of its own, and is the same request."""
    if not tags or TRACE_TAG not in tags:
        return tags
    return {name: value for name, value in tags.items() if name != TRACE_TAG} or None


def request_hash(submission: Submission, depends_on: tuple[str, ...] | None = None) -> bytes:
    """What makes two requests the same: everything the user said but the key itself and how long it is remembered.

    `depends_on` replaces the ids inside a graph by local names, since ids are new at every try.
    """
    parts: list[Any] = [
        submission.type,
        submission.payload_format,
        submission.queue,
        submission.priority,
        submission.delay_us,
        submission.run_at,
        submission.max_attempts,
        submission.execution_timeout_us,
        submission.visibility_us,
        submission.lifetime_us,
        retry_to_wire(submission.retry),
        submission.stages,
        submission.correlation_id,
        _without_trace(submission.tags),
        submission.depends_on if depends_on is None else depends_on,
        submission.dependency,
        submission.callback_url,
        submission.callback_events,
        submission.concurrency_key,
        submission.concurrency_limit,
    ]
    if submission.unique_key is not None:  # Not always: hashes that are stored must stay what they are.
        parts += [submission.unique_key, submission.unique]
    digest = hashlib.sha256(msgspec.json.encode(parts, order="deterministic"))
    digest.update(submission.payload)
    return digest.digest()


def idempotency_scope(requester_id: str, job_type: str) -> str:
    """000's (requester, key) and 003's (type, key) at once: a key is unique per requester and job type."""
    if job_type.endswith(_BATCH) and job_type.count("*") == len(job_type) - len("batch"):
        job_type = f"*{job_type}"  # No type has the scope of batches.
    return f"{len(requester_id)}:{requester_id}/{job_type}"


def batch_scope(requester_id: str) -> str:
    """Keys of whole batches."""
    return f"{len(requester_id)}:{requester_id}/{_BATCH}"
