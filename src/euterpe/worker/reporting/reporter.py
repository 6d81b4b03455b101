"""The worker's reporter: takes the progress of its attempts from their contexts, on the loop or from a thread."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Final

from euterpe.model.claims.attempt_log import LINES_KEPT, LogBuffer, LogLine
from euterpe.model.claims.exchange import ProgressUpdate
from euterpe.model.claims.outcome import Outcome
from euterpe.model.errors import EuterpeError, InvalidInput, Unsupported
from euterpe.model.job import Claim
from euterpe.model.submitting.submission import Submission
from euterpe.worker.context import NO_STATE, Context, Sent
from euterpe.worker.reporting.completions import HandlerCompletion, HandlerCompletions
from euterpe.worker.reporting.progress import ProgressWriter
from euterpe.worker.reporting.spawning import Spawns

Spawn = Callable[[Claim, Sequence[Submission]], Awaitable[list[str]]]
MakeSubmission = Callable[..., Submission]
Charge = Callable[[Claim, int], Coroutine[Any, Any, None]]
"""Takes tokens from the rate of a claim's key."""
LAST_PROGRESS_S: Final = 1.0


class WorkerReporter:
    """One for all attempts of a worker; a progress writer for each attempt that reports something."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        write_progress: Callable[[ProgressUpdate], Awaitable[None]],
        spawn: Spawn | None,
        make_submission: MakeSubmission | None,
        completions: HandlerCompletions | None = None,
        state: Any = NO_STATE,
        charge: Charge | None = None,
        log_lines: int = LINES_KEPT,
    ) -> None:
        self._loop = loop
        self._write_progress = write_progress
        self._spawn = spawn
        self._make_submission = make_submission
        self._completions = completions
        self._charge = charge
        self._charges: set[asyncio.Task[None]] = set()
        self._completing: Collection[str] = () if completions is None else completions.begun
        self.state = state
        self.log_lines = log_lines
        self._lines: dict[str, ProgressWriter] = {}
        self._spawns: dict[str, Spawns] = {}

    def report_progress(self, update: ProgressUpdate) -> Sent[None]:
        if self._on_loop():
            return Sent(self._line_of(update.claim).report_progress(update))

        async def report_progress() -> None:
            await self._line_of(update.claim).report_progress(update)

        return Sent(asyncio.run_coroutine_threadsafe(report_progress(), self._loop))

    def spawn(self, claim: Claim, submission: Submission) -> Sent[str]:
        if self._spawn is None:
            raise EuterpeError("this worker cannot spawn jobs: it has no queue to submit to")
        spawn = self._spawn

        async def one() -> str:
            return (await spawn(claim, [submission]))[0]

        if self._on_loop():
            return self._spawns_of(claim).begin(one())
        answer: concurrent.futures.Future[str] = concurrent.futures.Future()
        sent = Sent(answer)
        # Begun before the thread's own end is heard of: both go through the loop, in this order.
        self._loop.call_soon_threadsafe(lambda: self._spawns_of(claim).begin(one(), sent, answer))
        return sent

    def make_submission(self, what: object, payload: object = None, /, **options: Any) -> Submission:
        if self._make_submission is None:
            raise EuterpeError("this worker cannot spawn jobs: it has no queue to submit to")
        return self._make_submission(what, payload, **options)

    def complete(self, claim: Claim, connection: object, result: object, log: str | None) -> HandlerCompletion:
        if self._completions is None:
            raise Unsupported("this worker cannot complete jobs in a handler's own transaction")

        async def before() -> None:
            await self._last_progress(claim)

        if self._on_loop():
            return self._completions.begin(claim, connection, result, before, log)
        if self.has_progress(claim):
            asyncio.run_coroutine_threadsafe(before(), self._loop).result()
        return self._completions.run(claim, connection, result, log)

    async def _last_progress(self, claim: Claim) -> None:
        """What was told and spawned is written before the job ends. On SQLite the handler's own transaction keeps
        everybody else from writing, so the wait is short, and a child must be awaited before."""
        if not self.has_progress(claim):
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_PROGRESS_S):
                await self.delivered(claim)
        if self.is_spawning(claim):
            raise InvalidInput("spawn", "is still under way; await ctx.spawn(...) before you begin the transaction")

    def charge(self, claim: Claim, tokens: int) -> Sent[None]:
        if self._charge is None:
            raise Unsupported("this worker cannot charge rates")
        charging = self._charge(claim, tokens)
        if self._on_loop():
            task = self._loop.create_task(charging)
            self._charges.add(task)
            task.add_done_callback(self._charges.discard)
            return Sent(task)
        return Sent(asyncio.run_coroutine_threadsafe(charging, self._loop))

    def keep_line(self, context: Context, line: LogLine) -> None:
        """From any thread; the log lets in one at a time."""
        if self.log_lines:
            if context.lines is None:
                context.lines = LogBuffer(self.log_lines)
            context.lines.add(line)

    async def outcome_of(self, claim: Claim, outcome: Outcome | None) -> Outcome | None:
        """What came of it, when the handler may have committed its job's end by itself."""
        return outcome if self._completions is None else await self._completions.outcome_of(claim, outcome)

    def has_progress(self, claim: Claim) -> bool:
        """Whether something is left to be known before the attempt's outcome is."""
        if not (self._lines or self._spawns or self._completing):
            return False
        name = claim.lease.attempt_id
        return name in self._lines or name in self._spawns or name in self._completing

    async def delivered(self, claim: Claim) -> BaseException | None:
        """Wait until what this attempt told and spawned is written: a settle that overtook it would make it stale.
        Returns the error of a spawn that the handler never looked at."""
        name = claim.lease.attempt_id
        if (line := self._lines.get(name)) is not None:
            await line.delivered()
        return None if (spawns := self._spawns.get(name)) is None else await spawns.over()

    def is_spawning(self, claim: Claim) -> bool:
        spawns = self._spawns.get(claim.lease.attempt_id)
        return spawns is not None and bool(spawns.pending)

    def forget(self, claim: Claim) -> None:
        """The attempt is over."""
        if self._lines and (line := self._lines.pop(claim.lease.attempt_id, None)) is not None:
            line.drop()
        if self._spawns and (spawns := self._spawns.pop(claim.lease.attempt_id, None)) is not None:
            spawns.drop()

    def _line_of(self, claim: Claim) -> ProgressWriter:
        name = claim.lease.attempt_id
        line = self._lines.get(name)
        if line is None:
            line = self._lines[name] = ProgressWriter(self._write_progress)
        return line

    def _spawns_of(self, claim: Claim) -> Spawns:
        return self._spawns.setdefault(claim.lease.attempt_id, Spawns())

    def _on_loop(self) -> bool:
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False
