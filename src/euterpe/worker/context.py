"""The context that a handler gets: its job, its deadline, and the ways to report progress.

Every method can be awaited in async code and simply called in a plain `def`: the news is on its way when the call
returns, it is written before the job is settled, and awaiting (or `.wait()`) makes sure that it was written.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import time
from collections.abc import AsyncIterator, Awaitable, Generator
from contextlib import asynccontextmanager
from enum import Enum
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from euterpe.model.claims.attempt_log import LogBuffer, LogLine, line_of
from euterpe.model.claims.exchange import ProgressUpdate
from euterpe.model.errors import EuterpeError, InvalidInput, PayloadTooLarge, PermanentError, StaleLease
from euterpe.model.job import Claim
from euterpe.model.json_depth import check_depth
from euterpe.model.rate import LARGEST_BURST
from euterpe.model.state import CLAIMED, check_advance
from euterpe.model.submitting.submission import RESULT_LIMIT, Submission
from euterpe.worker.handling.json_types import to_json

T = TypeVar("T")


class NoState(Enum):
    """What `ctx.state` stands on where no lifespan has opened anything."""

    NO_STATE = "no state"


NO_STATE: Final = NoState.NO_STATE
TELL_OF_WAIT_S: Final = 10.0
"""How often the store is told of an attempt that waits inside its worker."""


class Sent(Generic[T]):
    """A report that is being written. Await it, call `.wait()` in a plain `def`, or do neither."""

    __slots__ = ("_future", "was_seen")

    def __init__(self, future: concurrent.futures.Future[T] | asyncio.Future[T]) -> None:
        self._future = future
        self.was_seen = False
        """Whether the handler got the answer, good or bad."""

    def __await__(self) -> Generator[object, None, T]:
        future = self._future
        if isinstance(future, concurrent.futures.Future):
            waiting = asyncio.wrap_future(future)
        else:
            # A handler that is cancelled while it waits cuts off its waiting, not what is already on its way.
            waiting = asyncio.shield(future) if isinstance(future, asyncio.Task) else future
        try:
            return (yield from waiting.__await__())
        finally:
            self.was_seen = future.done()

    def wait(self, timeout_s: float | None = None) -> T:
        """Block until the report is written. For plain `def` handlers."""
        if not isinstance(self._future, concurrent.futures.Future):
            raise RuntimeError("an async handler awaits its news instead of waiting for it")
        try:
            return self._future.result(timeout_s)
        finally:
            self.was_seen = self._future.done()


class Reporter(Protocol):
    """Where a context reports progress to: the worker's loop, or a pipe to it."""

    @property
    def state(self) -> object:
        """What the worker's lifespan has opened, or NO_STATE."""
        ...

    def report_progress(self, update: ProgressUpdate) -> Sent[None]: ...

    def spawn(self, claim: Claim, submission: Submission) -> Sent[str]: ...

    def make_submission(self, what: object, payload: object = None, /, **options: Any) -> Submission: ...

    def complete(self, claim: Claim, connection: object, result: object, log: str | None) -> Awaitable[None]: ...

    def charge(self, claim: Claim, tokens: int) -> Sent[None]: ...

    def keep_line(self, context: Context, line: LogLine) -> None: ...


class Context:
    """One execution of a job. A handler receives it as its first argument, if it asks for it.

    Example:
        @queue.job("report.render")
        async def render(ctx: euterpe.Context, report_id: int) -> dict:
            await ctx.progress(40, "halfway")
    """

    __slots__ = (
        "_asked_to_stop", "_claim", "_clock_stopped_at", "_deadline", "_over", "_reporter", "_stage", "has_waited",
        "is_completing", "lines", "saw_the_request",
    )  # fmt: skip

    def __init__(self, claim: Claim, reporter: Reporter, deadline: float) -> None:
        self._claim = claim
        self._reporter = reporter
        self._deadline = deadline
        self._clock_stopped_at: float | None = None
        self.has_waited = False
        """Whether the clock of the execution timeout was ever stopped."""
        self._stage = claim.job.stage or CLAIMED
        self._asked_to_stop = False
        self._over = False
        self.lines: LogBuffer | None = None
        """What the handler logged, from its first line on."""
        self.is_completing = False
        """Whether the handler has called `complete`: a lease that is gone then may be gone with its own commit."""
        self.saw_the_request = False
        """Whether the handler looked at `cancelled` when it was true: what it returns then is not a result."""

    @property
    def job_id(self) -> str:
        """The id of the job."""
        return self._claim.job.id

    @property
    def type(self) -> str:
        """The name of its job type."""
        return self._claim.job.type

    @property
    def queue(self) -> str:
        """The queue that the job waited in."""
        return self._claim.job.queue

    @property
    def state(self) -> Any:  # the lifespan's own
        """What the queue's lifespan yielded in this worker. `euterpe.injected()` passes it with its type. Raises
        EuterpeError if there is none: the queue has no lifespan, or the handler runs in its own process."""
        state = self._reporter.state
        if state is NO_STATE:
            raise EuterpeError(
                "there is no state here: write a @queue.lifespan; a handler with process=True cannot have it"
            )
        return state

    @property
    def attempt(self) -> int:
        """1 for the first execution."""
        return self._claim.job.attempt_count

    @property
    def max_attempts(self) -> int:
        """The highest number of executions of the job."""
        return self._claim.job.max_attempts

    @property
    def attempt_id(self) -> str:
        """The id of this execution, as in `queue.attempts` and the logs."""
        return self._claim.lease.attempt_id

    @property
    def claim_version(self) -> int:
        """The number of this claim. A newer claim of the job has a higher number."""
        return self._claim.lease.claim_version

    @property
    def previous_attempt_id(self) -> str | None:
        """The id of the execution before this one; None for the first."""
        return self._claim.job.previous_attempt_id

    @property
    def deadline(self) -> float:
        """When the execution timeout ends the attempt, on the clock of `time.monotonic()` and `loop.time()`."""
        if self._clock_stopped_at is None:
            return self._deadline
        return self._deadline + time.monotonic() - self._clock_stopped_at

    @property
    def priority(self) -> int:
        """The effective priority of the job: 0 (critical) to 4 (bulk)."""
        return self._claim.job.priority

    @property
    def tags(self) -> dict[str, str]:
        """The tags of the job."""
        return self._claim.job.tags

    @property
    def correlation_id(self) -> str | None:
        """The correlation id that the submitter gave the job."""
        return self._claim.job.correlation_id

    @property
    def depends_on(self) -> tuple[str, ...]:
        """The ids of the jobs that this job waited for, in the order of the submit."""
        return self._claim.job.depends_on or ()

    @property
    def cancelled(self) -> bool:
        """Whether this attempt was asked to stop. An async handler is cancelled as well. A plain `def` should look here
        now and then. Once it has seen the request, its job is cancelled, whatever it returns."""
        if self._asked_to_stop:
            self.saw_the_request = True
        return self._asked_to_stop

    @property
    def last_checkpoint(self) -> Any:  # the handler knows its form
        """The latest checkpoint of this job: decoded JSON, or bytes. None if there is none."""
        stored = self._claim.job.checkpoint
        if not stored:
            return None
        return stored[1:] if stored[:1] == b"b" else msgspec.json.decode(stored[1:])

    def ask_to_stop(self) -> None:
        """The worker's side: from now on `cancelled` is true."""
        self._asked_to_stop = True

    @asynccontextmanager
    async def clock_stopped(self) -> AsyncIterator[None]:
        """The transcoder's side: the attempt waits for a part of this worker, such as an encoder. That time does not
        count against the execution timeout, neither here nor in the store."""
        self.has_waited = True
        self._clock_stopped_at = time.monotonic()
        telling = asyncio.ensure_future(self._tell_of_wait())
        try:
            yield
        finally:
            telling.cancel()
            self._deadline, self._clock_stopped_at = self.deadline, None

    async def _tell_of_wait(self) -> None:
        """The store gives an attempt OVERRUN_US beyond its timeout. What was waited since the last report fits in."""
        while True:
            began = time.monotonic()
            await asyncio.sleep(TELL_OF_WAIT_S)
            waited_us = int((time.monotonic() - began) * 1_000_000)
            await self._report_progress(ProgressUpdate(self._claim, waited_us=waited_us))

    def close(self) -> None:
        """The worker's side: the attempt is over. A thread that goes on alone is refused from now on."""
        self._asked_to_stop = self._over = True

    def keep_line(self, at_us: int, level: str, logger: str, message: str) -> None:
        """The log's side: the handler has logged this. What a thread that goes on alone logs is nobody's."""
        if not self._over:
            self._reporter.keep_line(self, line_of(at_us, level, logger, message))

    @property
    def kept_log(self) -> str | None:
        """The worker's side: what is kept of the handler's lines; None: nothing."""
        return None if self.lines is None else self.lines.stored()

    def progress(self, percent: float, message: str | None = None) -> Sent[None]:
        """Report progress. `percent`: 0 to 100. `message`: a text of at most 500 characters. Raises InvalidInput for
        another number, and StaleLease if this attempt no longer owns the job.

        Example:
            await ctx.progress(40, "page 12 of 30")
        """
        if isinstance(percent, bool) or not isinstance(percent, (int, float)) or not 0 <= percent <= 100:
            raise InvalidInput("progress", f"{percent!r} is not between 0 and 100")
        return self._report_progress(ProgressUpdate(self._claim, progress=float(percent), message=_clean(message)))

    def checkpoint(self, value: object) -> Sent[None]:
        """Save bytes or JSON for the next attempt, which finds it in `last_checkpoint`. Raises InvalidInput for any
        other value, PayloadTooLarge, and StaleLease if this attempt no longer owns the job.

        Example:
            start = (ctx.last_checkpoint or {"page": 0})["page"]
            await ctx.checkpoint({"page": start + 1})
        """
        stored = _stored(value)
        if len(stored) > RESULT_LIMIT:
            raise PayloadTooLarge("checkpoint", f"{len(stored)} bytes; the limit is {RESULT_LIMIT}")
        if stored[:1] != b"b":
            check_depth("checkpoint", stored)
        return self._report_progress(ProgressUpdate(self._claim, checkpoint=stored))

    def stage(self, name: str) -> Sent[None]:
        """Move to the next stage that the job type declares. Raises IllegalTransition for any other stage, and
        StaleLease if this attempt no longer owns the job.

        Example:
            await ctx.stage("uploading")
        """
        # Checked here: to the database a step back looks like a write of someone who lost the job.
        check_advance(self._claim.job.stages, self._stage, name)
        self._stage = name
        return self._report_progress(ProgressUpdate(self._claim, stage=name))

    def check_last_stage(self) -> None:
        """The worker's side: a job whose type declares stages completes from the last one only."""
        last = self._claim.job.stages[-1]
        if self._stage != last:
            raise PermanentError(
                f"the handler returned in stage {self._stage!r}; its job completes from {last!r} only",
                code="illegal_transition",
            )

    def spawn(self, what: object, payload: object = None, /, **options: Any) -> Sent[str]:
        """Submit a child of this job. A fan-in on this job waits for the child too. The child is stored before this job
        ends, even if you do not await it. Awaiting it returns its id. Takes the arguments of `queue.submit`, and raises
        the same errors, and StaleLease if this attempt no longer owns the job.

        Example:
            child_id = await ctx.spawn(resize.with_args(width=200), priority="low")
        """
        self._check_open()
        return self._reporter.spawn(self._claim, self._reporter.make_submission(what, payload, **options))

    def complete(self, connection: object, result: object = None) -> Awaitable[None]:
        """Complete this job inside the open transaction of your own connection. Your writes and the end of the job are
        committed together or not at all.

        `connection`: a connection as for `submit(connection=)`. `result`: the result of the job; the return value of
        the handler is then ignored. Commit before the handler returns. If you roll back and return, the attempt has
        failed and is retried. If you raise, the attempt fails with your exception. Raises StaleLease if this attempt no
        longer owns the job; then the transaction cannot be committed. Await it in a coroutine, and call it in a plain
        `def`.

        Example:
            async with connection.transaction():
                await connection.execute("UPDATE accounts SET balance = balance - 5 WHERE id = $1", account)
                await ctx.complete(connection, {"charged": 5})
        """
        self._check_open()
        self.is_completing = True
        return self._reporter.complete(self._claim, connection, result, self.kept_log)

    def charge(self, tokens: int) -> Sent[None]:
        """Take more tokens from the rate of this job's key. The start took one; use this if the work has cost more. The
        next jobs of the key wait for them. Raises InvalidInput if the job has no key.

        Example:
            answer = await model.ask(prompt)
            await ctx.charge(answer.tokens_used)
        """
        if isinstance(tokens, bool) or not isinstance(tokens, int) or not 1 <= tokens <= LARGEST_BURST:
            raise InvalidInput("tokens", f"{tokens!r} is not a whole number from 1 to {LARGEST_BURST}")
        if self._claim.job.concurrency_key is None:
            raise InvalidInput("tokens", "cannot be charged: this job has no concurrency_key")
        self._check_open()
        return self._reporter.charge(self._claim, tokens)

    def _report_progress(self, update: ProgressUpdate) -> Sent[None]:
        self._check_open()
        return self._reporter.report_progress(update)

    def _check_open(self) -> None:
        if self._over:
            raise StaleLease(self.job_id, self._claim.lease.claim_version)


def _stored(value: object) -> bytes:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return b"b" + bytes(value)
    try:
        return b"j" + to_json(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidInput("checkpoint", f"cannot be written as JSON: {error}") from error


def _clean(message: str | None) -> str | None:
    """Fit for any database: no NUL, no lone surrogates, bounded."""
    return None if message is None else str(message).replace("\x00", "").encode(errors="replace").decode()[:500]
