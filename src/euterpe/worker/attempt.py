"""One execution, start to outcome: call the handler the way it wants, and say what came of it.

An attempt never writes. Whatever happens in the handler becomes an outcome, and the loop settles it.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from enum import StrEnum
from typing import Any

import msgspec

from euterpe.duration import parse_duration_us
from euterpe.model.errors import InvalidInput, PermanentError, StaleLease, TemporaryError
from euterpe.model.failure import MESSAGE_LIMIT, Category, Failure
from euterpe.model.job import Claim
from euterpe.model.outcome import Cancelled, Failed, Outcome, Released, Success
from euterpe.worker.context import Context
from euterpe.worker.handlers import Handler, UnstorableResult, encode_result


class Interruption(StrEnum):
    """Why a running attempt is stopped from outside."""

    TIMEOUT = "timeout"
    CANCEL = "cancel"
    LOST_LEASE = "lost_lease"
    SHUTDOWN = "shutdown"


RunInProcess = Callable[[Handler, Claim, Context, dict[str, Any]], Awaitable[Any]]


class Attempt:
    """A claim being executed. `interrupt` stops it; `outcome` is set when it is over, None for a lost lease."""

    __slots__ = ("_task", "claim", "context", "handler", "interruption", "outcome", "started", "stops_at")

    def __init__(self, claim: Claim, handler: Handler, context: Context, started: float, stops_at: float) -> None:
        self.claim = claim
        self.handler = handler
        self.context = context
        self.started = started
        self.stops_at = stops_at
        self.interruption: Interruption | None = None
        self.outcome: Outcome | None = None
        self._task: asyncio.Task[None] | None = None

    def interrupt(self, why: Interruption) -> None:
        """Stop the handler: an async one is cancelled, a process is killed, a thread can only be told."""
        if self.interruption is None and self.outcome is None:
            self.interruption = why
            self.context.ask_to_stop()
            if self._task is not None and self.handler.mode != "thread":
                self._task.cancel(str(why))

    def attach(self, task: asyncio.Task[None]) -> None:
        """The task that runs this attempt, so that an interruption can reach it."""
        self._task = task

    async def run(self, threads: Executor, in_process: RunInProcess, result_limit: int) -> None:
        """Execute the handler and set `outcome`. Raises nothing but what stops the worker itself."""
        try:
            arguments = self.handler.decode(self.claim.job.payload)
        except (msgspec.ValidationError, msgspec.DecodeError, InvalidInput) as error:
            self.outcome = Failed(
                Failure(Category.PERMANENT, f"the payload does not fit {self.handler.type}: {error}", "bad_payload")
            )
            return
        try:
            value = await self._call(arguments, threads, in_process)
            self.outcome = Success(encode_result(self.handler, value, result_limit))
        except asyncio.CancelledError:
            if self.interruption is None:
                # The worker itself is being torn down: hand the job back.
                self.interruption = Interruption.SHUTDOWN
                self.outcome = Released()
                raise
            self.outcome = interrupted(self.interruption, self.claim)
        except UnstorableResult as error:
            self.outcome = Failed(Failure(Category.PERMANENT, str(error), "bad_result"))
        except Exception as error:  # noqa: BLE001  # a handler may raise anything; it becomes the job's error
            if self.interruption is not None and self.interruption is not Interruption.SHUTDOWN:
                self.outcome = interrupted(self.interruption, self.claim)
            else:
                self.outcome = Failed(failure_of(error))

    async def _call(self, arguments: dict[str, Any], threads: Executor, in_process: RunInProcess) -> Any:
        function = self.handler.function
        args = (self.context,) if self.handler.takes_context else ()
        if self.handler.mode == "async":
            return await function(*args, **arguments)
        if self.handler.mode == "process":
            return await in_process(self.handler, self.claim, self.context, arguments)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(threads, lambda: function(*args, **arguments))


def interrupted(why: Interruption, claim: Claim) -> Outcome | None:
    """What an interruption means for the job; None when it is no longer ours to say."""
    match why:
        case Interruption.TIMEOUT:
            seconds = claim.job.execution_timeout_us / 1_000_000
            return Failed(Failure(Category.TIMEOUT, f"the execution timeout of {seconds:g} s is over", "timeout"))
        case Interruption.CANCEL:
            return Cancelled()
        case Interruption.SHUTDOWN:
            return Released()
        case Interruption.LOST_LEASE:
            return None


def failure_of(error: BaseException) -> Failure:
    """The normalized failure of an exception: typed ones say what they are, any other is temporary."""
    stack = "".join(traceback.format_exception(error))
    match error:
        case PermanentError():
            return Failure(Category.PERMANENT, _text(error.message), error.code, stack)
        case TemporaryError():
            return Failure(Category.TEMPORARY, _text(error.message), "temporary", stack, _retry_after_us(error))
        case StaleLease():
            return Failure(Category.SYSTEM, _text(str(error)), "stale_lease", stack)
        case TimeoutError():
            return Failure(Category.TEMPORARY, _text(str(error) or "a call timed out"), "TimeoutError", stack)
        case _:
            return Failure(Category.TEMPORARY, _text(str(error) or type(error).__name__), type(error).__name__, stack)


def _retry_after_us(error: TemporaryError) -> int | None:
    try:
        return None if error.retry_after is None else parse_duration_us(error.retry_after, "retry_after")
    except InvalidInput:
        return None


def _text(message: object) -> str:
    """Fit for any database: no NUL, no lone surrogates, bounded."""
    return str(message).replace("\x00", "").encode("utf-8", "replace").decode()[:MESSAGE_LIMIT]
