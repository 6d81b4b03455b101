"""A job type: a handler with a name. Calling `.submit` takes the handler's own arguments, checked here and now."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, Unpack

from euterpe.model.errors import InvalidInput
from euterpe.model.submission import Submission
from euterpe.queue.handle import JobHandle
from euterpe.queue.home import Home
from euterpe.queue.options import NAMES, Options, submission_of
from euterpe.worker.context import Context
from euterpe.worker.handlers import Handler

P = ParamSpec("P")
R = TypeVar("R")

AsyncHandler = Callable[Concatenate[Context, P], Awaitable[R]]
SyncHandler = Callable[Concatenate[Context, P], R]


class Call(Generic[R]):
    """A job type with its arguments: not yet submitted."""

    __slots__ = ("jobtype", "options", "payload")

    def __init__(self, jobtype: JobType[..., R], payload: bytes, options: Options) -> None:
        self.jobtype = jobtype
        self.payload = payload
        self.options = options

    def with_options(self, **options: Unpack[Options]) -> Call[R]:
        return Call(self.jobtype, self.payload, {**self.options, **options})

    def submission(self, options: Options | None = None) -> Submission:
        merged = {**self.jobtype.defaults, **self.options, **(options or {})}
        return submission_of(self.jobtype.type, self.payload, "json", merged)


class JobType(Generic[P, R]):
    """`render.submit(report_id=7)`, `render.with_args(report_id=7)`, `render.options(delay="5m").submit(...)`."""

    def __init__(self, queue: Home, handler: Handler, defaults: Options) -> None:
        self.queue = queue
        self.handler = handler
        self.type = handler.type
        self.function = handler.function
        self.defaults = defaults
        self.__name__ = handler.function.__name__
        self.__doc__ = handler.function.__doc__

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
        if "connection" in kwargs and not self._has_argument("connection"):
            connection = kwargs.pop("connection")
        elif foreign := [name for name in kwargs if name in NAMES and not self._has_argument(name)]:
            raise InvalidInput(
                foreign[0],
                f"is an option and not an argument of {self.type}; "
                f"write {self.__name__}.options({foreign[0]}=...).submit(...)",
            )
        handle: JobHandle[R] = await self.queue.submit_call(self.with_args(*args, **kwargs), connection, {})
        return handle

    def _has_argument(self, name: str) -> bool:
        arguments = self.handler.arguments
        return arguments is None or name in arguments.__struct_fields__


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
