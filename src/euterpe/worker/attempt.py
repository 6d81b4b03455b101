"""One execution, start to outcome: call the handler the way it wants, and say what came of it.

An attempt never writes. Whatever happens in the handler becomes an outcome, and the loop settles it.
"""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from functools import partial
from typing import Any, Final

import msgspec

from euterpe.model.claims.exchange import Report
from euterpe.model.claims.outcome import Cancelled, Failed, Outcome, Released, Success
from euterpe.model.failures.failure import Category, Failure
from euterpe.model.job import Claim
from euterpe.observe.log_context import running_attempt
from euterpe.worker.context import Context
from euterpe.worker.failures import BadPayload, GivenBack, UnstorableResult, failure_of
from euterpe.worker.handling.handlers import Handler, encode_result

LAST_PROGRESS_S: Final = 5.0
"""How long an interrupted attempt waits for its last news to be written."""
CANCELLED_INSIDE: Final = Failure(
    Category.TEMPORARY, "the handler cancelled itself, or awaited something that was cancelled", "CancelledError"
)

NULL: Final = b"null"
"""The result of a handler that returns nothing."""
UNSTORED_CHILD: Final = Failure(Category.SYSTEM, "a spawned job could not be stored in time", "spawn_unfinished")


class HandlerInterruption(StrEnum):
    """Why a running attempt is stopped from outside."""

    TIMEOUT = "timeout"
    CANCEL = "cancel"
    LOST_LEASE = "lost_lease"
    SHUTDOWN = "shutdown"


class AttemptServices(msgspec.Struct, frozen=True):
    """What a worker lends its attempts: threads, processes, the way to write progress, the limit of a result."""

    in_thread: Callable[[Callable[[], Any]], Awaitable[Any]]
    in_process: Callable[[Handler, Claim, Context], Awaitable[Any]]
    has_progress: Callable[[Claim], bool]
    delivered: Callable[[Claim], Awaitable[BaseException | None]]
    is_spawning: Callable[[Claim], bool]
    result_limit: int
    known: Callable[[Claim, Outcome | None], Awaitable[Outcome | None]]
    """The outcome, once it is known whether the handler committed its job's end by itself."""
    over: Callable[[AttemptRun], None] = lambda _attempt: None
    around: Around | None = None
    """Runs the attempt through the user's hooks, where there are any."""


class AttemptRun(msgspec.Struct, eq=False):
    """A claim being executed. `interrupt` stops it; `outcome` is set when it is over, None for a lost lease. A struct,
    because one that Python code fills takes three times as long."""

    claim: Claim
    handler: Handler
    context: Context
    started: float
    stops_at: float
    slot: int
    interruption: HandlerInterruption | None = None
    interrupted_at: float = 0.0
    outcome: Outcome | None = None
    took_s: float = 0.0
    alarm: asyncio.TimerHandle | None = None
    begun: bool = False
    task: asyncio.Task[None] | None = None
    """Runs this attempt; an interruption reaches the handler through it."""
    span_keys: dict[str, str] | None = None
    """The ids of its span, if it has one."""

    def __repr__(self) -> str:
        """Without the payload: a traceback or a log may show it."""
        return f"<AttemptRun of {self.claim.job.id}>"

    def interrupt(self, why: HandlerInterruption) -> None:
        """Stop the handler. A cancel request only tells a thread or a process, which may look and tidy up; everything
        else cancels a coroutine, kills a process and leaves a thread behind. At shutdown a thread is only told as well:
        its job must not be given to others while it still runs."""
        if self.outcome is not None or self.interruption not in (None, HandlerInterruption.CANCEL):
            return
        first = self.interruption is None
        if first or why is HandlerInterruption.LOST_LEASE:
            # A cancelled job that is then stopped for another reason stays cancelled.
            self.interruption = why
        if first:
            self.interrupted_at = time.monotonic()
            self.context.ask_to_stop()
        mode = self.handler.mode
        notice_is_enough = why is HandlerInterruption.CANCEL or (
            first and why is HandlerInterruption.SHUTDOWN and mode == "thread"
        )
        if not notice_is_enough or (first and mode == "async"):
            self.cancel()

    def cancel(self) -> None:
        """No more asking. A run that has not begun will see for itself that it need not."""
        if self.task is not None and self.begun:
            self.task.cancel()

    def finished(self) -> Report:
        assert self.outcome is not None
        lines = self.context.lines
        return Report(self.claim, self.outcome, self.took_s, None if lines is None else lines.stored())

    async def run(self, services: AttemptServices) -> None:
        """Execute the handler, set `outcome`, and say that it is over. Whatever the handler raises, its slot is free
        afterwards; only what is meant for the process (Ctrl-C, an event loop that closes) is raised again.

        An async handler is awaited right here: a coroutine less around a handler is a tenth of what a job costs."""
        self.begun = True
        running_attempt.set(self.context)  # for the log lines of the handler; the task ends with it
        outcome: Outcome | None
        for_the_process: BaseException | None = None
        try:
            if self.interruption is not None:
                outcome = self.interrupted()
            else:
                if services.around is not None:
                    outcome = await services.around(self, services)
                else:
                    value = await (self._start() if self.handler.mode == "async" else self._elsewhere(services))
                    outcome = self.outcome_of(value, services.result_limit)
        except asyncio.CancelledError:
            outcome = Failed(CANCELLED_INSIDE) if self.interruption is None else self.interrupted()
        except GeneratorExit as error:
            if not self._is_current():
                raise  # Nobody will run this coroutine any more; there is nothing left to say.
            outcome = self._after(error)
        except BaseException as error:  # noqa: BLE001  # a handler may raise anything; it becomes the job's error
            outcome, for_the_process = self._after(error), error if is_ctrl_c(error) else None
        try:
            if services.has_progress(self.claim):
                outcome = await services.known(self.claim, await self._after_progress(outcome, services))
        finally:
            self.outcome = outcome
            services.over(self)
        if for_the_process is not None:
            raise for_the_process

    async def call(self, services: AttemptServices, injected: Mapping[str, Any]) -> object:
        """Call the handler, with what it gets beside its job's arguments; middleware calls this."""
        match self.handler.mode:
            case "async":
                return await self._start(injected)
            case "thread":
                return await services.in_thread(partial(self._start, injected))
            case _:
                value = await services.in_process(self.handler, self.claim, self.context)
                return msgspec.json.decode(value) if isinstance(value, msgspec.Raw) else value

    def outcome_of(self, value: object, result_limit: int) -> Outcome | None:
        """What the handler's return value means for the job."""
        if self.interruption is not None and self._stopped_early():
            return self.interrupted()
        result = NULL if value is None else encode_result(self.handler, value, result_limit)
        if self.claim.job.stages_json is not None and self.handler.mode != "process":
            # A child process tells its stages to the store alone, which looks there.
            self.context.check_last_stage()
        return Success(result)

    def _start(self, injected: Mapping[str, Any] | None = None) -> Awaitable[Any]:
        handler = self.handler
        arguments = handler.arguments_of(self.claim.job)
        if injected:
            arguments |= injected
        called: Awaitable[Any] = (
            handler.function(self.context, **arguments) if handler.takes_context else handler.function(**arguments)
        )
        return called

    async def _elsewhere(self, services: AttemptServices) -> object:
        if self.handler.mode == "process":
            return await services.in_process(self.handler, self.claim, self.context)
        return await services.in_thread(self._start)

    def _after(self, error: BaseException) -> Outcome | None:
        """What an exception that left the handler means for the job. Never raises, however odd the exception is."""
        if issubclass(type(error), (BadPayload, UnstorableResult)):
            return Failed(failure_of(error))
        if self.interruption is not None:
            return self.interrupted()
        return Released() if is_ctrl_c(error) or issubclass(type(error), GivenBack) else Failed(failure_of(error))

    def _is_current(self) -> bool:
        """Whether the event loop is just running this attempt, and not closing its coroutine from outside."""
        try:
            return asyncio.current_task() is self.task
        except RuntimeError:
            return False

    async def _after_progress(self, outcome: Outcome | None, services: AttemptServices) -> Outcome | None:
        """The outcome, once the last news and every spawned child are written. A child that could not be stored, and
        that the handler did not ask after, fails the attempt: it must not end as if the child were there."""
        patience_s = None if self.interruption is None else LAST_PROGRESS_S
        for _ in range(2):
            try:
                async with asyncio.timeout(patience_s):
                    unseen = await services.delivered(self.claim)
                return outcome if unseen is None or not isinstance(outcome, Success) else Failed(failure_of(unseen))
            except TimeoutError:
                break  # The job's end is worth more than its last progress.
            except asyncio.CancelledError:
                # Stopped while only the news was left: what the handler did stands, if the job is still ours.
                if self.interruption is HandlerInterruption.LOST_LEASE:
                    return None
                patience_s = LAST_PROGRESS_S
        return Failed(UNSTORED_CHILD) if isinstance(outcome, Success) and services.is_spawning(self.claim) else outcome

    def _stopped_early(self) -> bool:
        """Of an interrupted attempt: whether what the handler returned is no result, because it knew."""
        only_notified = self.interruption is HandlerInterruption.CANCEL or (
            self.interruption is HandlerInterruption.SHUTDOWN and self.handler.mode == "thread"
        )
        return not only_notified or self._saw_the_request()

    def _saw_the_request(self) -> bool:
        return self.handler.mode == "async" or self.context.saw_the_request

    def interrupted(self) -> Outcome | None:
        """What the interruption means for the job; None when it is no longer ours to say."""
        match self.interruption:
            case HandlerInterruption.TIMEOUT:
                message = f"the execution timeout of {self.stops_at - self.started:g} s is over"
                return Failed(Failure(Category.TIMEOUT, message, "timeout"))
            case HandlerInterruption.CANCEL:
                return Cancelled()
            case HandlerInterruption.SHUTDOWN:
                return Released()
            case _:
                return None


Around = Callable[[AttemptRun, AttemptServices], Awaitable[Outcome | None]]


def is_ctrl_c(error: BaseException) -> bool:
    """Whether a signal raised this KeyboardInterrupt in the main thread. Where Python's default handler is installed,
    it cannot be told from one that a handler raised itself, and stopping is what a user at a terminal wants."""
    if not issubclass(type(error), KeyboardInterrupt) or threading.current_thread() is not threading.main_thread():
        return False
    on_sigint = signal.getsignal(signal.SIGINT)
    if on_sigint is signal.default_int_handler:
        return True
    function = getattr(on_sigint, "func", on_sigint)  # asyncio.run installs a partial of a method
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_code is code
