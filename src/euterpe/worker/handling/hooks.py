"""The user's hooks around the attempts of a worker: lifespan, middleware, error hooks.

A queue without any of it pays nothing: `AttemptHooks.around` is None, and an attempt calls its handler itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, get_origin

from euterpe.model.claims.outcome import Failed, Outcome
from euterpe.model.errors import EuterpeError, InvalidInput
from euterpe.worker.attempt import Around, AttemptRun, AttemptServices, HandlerInterruption, is_ctrl_c
from euterpe.worker.context import NO_STATE, Context
from euterpe.worker.failures import BadPayload, GivenBack
from euterpe.worker.handling.handlers import Handler, Handlers
from euterpe.worker.reporting.job_log import job_keys

log = logging.getLogger("euterpe.worker")

CallNext = Callable[[], Awaitable[Any]]
Middleware = Callable[[Context, CallNext], Awaitable[Any]]
OnError = Callable[[Context, BaseException], Awaitable[None]]
Lifespan = Callable[[], AbstractAsyncContextManager[object]]
NOTHING: Final[Mapping[str, object]] = {}


@dataclass(slots=True)
class Hooks:
    """What was registered at a queue. Middleware runs in the order of its registration, the first one outermost."""

    lifespan: Lifespan | None = None
    middleware: list[Middleware] = field(default_factory=list)
    on_error: list[OnError] = field(default_factory=list)


class AttemptHooks:
    """The hooks of one worker, with the state that its lifespan has opened. InvalidInput: a handler asks for what the
    state does not have."""

    def __init__(self, hooks: Hooks, handlers: Handlers, state: object) -> None:
        self.state = state
        self._middleware = tuple(hooks.middleware)
        self._on_error = tuple(hooks.on_error)
        self._injected = {
            handler.type: _taken_from(state, handler)
            for handler in handlers.by_type.values()
            if handler.signature.injected
        }

    @property
    def around(self) -> Around | None:
        """What runs an attempt through these hooks; None where there are none."""
        return self._run if self._middleware or self._on_error or self._injected else None

    def injected(self, handler: Handler) -> Mapping[str, object]:
        """What this handler gets beside the arguments of its job."""
        return self._injected.get(handler.type, NOTHING)

    async def through(self, context: Context, call: CallNext) -> object:
        """What the middleware makes of this call."""
        for middleware in reversed(self._middleware):
            call = partial(_step, middleware, context, call)
        return await call()

    async def report_error(self, context: Context, error: BaseException) -> None:
        """Calls the error hooks. None of them can change what the error means for the job."""
        for hook in self._on_error:
            try:
                await hook(context, error)
            except asyncio.CancelledError:
                return  # The attempt is stopped while it tells: its time is over.
            except Exception as worse:
                log.error("an on_error hook failed", extra={"job_id": context.job_id}, exc_info=worse)

    async def _run(self, attempt: AttemptRun, services: AttemptServices) -> Outcome | None:
        try:
            call = partial(attempt.call, services, self.injected(attempt.handler))
            outcome = attempt.outcome_of(await self.through(attempt.context, call), services.result_limit)
        except GeneratorExit:
            raise  # Nobody runs this coroutine any more; it must not await.
        except BaseException as error:
            if (reported := _failure_in(attempt, error)) is not None:
                await self.report_error(attempt.context, reported)
            raise
        if isinstance(outcome, Failed):
            await self.report_error(attempt.context, TimeoutError(outcome.failure.message))
        return outcome


class _CallNext:
    """The rest of the way to the handler; it can be gone once."""

    __slots__ = ("_call", "_name", "ended", "was_called")

    def __init__(self, call: CallNext, name: str) -> None:
        self._call = call
        self._name = name
        self.was_called = self.ended = False

    async def __call__(self) -> object:
        if self.was_called:
            raise EuterpeError(
                f"middleware {self._name} called call_next twice; raise TemporaryError to run the job again"
            )
        self.was_called = True
        try:
            return await self._call()
        finally:
            self.ended = True


async def _step(middleware: Middleware, context: Context, call: CallNext) -> object:
    name = name_of(middleware)
    call_next = _CallNext(call, name)
    value = await middleware(context, call_next)
    was_called, call_next.was_called = call_next.was_called, True  # Whoever kept it comes too late.
    if not was_called:
        raise EuterpeError(
            f"middleware {name} returned without awaiting call_next(), so the handler did not run; "
            "raise PermanentError to refuse a job"
        )
    if not call_next.ended:
        raise EuterpeError(f"middleware {name} returned before call_next() had ended; await it")
    return value


def _failure_in(attempt: AttemptRun, error: BaseException) -> BaseException | None:
    """What an on_error hook is told: the error itself, a TimeoutError for the execution timeout, and nothing when the
    attempt was stopped for a reason that is no failure, or its arguments are of another version."""
    if attempt.interruption is HandlerInterruption.TIMEOUT:
        reported = TimeoutError(f"the execution timeout of {attempt.stops_at - attempt.started:g} s is over")
        reported.__cause__ = error
        return reported
    if attempt.interruption is not None or is_ctrl_c(error) or isinstance(error, (BadPayload, GivenBack)):
        extra = job_keys(attempt.claim.job, attempt.span_keys)
        log.debug("an attempt ended without a failure; no on_error hook is called", extra=extra)
        return None
    return error


def name_of(hook: Callable[..., object]) -> str:
    return str(getattr(hook, "__qualname__", None) or repr(hook))


def _taken_from(state: object, handler: Handler) -> dict[str, object]:
    return {name: _one(state, handler, name, kind) for name, kind in handler.signature.injected.items()}


def _one(state: object, handler: Handler, name: str, kind: object) -> object:
    """The state itself where it is of the annotated type; else its attribute of the parameter's name."""
    problem = f"{handler.type} asks for {name}"
    if state is NO_STATE:
        raise InvalidInput("lifespan", f"{problem}, but this queue has no lifespan; write one with @queue.lifespan")
    origin = get_origin(kind) or kind
    expected = origin if isinstance(origin, type) and origin is not object else None
    if expected is not None and _is_a(state, expected):
        return state
    if not hasattr(state, name):
        shown = getattr(origin, "__name__", origin)
        raise InvalidInput(
            "lifespan",
            f"{problem}, but the lifespan yields a {type(state).__name__}: no {shown}, and nothing of that name",
        )
    value: object = getattr(state, name)
    if expected is not None and not _is_a(value, expected):
        raise InvalidInput(
            "lifespan",
            f"{problem} as {expected.__name__}, but {name} of the lifespan's state is {type(value).__name__}",
        )
    return value


def _is_a(value: object, kind: type) -> bool:
    try:
        return isinstance(value, kind)
    except TypeError:  # A protocol that cannot be asked at run time.
        return True
