"""The body of POST /transcode: every problem found, each with a JSON pointer, and then a job to submit.

What is stored as the job's payload holds no secret: credentials and the queries of signed URLs lie apart. So the
payload also is what makes two requests the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct, field

from euterpe.egress.errors import EgressRefused
from euterpe.egress.target import EgressPolicy, check_url
from euterpe.model.errors import InvalidInput
from euterpe.model.priority import parse_priority
from euterpe.model.state import TRANSCODE, TRANSCODE_STAGES
from euterpe.model.submitting.submission import PAYLOAD_LIMIT, Submission, check
from euterpe.transcode.schema.checking import names_of, read_outputs
from euterpe.transcode.schema.location_rules import place_problems, read_locations
from euterpe.transcode.schema.locations import (
    CredentialSet,
    DestinationLocation,
    Locations,
    PutUrlDestination,
    SourceLocation,
)
from euterpe.transcode.schema.outputs import Output
from euterpe.transcode.schema.reading import FieldProblem, escaped, read

JOB_TYPE: Final = TRANSCODE
CALLBACK_EVENTS: Final = "transcode.*"
DEFAULT_MAX_ATTEMPTS: Final = 5
DEFAULT_TIMEOUT_S: Final = 1800
LONGEST_TIMEOUT_S: Final = 6 * 3600

_ELSEWHERE: Final = ("source", "destination", "credentials", "outputs")
_POINTERS: Final = {
    "run_at": "/not_before",
    "delay": "/not_before",
    "correlation_id": "/external_id",
    "callback_url": "/status_webhook_url",
    "timeout": "/timeout_seconds",
}


class _Options(Struct, kw_only=True):
    """What a request says besides places and outputs."""

    priority: str | int = "normal"
    external_id: Annotated[str, Meta(max_length=256)] | None = None
    metadata: dict[str, str] = field(default_factory=dict)
    status_webhook_url: str | None = None
    refresh_url: str | None = None
    max_attempts: Annotated[int, Meta(ge=1, le=100)] = DEFAULT_MAX_ATTEMPTS
    timeout_seconds: Annotated[int, Meta(ge=1, le=LONGEST_TIMEOUT_S)] = DEFAULT_TIMEOUT_S
    not_before: str | None = None
    reuse: bool = False
    progress_webhook_seconds: Annotated[int, Meta(ge=1, le=3600)] | None = None


class TranscodePayload(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is stored of a request as the payload of its job: the arguments of the handler."""

    source: SourceLocation
    destination: DestinationLocation
    outputs: tuple[Output, ...]
    refresh_url: str | None = None
    reuse: bool = False
    progress_webhook_seconds: int | None = None

    def encode(self) -> bytes:
        """The same request gives the same bytes, whatever the order of its members was."""
        return msgspec.json.encode(self, order="deterministic")


@dataclass(frozen=True, slots=True)
class TranscodeRequest:
    """A request without problems: a job, and what opens its places."""

    submission: Submission
    locations: Locations
    credentials: CredentialSet
    refresh_url: str | None
    outputs: tuple[Output, ...]


class RequestInvalid(Exception):
    """Nothing was stored; `problems` are all that was found."""

    def __init__(self, problems: Sequence[FieldProblem]) -> None:
        super().__init__(f"{len(problems)} problems: {', '.join(problem.pointer for problem in problems)}")
        self.problems = tuple(problems)


def read_request(
    body: Mapping[str, object],
    policy: EgressPolicy,
    now_s: float,
    *,
    requester_id: str,
    idempotency_key: str | None = None,
    queue: str = "default",
    takes_local: bool = False,
    payload_limit: int = PAYLOAD_LIMIT,
) -> TranscodeRequest:
    """Raises RequestInvalid with every problem."""
    found = read_locations(body, policy, now_s)
    problems = list(found.problems)
    if not takes_local:
        problems += _local_places(body)
    outputs, of_outputs = read_outputs(body.get("outputs"), ignore=("put_url",))
    problems += [each.problem.under(f"/outputs{_index(each.index)}") for each in of_outputs]
    options = read(body, _Options, problems, ignore=_ELSEWHERE) or _Options()
    _check_urls(options, policy, problems)
    run_at = _moment(options.not_before, problems)
    if found.locations is not None:
        problems += _several_files(found.locations.destination, outputs)
    if problems or found.locations is None:
        raise RequestInvalid(_once_each(problems))
    locations = found.locations
    payload = TranscodePayload(
        source=locations.source,
        destination=locations.destination,
        outputs=outputs,
        refresh_url=options.refresh_url,
        reuse=options.reuse,
        progress_webhook_seconds=options.progress_webhook_seconds,
    )
    try:
        submission = Submission(
            type=JOB_TYPE,
            payload=payload.encode(),
            requester_id=requester_id,
            queue=queue,
            priority=int(parse_priority(options.priority)),
            run_at=run_at,
            max_attempts=options.max_attempts,
            execution_timeout_us=options.timeout_seconds * 1_000_000,
            stages=TRANSCODE_STAGES,
            idempotency_key=idempotency_key,
            correlation_id=options.external_id,
            tags=dict(sorted(options.metadata.items())) or None,
            callback_url=options.status_webhook_url,
            callback_events=CALLBACK_EVENTS,
        )
        check(submission, payload_limit)
    except InvalidInput as error:
        raise invalid(error) from None
    return TranscodeRequest(submission, locations, found.credentials, options.refresh_url, outputs)


def invalid(error: InvalidInput) -> RequestInvalid:
    """What the queue says of a job, in the words of the request."""
    return RequestInvalid([FieldProblem(_pointer(error.field), "invalid", error.reason)])


def payload_of(raw: Mapping[str, Any]) -> TranscodePayload:
    """The arguments of a job that came another way than by POST /transcode, held against the same rules."""
    outputs, problems = read_outputs(raw.get("outputs"))
    if problems:
        raise RequestInvalid([each.problem.under(f"/outputs{_index(each.index)}") for each in problems])
    payload = msgspec.convert({**raw, "outputs": msgspec.to_builtins(outputs)}, TranscodePayload)
    if found := place_problems(payload.source, payload.destination):
        raise RequestInvalid(found)
    return payload


def _index(index: int | None) -> str:
    return "" if index is None else f"/{index}"


def _check_urls(options: _Options, policy: EgressPolicy, problems: list[FieldProblem]) -> None:
    for name in ("status_webhook_url", "refresh_url"):
        url = getattr(options, name)
        if url is None:
            continue
        try:
            check_url(url, policy)
        except EgressRefused as refusal:
            problems.append(FieldProblem(f"/{name}", str(refusal.reason), str(refusal)))


def _moment(text: str | None, problems: list[FieldProblem]) -> int | None:
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None or at.timestamp() < 0:
        problems.append(FieldProblem("/not_before", "invalid", "an RFC 3339 time with its offset is expected"))
        return None
    return int(at.timestamp() * 1_000_000)


def _local_places(body: Mapping[str, object]) -> list[FieldProblem]:
    places = {name: body.get(name) for name in ("source", "destination")}
    return [
        FieldProblem(f"/{name}/type", "unsupported", "local files are switched off here: use s3 or signed URLs")
        for name, place in places.items()
        if isinstance(place, dict) and place.get("type") == "local"
    ]


def _several_files(destination: DestinationLocation, outputs: Sequence[Output]) -> list[FieldProblem]:
    if not isinstance(destination, PutUrlDestination):
        return []
    return [
        FieldProblem(
            f"/outputs/{index}/put_url", "unsupported", "this output has several files, and a put_url takes one"
        )
        for index, output in enumerate(outputs)
        if len(names_of(output)) > 1
    ]


def _once_each(problems: Sequence[FieldProblem]) -> list[FieldProblem]:
    """One a place; `put_url` of an output is read by two readers."""
    by_pointer: dict[str, FieldProblem] = {}
    for problem in problems:
        by_pointer.setdefault(problem.pointer, problem)
    return list(by_pointer.values())


def _pointer(name: str) -> str:
    if name in _POINTERS:
        return _POINTERS[name]
    head, dot, rest = name.partition(".")
    return f"/metadata{'/' + escaped(rest) if dot else ''}" if head == "tags" else f"/{escaped(name)}"
