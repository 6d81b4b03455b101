"""One execution, start to outcome: call the handler the way it wants, and say what came of it.

An attempt never writes. Whatever happens in the handler becomes an outcome, and the loop settles it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from enum import StrEnum
from typing import Any, Final

import msgspec

from euterpe.model.failure import Category, Failure
from euterpe.model.job import Claim
from euterpe.model.outcome import Cancelled, Failed, Outcome, Released, Success
from euterpe.ports import Finished
from euterpe.worker.context import Context
from euterpe.worker.failures import BadPayload, UnstorableResult, failure_of
from euterpe.worker.handlers import Handler, encode_result

LAST_NEWS_S: Final = 5.0
"""How long an interrupted attempt waits for its last news to be written."""
CANCELLED_INSIDE: Final = Failure(
    Category.TEMPORARY, "the handler cancelled itself, or awaited something that was cancelled", "CancelledError"
)


class Interruption(StrEnum):
    """Why a running attempt is stopped from outside."""

    TIMEOUT = "timeout"
    CANCEL = "cancel"
    LOST_LEASE = "lost_lease"
    SHUTDOWN = "shutdown"


class Means(msgspec.Struct, frozen=True):
    """What a worker lends its attempts: threads, processes, the way to write news, the limit of a result."""

    in_thread: Callable[[Callable[[], Any]], Awaitable[Any]]
    in_process: Callable[[Handler, Claim, Context], Awaitable[Any]]
    has_news: Callable[[Claim], bool]
    delivered: Callable[[Claim], Awaitable[None]]
    result_limit: int
    over: Callable[[Attempt], None] = lambda _attempt: None


class Attempt:
    """A claim being executed. `interrupt` stops it; `outcome` is set when it is over, None for a lost lease."""

    __slots__ = (
        "alarm", "begun", "claim", "context", "handler", "interrupted_at", "interruption", "outcome", "slot", "started",
        "stops_at", "task", "took_s",
    )  # fmt: skip

    def __init__(
        self, claim: Claim, handler: Handler, context: Context, started: float, stops_at: float, slot: int
    ) -> None:
        self.claim = claim
        self.handler = handler
        self.context = context
        self.started = started
        self.stops_at = stops_at
        self.interruption: Interruption | None = None
        self.interrupted_at = 0.0
        self.outcome: Outcome | None = None
        self.took_s = 0.0
        self.slot = slot
        self.alarm: asyncio.TimerHandle | None = None
        self.begun = False
        self.task: asyncio.Task[None] | None = None
        """Runs this attempt; an interruption reaches the handler through it."""

    def interrupt(self, why: Interruption) -> None:
        """Stop the handler. A cancel request only tells a thread or a process, which may look and tidy up; everything
        else cancels a coroutine, kills a process and leaves a thread behind."""
        if self.outcome is not None or self.interruption not in (None, Interruption.CANCEL):
            return
        first = self.interruption is None
        if first or why is Interruption.LOST_LEASE:
            # A cancelled job that is then stopped for another reason stays cancelled.
            self.interruption = why
        if first:
            self.interrupted_at = time.monotonic()
            self.context.ask_to_stop()
        if why is not Interruption.CANCEL or (first and self.handler.mode == "async"):
            self.cancel()

    def cancel(self) -> None:
        """No more asking. A run that has not begun will see for itself that it need not."""
        if self.task is not None and self.begun:
            self.task.cancel()

    def finished(self) -> Finished:
        assert self.outcome is not None
        return Finished(self.claim, self.outcome, self.took_s)

    async def run(self, means: Means) -> None:
        """Execute the handler, set `outcome`, and say that it is over. Raises nothing.

        An async handler is awaited right here: a coroutine less around a handler is a tenth of what a job costs."""
        self.begun = True
        outcome: Outcome | None
        try:
            if self.interruption is not None:
                outcome = self.interrupted()
            else:
                value = await (self._start() if self.handler.mode == "async" else self._elsewhere(means))
                outcome = self.interrupted() if self._stopped_early() else self._success(value, means.result_limit)
        except asyncio.CancelledError:
            outcome = Failed(CANCELLED_INSIDE) if self.interruption is None else self.interrupted()
        except (Exception, SystemExit) as error:  # noqa: BLE001  # a handler may raise anything; it becomes the job's error
            about_the_job = isinstance(error, (BadPayload, UnstorableResult)) or self.interruption is None
            outcome = Failed(failure_of(error)) if about_the_job else self.interrupted()
        if means.has_news(self.claim):
            outcome = await self._after_news(outcome, means)
        self.outcome = outcome
        means.over(self)

    def _start(self) -> Awaitable[Any]:
        handler = self.handler
        arguments = handler.arguments_of(self.claim.job)
        called: Awaitable[Any] = (
            handler.function(self.context, **arguments) if handler.takes_context else handler.function(**arguments)
        )
        return called

    async def _elsewhere(self, means: Means) -> Any:
        if self.handler.mode == "process":
            return await means.in_process(self.handler, self.claim, self.context)
        return await means.in_thread(self._start)

    def _success(self, value: Any, limit: int) -> Success:
        return Success(encode_result(self.handler, value, limit))

    async def _after_news(self, outcome: Outcome | None, means: Means) -> Outcome | None:
        """The outcome, once the last news is written."""
        patience_s = None if self.interruption is None else LAST_NEWS_S
        try:
            with suppress(TimeoutError):  # the job's end is worth more than its last progress
                async with asyncio.timeout(patience_s):
                    await means.delivered(self.claim)
        except asyncio.CancelledError:
            # Stopped while only the news was left: what the handler did stands, if the job is still ours.
            return None if self.interruption is Interruption.LOST_LEASE else outcome
        return outcome

    def _stopped_early(self) -> bool:
        """Whether what the handler returned is no result: it was told to stop, and knew it."""
        if self.interruption is None:
            return False
        return self.interruption is not Interruption.CANCEL or self._knew()

    def _knew(self) -> bool:
        return self.handler.mode == "async" or self.context.saw_the_request

    def interrupted(self) -> Outcome | None:
        """What the interruption means for the job; None when it is no longer ours to say."""
        match self.interruption:
            case Interruption.TIMEOUT:
                message = f"the execution timeout of {self.stops_at - self.started:g} s is over"
                return Failed(Failure(Category.TIMEOUT, message, "timeout"))
            case Interruption.CANCEL:
                return Cancelled()
            case Interruption.SHUTDOWN:
                return Released()
            case _:
                return None
