"""The context that a handler gets: its job, its deadline, and the ways to report progress.

Every method can be awaited in async code and simply called in a plain `def`: the news is on its way when the call
returns, it is written before the job is settled, and awaiting (or `.wait()`) makes sure that it was written.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Awaitable, Generator
from enum import Enum
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from euterpe.model.claims.attempt_log import LogBuffer, LogLine, line_of
from euterpe.model.claims.exchange import ProgressUpdate
from euterpe.model.errors import EuterpeError, InvalidInput, PayloadTooLarge, PermanentError, StaleLease
from euterpe.model.job import Claim
from euterpe.model.rate import LARGEST_BURST
from euterpe.model.state import CLAIMED, check_advance
from euterpe.model.submitting.submission import RESULT_LIMIT, Submission
from euterpe.worker.handling.json_types import to_json

T = TypeVar("T")


class NoState(Enum):
    """What `ctx.state` stands on where no lifespan has opened anything."""

    NO_STATE = "no state"


NO_STATE: Final = NoState.NO_STATE


class Sent(Generic[T]):
    """A report under way. Await it, `.wait()` for it in a plain `def`, or let it be."""

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
        """Block until written; for plain `def` handlers."""
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
    """One execution of a job, as its handler sees it: its first argument, where it asks for it.

    Example:
        @queue.job("report.render")
        async def render(ctx: euterpe.Context, report_id: int) -> dict:
            await ctx.progress(40, "halfway")
    """

    __slots__ = (
        "_asked_to_stop", "_claim", "_deadline", "_over", "_reporter", "_stage", "is_completing", "lines",
        "saw_the_request",
    )  # fmt: skip

    def __init__(self, claim: Claim, reporter: Reporter, deadline: float) -> None:
        self._claim = claim
        self._reporter = reporter
        self._deadline = deadline
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
        """The job that this is an attempt of."""
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
    def state(self) -> Any:
        """What the queue's lifespan yielded in this worker. `euterpe.injected()` hands it over with its type. Raises
        EuterpeError where there is none: the queue has no lifespan, or the handler runs in a process of its own."""
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
        """How many executions the job may have."""
        return self._claim.job.max_attempts

    @property
    def attempt_id(self) -> str:
        """The name of this execution, as in `queue.attempts` and the logs."""
        return self._claim.lease.attempt_id

    @property
    def claim_version(self) -> int:
        """The fence of this attempt: a newer claim of the job has a higher one."""
        return self._claim.lease.claim_version

    @property
    def previous_attempt_id(self) -> str | None:
        """The execution before this one; None for the first."""
        return self._claim.job.previous_attempt_id

    @property
    def deadline(self) -> float:
        """When the execution timeout strikes, on the clock of `time.monotonic()` and `loop.time()`."""
        return self._deadline

    @property
    def tags(self) -> dict[str, str]:
        """The tags of the job."""
        return self._claim.job.tags

    @property
    def correlation_id(self) -> str | None:
        """What the submitter ties this job to others by."""
        return self._claim.job.correlation_id

    @property
    def depends_on(self) -> tuple[str, ...]:
        """The ids of the jobs that this one waited for, in the order of the submit."""
        return self._claim.job.depends_on or ()

    @property
    def cancelled(self) -> bool:
        """Whether this attempt was asked to stop. An async handler is cancelled as well; a plain `def` looks here
        now and then, and whatever it returns after it saw the request, its job is cancelled."""
        if self._asked_to_stop:
            self.saw_the_request = True
        return self._asked_to_stop

    @property
    def last_checkpoint(self) -> Any:
        """What the latest checkpoint of this job held (JSON decoded, or the raw bytes); None without one."""
        stored = self._claim.job.checkpoint
        if not stored:
            return None
        return stored[1:] if stored[:1] == b"b" else msgspec.json.decode(stored[1:])

    def ask_to_stop(self) -> None:
        """The worker's side: from now on `cancelled` is true."""
        self._asked_to_stop = True

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
        """Report progress. `percent`: 0 to 100. `message`: a short text, at most 500 characters. Raises
        InvalidInput for another number, and StaleLease when the job is no longer this attempt's.

        Example:
            await ctx.progress(40, "page 12 of 30")
        """
        if isinstance(percent, bool) or not isinstance(percent, (int, float)) or not 0 <= percent <= 100:
            raise InvalidInput("progress", f"{percent!r} is not between 0 and 100")
        return self._report_progress(ProgressUpdate(self._claim, progress=float(percent), message=_clean(message)))

    def checkpoint(self, value: object) -> Sent[None]:
        """Save bytes or JSON that the next attempt finds in `last_checkpoint`. Raises InvalidInput for what is neither,
        PayloadTooLarge, and StaleLease when the job is no longer this attempt's.

        Example:
            start = (ctx.last_checkpoint or {"page": 0})["page"]
            await ctx.checkpoint({"page": start + 1})
        """
        stored = _stored(value)
        if len(stored) > RESULT_LIMIT:
            raise PayloadTooLarge("checkpoint", f"{len(stored)} bytes; the limit is {RESULT_LIMIT}")
        return self._report_progress(ProgressUpdate(self._claim, checkpoint=stored))

    def stage(self, name: str) -> Sent[None]:
        """Move on to the next of the stages that the job type declares. Raises IllegalTransition for any other, and
        StaleLease when the job is no longer this attempt's.

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
        """Submit a child of this job; fan-ins on this job wait for it too. It is stored before this job is settled,
        awaited or not; awaiting it gives its id. Takes what `queue.submit` takes, and raises what that raises, and
        StaleLease when the job is no longer this attempt's.

        Example:
            child_id = await ctx.spawn(resize.with_args(width=200), priority="low")
        """
        self._check_open()
        return self._reporter.spawn(self._claim, self._reporter.make_submission(what, payload, **options))

    def complete(self, connection: object, result: object = None) -> Awaitable[None]:
        """Complete this job inside the transaction that is open on your own connection: your writes and the end of the
        job, with everything that follows from it, are committed together or not at all.

        `connection`: what `submit(connection=)` takes. `result`: the job's result; what the handler returns is ignored
        then. Commit before the handler returns. If you roll back and return, the attempt has failed and is tried again;
        if you raise, it failed as you say. Raises StaleLease when this attempt no longer owns its job; the transaction
        cannot be committed any more then. Awaited in a coroutine, simply called in a plain `def`.

        Example:
            async with connection.transaction():
                await connection.execute("UPDATE accounts SET balance = balance - 5 WHERE id = $1", account)
                await ctx.complete(connection, {"charged": 5})
        """
        self._check_open()
        self.is_completing = True
        return self._reporter.complete(self._claim, connection, result, self.kept_log)

    def charge(self, tokens: int) -> Sent[None]:
        """Take so many tokens more from the rate of this job's key: its start took one, and the work has cost more.
        Whoever is next waits for them. Raises InvalidInput when the job has no key.

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
