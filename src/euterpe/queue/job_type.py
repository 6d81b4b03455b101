"""A job type: a handler with a name. Calling `.submit` takes the handler's own arguments, checked here and now."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, Unpack, cast, overload

from euterpe.model.duration import DurationLike, parse_duration_us
from euterpe.model.errors import InvalidInput
from euterpe.model.submission import EXECUTION_TIMEOUT_US, PAYLOAD_LIMIT, Submission, check, check_payload
from euterpe.queue.handle import JobHandle
from euterpe.queue.options import NAMES, Options, encode_payload, submission_of
from euterpe.queue.ports import Home
from euterpe.worker.context import Context
from euterpe.worker.handlers import Handler, Handlers, handler_of

P = ParamSpec("P")
R = TypeVar("R")


class Call(Generic[R]):
    """A job type with its arguments: not yet submitted."""

    __slots__ = ("jobtype", "options", "payload")

    def __init__(self, jobtype: JobType[..., R], payload: bytes, options: Options) -> None:
        self.jobtype = jobtype
        self.payload = payload
        self.options = options

    def __repr__(self) -> str:
        return f"<call of {self.jobtype.type}>"

    def with_options(self, **options: Unpack[Options]) -> Call[R]:
        return Call(self.jobtype, self.payload, {**self.options, **options})

    def submission(self, options: Mapping[str, Any] | None = None, payload_limit: int = PAYLOAD_LIMIT) -> Submission:
        """Checked, with these options over its own."""
        said = {**self.options, **options} if options else self.options
        return self.jobtype.submission(self.payload, said, payload_limit)

    def is_like(self, other: Call[Any]) -> bool:
        """Whether they differ in the payload at most."""
        return self.jobtype is other.jobtype and self.options == other.options


class JobType(Generic[P, R]):
    """`render.submit(report_id=7)`, `render.with_args(report_id=7)`, `render.options(delay="5m").submit(...)`."""

    def __init__(self, queue: Home, handler: Handler, defaults: Options, usual: Submission) -> None:
        """`usual`: what the defaults alone come to, checked."""
        self.queue = queue
        self.handler = handler
        self.type = handler.type
        self.function = handler.function
        self.defaults = defaults
        self.usual = usual
        self.__name__ = handler.function.__name__
        self.__qualname__ = handler.function.__qualname__
        self.__module__ = handler.function.__module__
        self.__doc__ = handler.function.__doc__

    def __repr__(self) -> str:
        return f"<job type {self.type}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the plain function, as in a unit test."""
        return self.function(*args, **kwargs)

    def with_args(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        """The call, checked; submit it later, alone, in bulk or in a workflow."""
        return Call(self, self.handler.encode(args, kwargs), {})

    def options(self, *, connection: Any = None, **options: Unpack[Options]) -> Prepared[P, R]:
        """The same job type with other options for the next submit."""
        return Prepared(self, options, connection)

    async def submit(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Submit with these arguments. `connection=` joins the caller's own transaction."""
        connection = None
        if "connection" in kwargs and not self.handler.has_argument("connection"):
            connection = kwargs.pop("connection")
        if foreign := [name for name in kwargs if name in NAMES and not self.handler.has_argument(name)]:
            raise InvalidInput(
                foreign[0],
                f"is an option and not an argument of {self.type}; "
                f"write {self.__name__}.options({foreign[0]}=...).submit(...)",
            )
        handle: JobHandle[R] = await self.queue.submit_call(self.with_args(*args, **kwargs), connection, {})
        return handle

    def submission(self, payload: bytes, options: Mapping[str, Any], payload_limit: int) -> Submission:
        """Checked; without options that is soon done, for the defaults have been checked at the decorator."""
        if not options:
            check_payload(payload, payload_limit)
            return self.usual.with_payload(payload)
        submission = submission_of(self.type, payload, "json", {**self.defaults, **options})
        check(submission, payload_limit)
        return submission

    def check_arguments(self, payload: bytes, payload_format: str) -> None:
        """A payload that came as it is stored; InvalidInput names the argument that does not fit."""
        if payload_format == "bytes":
            if not self.handler.has_argument("payload"):
                raise InvalidInput("payload", f"is bytes; {self.type} has no argument named payload to take them")
        else:
            self.handler.signature.check(self.type, payload)

    def encode_payload(self, payload: Any) -> tuple[bytes, str]:
        """A payload given with the type's name: named arguments, checked, or bytes for a handler that takes them."""
        if isinstance(payload, (bytes, bytearray, memoryview)):
            if not self.handler.has_argument("payload"):
                raise InvalidInput("payload", f"is bytes; {self.type} has no argument named payload to take them")
            return encode_payload(payload)
        if payload is not None and not isinstance(payload, dict):
            raise InvalidInput("payload", f"{self.type} takes named arguments, not {type(payload).__name__}")
        return self.handler.encode((), payload or {}), "json"


class Prepared(Generic[P, R]):
    """A job type with options, about to be submitted."""

    def __init__(self, jobtype: JobType[P, R], options: Options, connection: Any) -> None:
        self._jobtype = jobtype
        self._options = options
        self._connection = connection

    def with_args(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        return self._jobtype.with_args(*args, **kwargs).with_options(**self._options)

    async def submit(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        call = self.with_args(*args, **kwargs)
        handle: JobHandle[R] = await self._jobtype.queue.submit_call(call, self._connection, {})
        return handle


class Decorator:
    """`@queue.job(...)`: keeps the handler's arguments and result for the type checker.

    A handler takes the context first, or does without."""

    def __init__(self, decorate: Callable[[Any], Any]) -> None:
        self._decorate = decorate

    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], Awaitable[R]]) -> JobType[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R]) -> JobType[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, Awaitable[R]]) -> JobType[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R]) -> JobType[P, R]: ...
    def __call__(self, function: Any) -> Any:
        return self._decorate(function)


class CronDecorator:
    """`@queue.cron(...)`: likewise, over a function or a job type."""

    def __init__(self, decorate: Callable[[Any], Any]) -> None:
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
    def __call__(self, function: Any) -> Any:
        return self._decorate(function)


class Registry(Home, Protocol):
    """A queue, as far as registering a job type needs it."""

    handlers: Handlers
    jobtypes: dict[str, JobType[..., Any]]
    payload_limit: int
    idempotency_window: DurationLike | None


def with_window(queue: Registry, options: Options) -> Options:
    """The options, with the queue's own idempotency window where they name none."""
    if queue.idempotency_window is None or options.get("idempotency_window") is not None:
        return options
    return {**options, "idempotency_window": queue.idempotency_window}


def register(queue: Registry, name: str | None, function: Any, process: bool, options: Options) -> JobType[..., Any]:
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
    job_type = name or f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', '')}"
    handler = handler_of(job_type, function, process=process, timeout_us=timeout_us)
    defaults = dict(with_window(queue, options))
    if defaults.get("concurrency_limit") is not None and defaults.get("concurrency_key") is None:
        defaults["concurrency_key"] = f"type:{job_type}"
    usual = submission_of(job_type, b"{}", "json", defaults)
    check(usual, queue.payload_limit)
    queue.handlers.add(handler)
    jobtype: JobType[..., Any] = JobType(queue, handler, cast(Options, defaults), usual)
    queue.jobtypes[job_type] = jobtype
    return jobtype
