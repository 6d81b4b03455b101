"""Who is at work: every claim of a worker from its start to the moment its outcome is written.

A slot is free as soon as its handler ends. The lease is held until the outcome is written: a job that is over can
still be lost while the loop is blocked or the database away.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

from euterpe.model.claims.outcome import Released
from euterpe.model.job import Claim, Lease
from euterpe.model.submission import OVERRUN_US
from euterpe.ports import Trace
from euterpe.worker.attempt import Around, AttemptRun, HandlerInterruption, Means
from euterpe.worker.breaker import QueueBreakers
from euterpe.worker.context import Context
from euterpe.worker.execution.processes import Processes
from euterpe.worker.execution.threads import Threads
from euterpe.worker.handlers import Handlers
from euterpe.worker.heartbeat.lease_table import LeaseTable
from euterpe.worker.job_log import job_keys
from euterpe.worker.reporter import WorkerReporter
from euterpe.worker.telemetry import outcome_name

log = logging.getLogger("euterpe.worker")

PRECISE_TIMEOUT_US: Final = 10_000_000
KEEP_AFTER_DEADLINE_S: Final = OVERRUN_US / 1_000_000
UNCANCELLABLE_S: Final = 5.0
"""How long an interrupted handler may take to tidy up."""
LEASES_PER_SLOT: Final = 3
"""Room for what runs, for what is over and waits, and for what is being written."""


class RunningAttempts:
    """The attempts of one worker. `on_change` is called when a slot or an outcome is there; `breakers` hear of every
    end."""

    def __init__(
        self,
        handlers: Handlers,
        reporter: WorkerReporter,
        concurrency: int,
        result_limit: int,
        on_change: Callable[[], None],
        breakers: QueueBreakers,
        trace: Trace | None = None,
        around: Around | None = None,
    ) -> None:
        self._handlers = handlers
        self._reporter = reporter
        self._concurrency = concurrency
        self._on_change = on_change
        self._breakers = breakers
        self._trace = trace
        self._loop = asyncio.get_running_loop()
        self._threads = Threads(on_change)
        self._processes = Processes(reporter, result_limit)
        self._means = Means(
            self._threads.call,
            self._processes.run,
            reporter.has_news,
            reporter.delivered,
            reporter.is_spawning,
            result_limit,
            reporter.outcome_of,
            self._ran,
            around,
        )
        self._table: LeaseTable | None = None
        self._uncancellable: set[AttemptRun] = set()
        self._no_slot_left = False
        self._tasks: set[asyncio.Task[None]] = set()
        self.running: set[AttemptRun] = set()
        self.ended: list[AttemptRun] = []
        """Over, and not yet taken by anyone to be written."""
        self._to_write_again: list[AttemptRun] = []
        self.unwritten = 0
        """Over, and not yet written."""

    def hold_leases_in(self, table: LeaseTable) -> None:
        self._table = table

    @property
    def table(self) -> LeaseTable:
        assert self._table is not None
        return self._table

    def room(self, reserved: int) -> int:
        """How many more claims can start at once, next to `reserved` ones that are on their way."""
        taken = len(self.running) + reserved
        free = self._concurrency - taken - self._threads.lingering - len(self._uncancellable)
        return min(free, LEASES_PER_SLOT * self._concurrency - taken - self.unwritten)

    # --- from claim to outcome ------------------------------------------------------------------------

    def start(self, claim: Claim, lease_ttl_us: int) -> None:
        attempt = self._admit(claim, lease_ttl_us)
        timeout_s = attempt.stops_at - attempt.started
        if timeout_s * 1_000_000 <= PRECISE_TIMEOUT_US:
            attempt.alarm = self._loop.call_later(timeout_s, attempt.interrupt, HandlerInterruption.TIMEOUT)
        run = attempt.run(self._means) if self._trace is None else self._traced(attempt, self._trace)
        attempt.task = self._loop.create_task(run)
        self._tasks.add(attempt.task)

    def hand_back(self, claim: Claim, lease_ttl_us: int) -> None:
        """Claimed while the order to stop came in: it has not begun and goes back as it was."""
        attempt = self._admit(claim, lease_ttl_us)
        attempt.outcome = Released()
        self._over(attempt)

    def _admit(self, claim: Claim, lease_ttl_us: int) -> AttemptRun:
        job = claim.job
        handler = self._handlers.by_type[job.type]
        timeout_us = min(job.execution_timeout_us, handler.timeout_us or job.execution_timeout_us)
        now = time.monotonic()
        stops_at = now + timeout_us / 1_000_000
        ttl_us = min(lease_ttl_us, job.visibility_us)
        slot = self.table.hold(claim.lease, stops_at + KEEP_AFTER_DEADLINE_S, ttl_us)
        attempt = AttemptRun(claim, handler, Context(claim, self._reporter, stops_at), now, stops_at, slot)
        self.running.add(attempt)
        return attempt

    async def _traced(self, attempt: AttemptRun, trace: Trace) -> None:
        try:
            opened = trace(attempt.claim)
        except Exception as error:  # a job does not wait for its span
            log.error("a job runs without a span", extra=job_keys(attempt.claim.job), exc_info=error)
            await attempt.run(self._means)
            return
        with opened as span:
            try:
                await attempt.run(self._means)
            finally:
                span.set_outcome(outcome_name(attempt.outcome))

    def _ran(self, attempt: AttemptRun) -> None:
        """The last word of an attempt's task."""
        if attempt.task is not None:
            self._tasks.discard(attempt.task)
        if attempt in self.running:
            self._over(attempt)
        else:
            self._uncancellable.discard(attempt)
            self._on_change()

    def _over(self, attempt: AttemptRun) -> None:
        """The handler is through, or given up on: its slot is free, its outcome waits to be written."""
        self.running.discard(attempt)
        attempt.took_s = time.monotonic() - attempt.started
        attempt.context.close()
        self._reporter.forget(attempt.claim)
        if attempt.alarm is not None:
            attempt.alarm.cancel()
        if attempt.outcome is not None:
            self.ended.append(attempt)
            self.unwritten += 1
        else:
            self.table.release(attempt.slot)
            self._breakers.lost(attempt)
            extra = job_keys(attempt.claim.job)
            log.warning("the lease was lost to another claim; this attempt's work is dropped", extra=extra)
        self._on_change()

    def take_ended(self) -> list[AttemptRun]:
        ended, self.ended = self.ended, []
        if ended:
            self._breakers.record(ended)
        if self._to_write_again:
            ended, self._to_write_again = self._to_write_again + ended, []
        return ended

    def give_back_ended(self, ended: list[AttemptRun]) -> None:
        """They could not be written this time."""
        self._to_write_again = ended + self._to_write_again

    def dismiss(self, attempts: list[AttemptRun]) -> None:
        """Written, or given up: their leases are no longer ours to keep."""
        self.unwritten -= len(attempts)
        release = self.table.release
        for attempt in attempts:
            release(attempt.slot)

    # --- interruptions --------------------------------------------------------------------------------

    def lose(self, job_id: str, claim_version: int) -> None:
        if (attempt := self._find(job_id, claim_version)) is not None and not attempt.context.is_completing:
            attempt.interrupt(HandlerInterruption.LOST_LEASE)

    def cancel(self, job_id: str, claim_version: int) -> None:
        if (attempt := self._find(job_id, claim_version)) is not None:
            attempt.interrupt(HandlerInterruption.CANCEL)
            if attempt.handler.mode == "process":
                self._processes.ask_to_stop(attempt.claim)

    def release_all(self) -> None:
        for attempt in tuple(self.running):
            attempt.interrupt(HandlerInterruption.SHUTDOWN)

    def _find(self, job_id: str, claim_version: int) -> AttemptRun | None:
        for attempt in self.running:
            lease = attempt.claim.lease
            if lease.claim_version == claim_version and lease.job_id == job_id:
                return attempt
        return None

    def leases(self) -> list[Lease]:
        """Of what runs."""
        return [attempt.claim.lease for attempt in self.running]

    def look_after(self) -> None:
        """Deadlines and uncancellable handlers, in one pass for all: most jobs end long before theirs."""
        now = time.monotonic()
        for attempt in tuple(self.running):
            if now >= attempt.stops_at:
                attempt.interrupt(HandlerInterruption.TIMEOUT)
            if attempt.interruption is not None and now >= attempt.interrupted_at + UNCANCELLABLE_S:
                self._insist(attempt)
        self._look_at_lingering()

    def _look_at_lingering(self) -> None:
        """Say it once when handlers that do not stop have taken every slot, and once when one is free again."""
        held = self._threads.lingering + len(self._uncancellable)
        if (held >= self._concurrency) is self._no_slot_left:
            return
        self._no_slot_left = not self._no_slot_left
        if self._no_slot_left:
            message = "no slot is left: %d handlers were told to stop and still run; nothing is claimed until one ends"
            log.error(message, held)
        else:
            log.warning("a slot is free again: %d handlers that were told to stop still run", held)

    def _insist(self, attempt: AttemptRun) -> None:
        """It was asked to stop and does not: kill a process, leave a coroutine to itself; a thread may go on if the
        request was only a cancel."""
        if attempt.handler.mode == "process":
            attempt.cancel()
        elif attempt.handler.mode == "async":
            attempt.outcome = attempt.interrupted()
            self._uncancellable.add(attempt)
            extra = {**job_keys(attempt.claim.job), "error_code": str(attempt.interruption)}
            log.warning("a handler does not let itself be cancelled; its job is settled without it", extra=extra)
            self._over(attempt)
        elif attempt.interruption is HandlerInterruption.SHUTDOWN:
            self._leave_behind(attempt)

    def _leave_behind(self, attempt: AttemptRun) -> None:
        """A thread that does not stop when the worker does. To give its job back would let it run twice at once, so
        nothing is written: its lease runs out by itself, some time after this process has ended."""
        extra = job_keys(attempt.claim.job)
        log.warning("a thread still runs at shutdown; its job is free again when its lease runs out", extra=extra)
        attempt.context.close()
        self.running.discard(attempt)
        self._breakers.lost(attempt)
        self._reporter.forget(attempt.claim)
        self._on_change()

    async def close(self) -> None:
        """End what is left: nothing of it will be written any more."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            _, uncancellable = await asyncio.wait(tuple(self._tasks), timeout=1.0)
            for task in uncancellable:
                _tear_down(task)
        await self._processes.close()
        self._threads.close()


def _tear_down(task: asyncio.Task[None]) -> None:
    """End a coroutine that swallows every cancellation: the event loop would wait for it for ever."""
    coroutine = task.get_coro()
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    try:
        if coroutine is not None:
            coroutine.close()
    except RuntimeError:
        log.warning("a handler cannot be ended by any means; the process may have to be killed")
    task.cancel()
