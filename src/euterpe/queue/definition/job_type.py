"""A job type: a handler with a name. Calling `.submit` takes the handler's own arguments, checked here and now."""

from __future__ import annotations

import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Concatenate, Final, Generic, ParamSpec, Protocol, TypeVar, Unpack, cast, overload

import msgspec

from euterpe.model.duration import DurationLike, parse_duration_us
from euterpe.model.errors import InvalidInput
from euterpe.model.json_depth import check_depth
from euterpe.model.submitting.batch import JobKind
from euterpe.model.submitting.references import ReferenceCollector, has_any_references, has_references, put_previous
from euterpe.model.submitting.submission import EXECUTION_TIMEOUT_US, Submission, check, check_payload
from euterpe.queue.definition.options import NAMES, Options, depending_on, encode_payload, submission_of
from euterpe.queue.handle import JobHandle
from euterpe.queue.ports import SubmitsCalls
from euterpe.worker.context import Context
from euterpe.worker.handling.handlers import Handler, Handlers, handler_of

P = ParamSpec("P")
R = TypeVar("R")
_NO_OPTIONS: Final[Options] = {}
"""One for all calls, as no list of references is kept where there are none: the collector walks what a batch holds."""


class Definition(msgspec.Struct, frozen=True, eq=False):
    """What a queue knows of a job type: its handler, its default options, and the submission they come to."""

    submitter: SubmitsCalls
    handler: Handler
    defaults: Options
    usual: Submission
    """A submission of which nothing but the type was said; checked."""
    usual_kind: JobKind

    @property
    def type(self) -> str:
        return self.handler.type

    def kind(self, payload: bytes, options: Mapping[str, Any], payload_limit: int) -> JobKind:
        """The kind of a job with this payload, checked; without options that is soon done, for the defaults have been
        checked at the decorator."""
        if not options and not has_references(payload):
            check_payload(payload, payload_limit)
            check_depth("payload", payload)
            return self.usual_kind
        submission = submission_of(self.type, payload, "json", {**self.defaults, **options})
        check(submission, payload_limit)
        return JobKind(submission)

    def check_arguments(self, payload: bytes, payload_format: str) -> None:
        """A payload that came as it is stored; InvalidInput names the argument that does not fit."""
        if payload_format == "bytes":
            if not self.handler.has_argument("payload"):
                raise InvalidInput("payload", f"is bytes; {self.type} has no argument named payload to take them")
        else:
            self.handler.signature.check(self.type, payload)

    def encode_payload(self, payload: object, collector: ReferenceCollector) -> tuple[bytes, str]:
        """A payload given with the type's name: named arguments, checked, or bytes for a handler that takes them."""
        if isinstance(payload, (bytes, bytearray, memoryview)):
            if not self.handler.has_argument("payload"):
                raise InvalidInput("payload", f"is bytes; {self.type} has no argument named payload to take them")
            return encode_payload(payload, collector)
        if payload is not None and not isinstance(payload, dict):
            raise InvalidInput("payload", f"{self.type} takes named arguments, not {type(payload).__name__}")
        return self.handler.encode((), payload or {}, collector), "json"


class Call(Generic[R]):
    """A job type with its arguments, not yet submitted. `with_args` returns it. `queue.submit`, `submit_many`, `chain`,
    `fan_out` and `flow.add` take it.

    Example:
        jobs = await queue.submit_many([render.with_args(report_id=i) for i in range(1000)])
    """

    __slots__ = ("_definition", "_options", "_payload", "_references")

    def __init__(
        self, definition: Definition, payload: bytes, options: Options, references: Sequence[str] = ()
    ) -> None:
        self._definition = definition
        self._payload = payload
        self._options = options
        self._references = references

    def __repr__(self) -> str:
        return f"<call of {self.type}>"

    @property
    def type(self) -> str:
        """The name of its job type."""
        return self._definition.type

    def with_options(self, **options: Unpack[Options]) -> Call[R]:
        """Return the same call with these options in addition to its own. The submit checks them.

        Example:
            urgent = render.with_args(report_id=7).with_options(priority="high")
        """
        return Call(self._definition, self._payload, {**self._options, **options}, self._references)


class JobType(Generic[P, R]):
    """A function decorated by `@queue.job`, with methods to submit it.

    `type` is its name in the queue. `function` is the decorated function. Calling a job type calls that function.

    Example:
        @queue.job("report.render", max_attempts=5)
        async def render(ctx: euterpe.Context, report_id: int) -> dict: ...

        job = await render.submit(report_id=7)
    """

    def __init__(self, definition: Definition) -> None:
        handler = definition.handler
        self._definition = definition
        self.type = handler.type
        self.function = handler.function
        self.__name__ = handler.function.__name__
        self.__qualname__ = handler.function.__qualname__
        self.__module__ = handler.function.__module__
        self.__doc__ = handler.function.__doc__

    def __repr__(self) -> str:
        return f"<job type {self.type}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # P leaves the context out, and R the await
        """Call the plain function, as in a unit test."""
        return self.function(*args, **kwargs)

    def with_args(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        """Return a call with these arguments, to submit later: alone, in bulk or in a workflow. Raises InvalidInput
        for an argument that does not fit the handler.

        Example:
            await queue.chain([extract.with_args(day="mon"), load.with_args()])
        """
        handler = self._definition.handler
        payload = None if args else handler.signature.encode_plain(kwargs)
        if payload is not None:
            return Call(self._definition, payload, _NO_OPTIONS)
        collector = ReferenceCollector()
        payload = handler.encode(args, kwargs, collector)
        return Call(self._definition, payload, _NO_OPTIONS, collector.ids or ())

    def options(self, *, connection: object = None, **options: Unpack[Options]) -> PreparedJob[P, R]:
        """Return the same job type with other options for the next submit. With `connection`, the job is stored in the
        open transaction of your own database connection.

        Example:
            await render.options(delay="5m", idempotency_key="r7").submit(report_id=7)
        """
        return PreparedJob(self, options, connection)

    async def submit(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Store a job with these arguments. With `connection=`, it is stored in your own transaction.

        Raises InvalidInput for an argument that does not fit the handler. Raises StoreUnavailable if the database does
        not answer; then nothing was stored.

        Example:
            job = await render.submit(report_id=7)
        """
        definition = self._definition
        connection = None
        if "connection" in kwargs and not definition.handler.has_argument("connection"):
            connection = kwargs.pop("connection")
        if foreign := [name for name in kwargs if name in NAMES and not definition.handler.has_argument(name)]:
            raise InvalidInput(
                foreign[0],
                f"is an option and not an argument of {self.type}; "
                f"write {self.__name__}.options({foreign[0]}=...).submit(...)",
            )
        call = self.with_args(*args, **kwargs)
        return await definition.submitter.submit_call(call, connection, {})


class PreparedJob(Generic[P, R]):
    """A job type with options. `render.options(...)` returns it.

    Example:
        await render.options(priority="high").submit(report_id=7)
    """

    def __init__(self, jobtype: JobType[P, R], options: Options, connection: object) -> None:
        self._jobtype = jobtype
        self._options = options
        self._connection = connection

    def with_args(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        """Return a call with these arguments and options, to submit later. Raises InvalidInput for an argument that
        does not fit the handler.

        Example:
            call = render.options(priority="high").with_args(report_id=7)
        """
        return self._jobtype.with_args(*args, **kwargs).with_options(**self._options)

    async def submit(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Store a job with these arguments and options. Raises InvalidInput for an argument or option that does not
        fit, and IdempotencyConflict if the key was used for another request.

        Example:
            job = await render.options(delay="5m").submit(report_id=7)
        """
        call = self.with_args(*args, **kwargs)
        submitter = definition_of(self._jobtype).submitter
        return await submitter.submit_call(call, self._connection, {})


class JobDecorator:
    """The decorator that `@queue.job(...)` returns. It keeps the types of the handler's arguments and result for the
    type checker. The first parameter of a handler may be the context."""

    def __init__(self, decorate: Callable[[Callable[..., Any]], JobType[..., Any]]) -> None:
        self._decorate = decorate

    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], Awaitable[R]]) -> JobType[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R]) -> JobType[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, Awaitable[R]]) -> JobType[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R]) -> JobType[P, R]: ...
    def __call__(self, function: Callable[..., Any]) -> JobType[..., Any]:
        return self._decorate(function)


class CronDecorator:
    """The decorator that `@queue.cron(...)` returns. It takes a function or a job type."""

    def __init__(self, decorate: Callable[[Callable[..., Any]], JobType[..., Any]]) -> None:
        self._decorate = decorate

    @overload
    def __call__(self, function: JobType[P, R]) -> JobType[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], Awaitable[R]]) -> JobType[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R]) -> JobType[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, Awaitable[R]]) -> JobType[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R]) -> JobType[P, R]: ...
    def __call__(self, function: Callable[..., Any]) -> JobType[..., Any]:
        return self._decorate(function)


# --- the inside of public objects, for the other files of this package ------------------------------------------------
# ruff: noqa: SLF001  # users do not see it; the package has to


def definition_of(what: JobType[..., Any] | Call[Any]) -> Definition:
    return what._definition


def payload_of(call: Call[Any]) -> bytes:
    return call._payload


def submission_of_call(call: Call[Any], options: Mapping[str, Any], payload_limit: int) -> Submission:
    """Checked, with these options over its own."""
    return kind_of_call(call, options, payload_limit).submission.with_payload(call._payload)


def kind_of_call(call: Call[Any], options: Mapping[str, Any], payload_limit: int) -> JobKind:
    """Of its submission with these options over its own; its payload is checked as well."""
    chosen: Mapping[str, Any] = {**call._options, **options} if options else call._options
    if call._references:
        chosen = depending_on(chosen, call._references)
    return call._definition.kind(call._payload, chosen, payload_limit)


def payloads_of_uniform(calls: Sequence[Any]) -> list[bytes] | None:
    """The payloads of calls that differ in nothing else; None where these are not such calls. For thousands of them, so
    that each is looked at once."""
    first = calls[0] if calls else None
    if not isinstance(first, Call):
        return None
    definition, options = first._definition, first._options
    payloads = []
    for call in calls:
        if (
            not isinstance(call, Call)
            or call._definition is not definition
            or (call._options is not options and call._options != options)
            or call._references
        ):
            return None
        payloads.append(call._payload)
    return None if has_any_references(payloads) else payloads


def are_uniform(call: Call[Any], other: Call[Any]) -> bool:
    """Whether they differ in the payload at most."""
    return (
        call._definition is other._definition
        and call._options == other._options
        and not (call._references or other._references or has_references(call._payload))
    )


def after_previous(call: Call[R], previous: Sequence[str], *, as_list: bool) -> Call[R]:
    """The call with the jobs before it in place of PREVIOUS."""
    payload, references = put_previous(call._payload, call._references, previous, as_list=as_list)
    return Call(call._definition, payload, call._options, references)


# --- registering ------------------------------------------------------------------------------------------------------


class Registry(Protocol):
    """A queue, as far as registering a job type needs it."""

    handlers: Handlers
    definitions: dict[str, Definition]
    payload_limit: int
    idempotency_window: DurationLike | None


def with_window(queue: Registry, options: Options) -> Options:
    """The options, with the queue's own idempotency window where they name none."""
    if queue.idempotency_window is None or options.get("idempotency_window") is not None:
        return options
    return {**options, "idempotency_window": queue.idempotency_window}


def register(
    queue: Registry,
    submitter: SubmitsCalls,
    name: str | None,
    function: Any,
    options: Options,
    *,
    process: bool = False,
    worker_limit: int | None = None,
) -> JobType[..., Any]:
    """Make the function a job type of this queue. A bad option or signature fails here, at the decorator."""
    if isinstance(function, JobType):
        raise InvalidInput("handler", f"{function!r} is a job type already; decorate the plain function once")
    timeout_us = None
    if options.get("timeout") is not None:
        timeout_us = parse_duration_us(options["timeout"], "timeout")
        if timeout_us > EXECUTION_TIMEOUT_US:
            raise InvalidInput("timeout", "a handler may ask for less than the system's 30 minutes, never for more")
    if "idempotency_key" in options or "depends_on" in options:
        wrong = "idempotency_key" if "idempotency_key" in options else "depends_on"
        raise InvalidInput(wrong, "belongs to one submission and not to a job type")
    if name is not None and not name.strip():
        raise InvalidInput("type", "is empty; name the job type, as in @queue.job('report.render')")
    job_type = name or f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', '')}"
    if job_type.startswith("__main__."):
        warnings.warn(
            f"the job type is named {job_type}: a worker that imports this file does not know it by that name; "
            f"give it one: @queue.job({function.__name__!r})",
            stacklevel=4,
        )
    handler = handler_of(job_type, function, process=process, timeout_us=timeout_us, worker_limit=worker_limit)
    defaults = dict(with_window(queue, options))
    if defaults.get("concurrency_limit") is not None and defaults.get("concurrency_key") is None:
        defaults["concurrency_key"] = f"type:{job_type}"
    usual = submission_of(job_type, b"{}", "json", defaults)
    check(usual, queue.payload_limit)
    queue.handlers.add(handler)
    definition = Definition(submitter, handler, cast(Options, defaults), usual, JobKind(usual))
    queue.definitions[job_type] = definition
    return JobType(definition)
