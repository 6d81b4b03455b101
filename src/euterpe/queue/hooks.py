"""Decorators of a queue: lifespan, middleware around attempts and submits, error hooks."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

from euterpe.model.errors import InvalidInput
from euterpe.queue.core import QueueCore
from euterpe.queue.submitting.submit_middleware import NewJob
from euterpe.worker.context import Context
from euterpe.worker.handling.hooks import name_of
from euterpe.worker.handling.lifespan import lifespan_of

MakesLifespan = TypeVar(
    "MakesLifespan", bound=Callable[[], AsyncIterator[object]] | Callable[[], AbstractAsyncContextManager[object]]
)
AroundAttempt = TypeVar("AroundAttempt", bound=Callable[[Context, Callable[[], Awaitable[Any]]], Awaitable[Any]])
AroundSubmit = TypeVar(
    "AroundSubmit", bound=Callable[[Sequence[NewJob], Callable[[], Awaitable[None]]], Awaitable[None]]
)
ErrorHook = TypeVar("ErrorHook", bound=Callable[[Context, BaseException], Awaitable[None]])


class QueueHooks:
    """What a queue does around its jobs. All of it holds alike in `queue.work()`, `queue.worker()`, `euterpe worker`
    and `euterpe.testing`; a worker takes what is registered when it starts."""

    _core: QueueCore

    def lifespan(self, function: MakesLifespan) -> MakesLifespan:
        """Open what the handlers of a worker share, such as a pool or an HTTP client: an `async def` that yields it
        once, or a callable that returns an async context manager. It is opened before a worker takes its first job and
        closed after its last one has ended. Handlers find it in `ctx.state`, or typed by `euterpe.injected()`.

        When it raises at its start, the worker does not start and raises EuterpeError; `euterpe worker` ends with 1.
        Raises InvalidInput for a second lifespan.

        Example:
            @queue.lifespan
            async def resources() -> AsyncIterator[Pool]:
                async with make_pool() as pool:
                    yield pool
        """
        if self._core.hooks.lifespan is not None:
            known = name_of(self._core.hooks.lifespan)
            raise InvalidInput("lifespan", f"is {known} already; open both in one function and yield an object of both")
        self._core.hooks.lifespan = lifespan_of(function)
        return function

    def middleware(self, function: AroundAttempt) -> AroundAttempt:
        """Run this around every attempt: `await call_next()` runs the handler and returns what it returns; what the
        middleware returns is the job's result, and what it raises is the job's error. The first one registered is the
        outermost. Raises InvalidInput for a function that is not `async def`.

        Example:
            @queue.middleware
            async def timed(ctx: euterpe.Context, call_next: Callable[[], Awaitable[Any]]) -> Any:
                started = time.monotonic()
                try:
                    return await call_next()
                finally:
                    histogram.labels(ctx.type).observe(time.monotonic() - started)
        """
        self._core.hooks.middleware.append(_checked("middleware", function))
        return function

    def submit_middleware(self, function: AroundSubmit) -> AroundSubmit:
        """Run this around every submit through this queue, those of workflows, crons and `ctx.spawn` too. It may change
        the tags and the correlation id of the jobs; what it raises refuses them all, and nothing is stored. The first
        one registered is the outermost. Raises InvalidInput for a function that is not `async def`.

        Example:
            @queue.submit_middleware
            async def add_tenant(jobs: Sequence[euterpe.NewJob], call_next: Callable[[], Awaitable[None]]) -> None:
                for job in jobs:
                    job.tags["tenant"] = tenant.get()
                await call_next()
        """
        self._core.submit_middleware.append(_checked("submit_middleware", function))
        return function

    def on_error(self, function: ErrorHook) -> ErrorHook:
        """Tell this of every attempt that fails, with the exception; `ctx.attempt` and `ctx.max_attempts` say whether
        another one follows. An execution timeout is told as TimeoutError. A cancel, a shutdown and a lost lease are no
        errors. What the hook itself raises is logged. Raises InvalidInput for a function that is not `async def`.

        Example:
            @queue.on_error
            async def report(ctx: euterpe.Context, error: BaseException) -> None:
                sentry_sdk.capture_exception(error)
        """
        self._core.hooks.on_error.append(_checked("on_error", function))
        return function


Hook = TypeVar("Hook", bound=Callable[..., object])


def _checked(what: str, function: Hook) -> Hook:
    call = function if inspect.isroutine(function) else getattr(function, "__call__", None)  # noqa: B004  # an object
    if not inspect.iscoroutinefunction(call):
        raise InvalidInput(what, f"{name_of(function)} must be an `async def`")
    return function
