"""The running attempts of a worker: every claim from its arrival until its outcome is written.

A slot is free as soon as its handler ends, and then the next of the ready buffer begins. The lease is held until the
outcome is written: a job that is over can still be lost while the loop is blocked or the database away.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextvars import copy_context
from typing import TYPE_CHECKING, Final

import msgspec

from euterpe.model.claims.outcome import Cancelled, Failed, Outcome, Released, Success
from euterpe.model.failures.failure import HANDLER_NOT_STARTED, NOT_ITS_TURN
from euterpe.model.job import Claim, JobRow, Lease
from euterpe.model.submitting.submission import OVERRUN_US
from euterpe.ports import Trace
from euterpe.runtime.clocks import awake_or_not_s
from euterpe.worker.attempt import Around, AttemptRun, AttemptServices, HandlerInterruption
from euterpe.worker.claiming.breaker import CircuitBreakers
from euterpe.worker.claiming.prefetch import AHEAD_LIMIT, PATIENCE_S, ReadyBuffer, ReadyJob
from euterpe.worker.claiming.suspects import HELD_PATIENCE_S, SuspectTurns, Turn
from euterpe.worker.context import Context
from euterpe.worker.execution.threads import Shortage, Threads
from euterpe.worker.handling.handlers import Handler, Handlers
from euterpe.worker.heartbeat.lease_table import LeaseTable
from euterpe.worker.reporting.job_log import job_keys
from euterpe.worker.reporting.reporter import WorkerReporter
from euterpe.worker.reporting.telemetry import outcome_name

if TYPE_CHECKING:  # Loaded with the first job that runs in a process of its own.
    from euterpe.worker.execution.processes import Processes

log = logging.getLogger("euterpe.worker")

PRECISE_TIMEOUT_US: Final = 10_000_000
ALARM_PRECISION_S: Final = 0.01
KEEP_AFTER_DEADLINE_S: Final = OVERRUN_US / 1_000_000
NO_SLOT: Final = -1
SLICE: Final = 100
"""So many begin in one go; between two slices the event loop serves others."""
UNCANCELLABLE_S: Final = 5.0
"""How long an interrupted handler may take to tidy up."""
UNWATCHED_S: Final = 2.0
"""A worker that did not look for so long was stopped or blocked: what it held may be another's by now."""
MOST_BYTES: Final = 4_000_000
"""Of results in one settle."""
LEAST_BYTES: Final = 64_000
"""Small results go by hundreds also after an outage."""
LEASES_PER_SLOT: Final = 3
"""Room for what runs, for what is over and waits, and for what is being written."""


def leases_of(concurrency: int) -> int:
    """How many leases a worker may hold at once."""
    return LEASES_PER_SLOT * (concurrency + AHEAD_LIMIT)


class BatchBytes:
    """Bounds the results that one settle carries: a batch that takes longer to send than a statement may never arrives.
    Halved after a batch that was not written, doubled after one that was."""

    def __init__(self) -> None:
        self.limit = MOST_BYTES

    def first_of(self, ended: Sequence[AttemptRun]) -> int:
        """How many of them go in one batch: at least one."""
        left = self.limit
        for count, attempt in enumerate(ended):
            left -= _size(attempt)
            if left < 0 and count:
                return count
        return len(ended)

    def lost(self, ended: Sequence[AttemptRun]) -> None:
        """Perhaps it was too large to arrive in time."""
        self.limit = max(LEAST_BYTES, min(self.limit, sum(map(_size, ended))) // 2)

    def written(self) -> None:
        self.limit = min(2 * self.limit, MOST_BYTES)


def _size(attempt: AttemptRun) -> int:
    outcome = attempt.outcome
    return len(outcome.result) if type(outcome) is Success and outcome.result is not None else 0


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
        breakers: CircuitBreakers,
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
        self._shortage = Shortage(concurrency, on_change)
        self._result_limit = result_limit
        self._processes: Processes | None = None
        self._services = AttemptServices(
            self._threads.call,
            self._run_in_process,
            reporter.has_progress,
            reporter.delivered,
            reporter.is_spawning,
            result_limit,
            reporter.outcome_of,
            self._ran,
            around,
        )
        self.table: LeaseTable
        self._uncancellable: set[AttemptRun] = set()
        self._no_slot_left = False
        self._left: set[AttemptRun] = set()
        """Those whose tasks go on though they are not among the running ones any more."""
        self._context = copy_context()
        """What the handlers of this worker begin with: nothing that another handler has set."""
        self._is_refilling = False
        self._expiring = 0
        self.ready = ReadyBuffer()
        """Claimed, and waiting for a slot."""
        self.reserved = 0
        """Slots that claims which are under way will fill."""
        self.reserved_ahead = 0
        """Places in the buffer that they may fill."""
        self.running: set[AttemptRun] = set()
        self.turns = SuspectTurns(self.running)
        self._held: list[ReadyJob] = []
        """Claimed, and waiting for their turn beside a suspect, or as one."""
        self._looked_at = time.monotonic()
        self.ended: list[AttemptRun] = []
        """Over, and not yet taken by anyone to be written."""
        self._to_write_again: list[AttemptRun] = []
        self._batch_bytes = BatchBytes()
        self.unwritten = 0
        """Over, and not yet written."""

    def hold_leases_in(self, table: LeaseTable) -> None:
        self.table = table

    @property
    def free_slots(self) -> int:
        """How many more can begin at once, next to those that are reserved for claims under way."""
        return 0 if self.turns.holds_others else self._slots_left

    @property
    def _slots_left(self) -> int:
        taken = len(self.running) + self.reserved + self._threads.lingering + len(self._uncancellable)
        return self._concurrency - taken - self._shortage.withheld

    @property
    def free_leases(self) -> int:
        """How many more leases the table has room for."""
        held = len(self.running) + len(self.ready) + len(self._held) + self.unwritten + self._expiring
        return leases_of(self._concurrency) - held - self.reserved - self.reserved_ahead

    def count_by_type(self) -> Counter[str]:
        """How many handlers of each type are at work, also those that do not let themselves be cancelled."""
        return Counter(attempt.handler.type for attempt in (*self.running, *self._uncancellable))

    # --- from claim to outcome ------------------------------------------------------------------------

    def start(self, claim: Claim, lease_ttl_us: int) -> None:
        """Begin at once, unless a suspect has to wait for its turn, or others for a suspect."""
        if claim.job.error is not None or not self.turns.is_quiet:
            turn = self.turns.turn_of(claim.job, self.unwritten, len(self._held))
            if turn is not Turn.NOW:
                waiting = self._ready_job(claim, lease_ttl_us, time.monotonic(), HELD_PATIENCE_S)
                if turn is Turn.WAIT:
                    self._held.append(waiting)
                else:
                    self._end_unbegun(waiting, Failed(NOT_ITS_TURN))
                return
        self._begin(self._admit(claim, lease_ttl_us))

    def put_ready(self, claims: Sequence[Claim], lease_ttl_us: int) -> None:
        """Begin as soon as `start_ready` finds a slot for them."""
        taken_at = awake_or_not_s()  # A machine that was suspended begins none of them.
        self.ready.add([self._ready_job(claim, lease_ttl_us, taken_at) for claim in claims])

    def _ready_job(self, claim: Claim, lease_ttl_us: int, taken_at: float, patience_s: float = PATIENCE_S) -> ReadyJob:
        job = claim.job
        timeout_s = self._timeout_s(job, self._handlers.by_type[job.type])
        # It begins by then, or not at all.
        keep_until = time.monotonic() + patience_s + timeout_s + KEEP_AFTER_DEADLINE_S
        ttl_us = lease_ttl_us if lease_ttl_us < job.visibility_us else job.visibility_us
        slot = self.table.hold(claim.lease, keep_until, ttl_us, begun=False)
        return ReadyJob(job.priority, job.seq, taken_at, slot, claim)

    def start_ready(self, limit: int) -> None:
        """Begin up to so many of those that wait, the most urgent first, where slots are free."""
        line, begin, taken_after = self.ready.line, self.table.begin, awake_or_not_s() - PATIENCE_S
        for _ in range(min(limit, len(line), self.free_slots)):
            waiting = line.pop()
            attempt = self._make(waiting.claim, waiting.slot)
            if waiting.taken_at < taken_after:
                # This process or the machine was stopped for a while; by now the job may be another worker's.
                self._end_unbegun(waiting, Released())
            else:
                begin(waiting.slot)
                self._begin(attempt)

    def _begin(self, attempt: AttemptRun) -> None:
        job = attempt.claim.job
        if job.error is not None or job.attempt_count >= job.max_attempts or job.retry_policy is not None:
            self.turns.began(attempt)
        self.running.add(attempt)
        self._run(attempt)

    def _start_held(self) -> None:
        """Begin those whose turn it is, in the order in which they came; give back what waited too long."""
        now = time.monotonic()
        held, self._held = self._held, []
        for waiting in held:
            job = waiting.claim.job
            turn = self.turns.turn_of(job, self.unwritten, len(self._held))
            if turn is Turn.LATER or self._has_waited_too_long(waiting, now):
                self.turns.forget(job.id)
                self._end_unbegun(waiting, Failed(NOT_ITS_TURN))
            elif turn is Turn.WAIT or self._slots_left <= 0:
                self._held.append(waiting)
            else:
                self.table.begin(waiting.slot)
                self._begin(self._make(waiting.claim, waiting.slot))

    def _has_waited_too_long(self, waiting: ReadyJob, now: float) -> bool:
        return now - waiting.taken_at > HELD_PATIENCE_S or now - self._looked_at > UNWATCHED_S

    def _refill_soon(self) -> None:
        """Slots are free and jobs wait: once for all handlers that end in this turn of the event loop, and not in the
        context of one of them, of which the next handlers would inherit what it has set."""
        self._is_refilling = True
        self._loop.call_soon(self._refill, context=self._context)

    def _refill(self) -> None:
        self._is_refilling = False
        if self._held:
            self._start_held()
        self.start_ready(SLICE)
        if self.ready.line and self.free_slots > 0:
            self._refill_soon()
        self._on_change()

    def _run(self, attempt: AttemptRun) -> None:
        timeout_s = attempt.stops_at - attempt.started
        if timeout_s * 1_000_000 <= PRECISE_TIMEOUT_US:
            attempt.alarm = self._loop.call_later(timeout_s, self._time_out, attempt)
        run = attempt.run(self._services) if self._trace is None else self._traced(attempt, self._trace)
        if self._loop.get_task_factory() is None:
            # What the loop would do. A task that is given no name makes one up, of its number: 3 % of a job.
            task = asyncio.Task(run, loop=self._loop, name=attempt.handler.type)
        else:
            task = self._loop.create_task(run, name=attempt.handler.type)
        attempt.task = task

    def _time_out(self, attempt: AttemptRun) -> None:
        left_s = attempt.context.deadline - time.monotonic()
        if left_s <= ALARM_PRECISION_S:
            attempt.interrupt(HandlerInterruption.TIMEOUT)
        else:  # Its clock was stopped for a while.
            attempt.alarm = self._loop.call_later(left_s, self._time_out, attempt)

    def return_unbegun(self, claim: Claim, lease_ttl_us: int, outcome: Outcome | None = None) -> None:
        """Claimed while the order to stop came in, or its circuit is open: it has not begun and goes back, as it was
        or as the outcome says."""
        self._end_unbegun(self._ready_job(claim, lease_ttl_us, awake_or_not_s()), outcome or Released())

    def release_ready(self) -> None:
        """What waits for a slot or for its turn goes back as it was."""
        held, self._held = self._held, []
        for waiting in (*self.ready.take_all(), *held):
            self.turns.forget(waiting.claim.job.id)
            self._end_unbegun(waiting, Released())

    def refuse_ready(self, refusal_of: Callable[[Claim], Outcome | None]) -> None:
        """Of those that wait for a slot, some may no longer begin."""
        refused = {
            (ready.claim.lease.job_id, ready.claim.lease.claim_version): outcome
            for ready in self.ready
            if (outcome := refusal_of(ready.claim)) is not None
        }
        for waiting in self.ready.withdraw(refused):
            lease = waiting.claim.lease
            self._end_unbegun(waiting, refused[lease.job_id, lease.claim_version])

    def _end_unbegun(self, waiting: ReadyJob, outcome: Outcome) -> None:
        attempt = self._make(waiting.claim, waiting.slot)
        attempt.outcome = outcome
        self._over(attempt)

    def _admit(self, claim: Claim, lease_ttl_us: int) -> AttemptRun:
        attempt = self._make(claim, NO_SLOT)
        ttl_us = min(lease_ttl_us, claim.job.visibility_us)
        attempt.slot = self.table.hold(claim.lease, attempt.stops_at + KEEP_AFTER_DEADLINE_S, ttl_us)
        return attempt

    def _make(self, claim: Claim, slot: int) -> AttemptRun:
        """Its time begins now."""
        handler = self._handlers.by_type[claim.job.type]
        now = time.monotonic()
        stops_at = now + self._timeout_s(claim.job, handler)
        return AttemptRun(claim, handler, Context(claim, self._reporter, stops_at), now, stops_at, slot)

    @staticmethod
    def _timeout_s(job: JobRow, handler: Handler) -> float:
        timeout_us, shorter_us = job.execution_timeout_us, handler.timeout_us
        return (shorter_us if shorter_us and shorter_us < timeout_us else timeout_us) / 1_000_000

    async def _traced(self, attempt: AttemptRun, trace: Trace) -> None:
        try:
            opened = trace(attempt.claim)
        except Exception as error:  # a job does not wait for its span
            log.error("a job runs without a span", extra=job_keys(attempt.claim.job), exc_info=error)
            await attempt.run(self._services)
            return
        with opened as span:
            attempt.span_keys = span.log_keys
            try:
                await attempt.run(self._services)
            finally:
                span.set_outcome(outcome_name(attempt.outcome))

    def _ran(self, attempt: AttemptRun) -> None:
        """The last word of an attempt's task."""
        if type(attempt.outcome) is Failed and attempt.outcome.failure.code == HANDLER_NOT_STARTED:
            self._shortage.begin(len(self.running))
        if attempt in self.running:
            self._over(attempt)
        else:
            self._left.discard(attempt)
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
        if self.turns.suspects or self.turns.fragile:
            self.turns.ended(attempt)
        if attempt.outcome is not None:
            self.ended.append(attempt)
            self.unwritten += 1
        else:
            self.table.release(attempt.slot)
            self._breakers.lost(attempt)
            extra = job_keys(attempt.claim.job, attempt.span_keys)
            log.warning("the lease was lost to another claim; this attempt's work is dropped", extra=extra)
        if not self.ready.line and not self._held:
            self._on_change()
        elif not self._is_refilling:
            self._refill_soon()

    def take_ended(self) -> list[AttemptRun]:
        """What one settle can carry."""
        ended, self.ended = self.ended, []
        if ended:
            self._breakers.record(ended)
        if self._to_write_again:
            ended, self._to_write_again = self._to_write_again + ended, []
        if (count := self._batch_bytes.first_of(ended)) < len(ended):
            ended, self._to_write_again = ended[:count], ended[count:]
            self._on_change()  # The other lane may write the rest.
        return ended

    def give_back_ended(self, ended: list[AttemptRun]) -> None:
        """They could not be written this time."""
        self._batch_bytes.lost(ended)
        self._to_write_again = ended + self._to_write_again

    def dismiss(self, attempts: list[AttemptRun]) -> None:
        """Written: their leases are no longer ours to keep."""
        self._batch_bytes.written()
        self.unwritten -= len(attempts)
        self.table.release_all([attempt.slot for attempt in attempts])
        if self.turns.fragile:
            self.turns.written(attempts)
        if self._held and not self._is_refilling:
            self._refill_soon()

    def give_up(self, attempt: AttemptRun, lease_ttl_us: int) -> None:
        """It cannot be written. Its lease runs out, and until then the keeper must know that it had begun."""
        self.unwritten -= 1
        self.turns.written([attempt])
        self._expiring += 1
        self.table.let_expire(attempt.slot)
        self._loop.call_later(lease_ttl_us / 1_000_000, self._forget, attempt.slot)

    def _forget(self, slot: int) -> None:
        self._expiring -= 1
        self.table.release(slot)

    # --- interruptions --------------------------------------------------------------------------------

    def lose(self, names: Collection[tuple[str, int]]) -> None:
        """Those with these job_ids and claim_versions. A busy worker is told of hundreds at once: of all that it has
        settled since the question was asked."""
        for attempt in self._find(names):
            if not attempt.context.is_completing:
                attempt.interrupt(HandlerInterruption.LOST_LEASE)
        for waiting in self._withdraw(names):
            self.table.release(waiting.slot)

    def cancel(self, names: Collection[tuple[str, int]]) -> None:
        for attempt in self._find(names):
            attempt.interrupt(HandlerInterruption.CANCEL)
            if self._processes is not None and attempt.handler.mode == "process":
                self._processes.ask_to_stop(attempt.claim)
        for waiting in self._withdraw(names):
            self._end_unbegun(waiting, Cancelled())

    def _withdraw(self, names: Collection[tuple[str, int]]) -> list[ReadyJob]:
        """Take those out of what waits."""
        found = [waiting for waiting in self._held if _name_of(waiting) in names]
        for waiting in found:
            self._held.remove(waiting)
            self.turns.forget(waiting.claim.job.id)
        return found + self.ready.withdraw(names)

    def release_all(self) -> None:
        for attempt in tuple(self.running):
            attempt.interrupt(HandlerInterruption.SHUTDOWN)

    def _find(self, names: Collection[tuple[str, int]]) -> list[AttemptRun]:
        return [a for a in self.running if (a.claim.lease.job_id, a.claim.lease.claim_version) in names]

    def leases(self) -> list[Lease]:
        """Of what runs and of what waits for a slot or for its turn."""
        waiting = [ready.claim.lease for ready in (*self.ready, *self._held)]
        return [attempt.claim.lease for attempt in self.running] + waiting

    def claims_held(self) -> set[tuple[str, int]]:
        """Of all that this worker has not yet done with, begun or not, by job_id and claim_version."""
        return {(entry.lease.job_id, entry.lease.claim_version) for entry in self.table.entries()}

    def check_timeouts(self) -> None:
        """Deadlines and uncancellable handlers, in one pass for all: most jobs end long before theirs."""
        now = time.monotonic()
        for attempt in tuple(self.running):
            if attempt.context.has_waited:
                self.table.keep(attempt.slot, attempt.context.deadline + KEEP_AFTER_DEADLINE_S)
            if now >= attempt.context.deadline:
                attempt.interrupt(HandlerInterruption.TIMEOUT)
            if attempt.interruption is not None and now >= attempt.interrupted_at + UNCANCELLABLE_S:
                self._interrupt_again(attempt)
        for waiting in self.ready.take_older_than(awake_or_not_s() - PATIENCE_S):
            self._end_unbegun(waiting, Released())
        self._check_lingering()
        if not self.turns.is_quiet or self._held:
            self.turns.look()
            self._start_held()
            if not self._is_refilling:
                self._refill_soon()
        self._looked_at = now

    def _check_lingering(self) -> None:
        """Say it once when handlers that do not stop have taken every slot, and once when one is free again."""
        held = self._threads.lingering + len(self._uncancellable)
        if (held >= self._concurrency) is self._no_slot_left:
            return
        self._no_slot_left = not self._no_slot_left
        if self._no_slot_left:
            message = "no slot is left: %d handlers were asked to stop and still run; nothing is claimed until one ends"
            log.error(message, held)
        else:
            log.warning("a slot is free again: %d handlers that were asked to stop still run", held)

    def _interrupt_again(self, attempt: AttemptRun) -> None:
        """It was asked to stop and does not: kill a process, leave a coroutine to itself; a thread may go on if the
        request was only a cancel."""
        if attempt.handler.mode == "process":
            attempt.cancel()
        elif attempt.handler.mode == "async":
            attempt.outcome = attempt.interrupted()
            self._uncancellable.add(attempt)
            self._left.add(attempt)
            extra = {**job_keys(attempt.claim.job, attempt.span_keys), "error_code": str(attempt.interruption)}
            log.warning("a handler does not let itself be cancelled; its job is settled without it", extra=extra)
            self._over(attempt)
        elif attempt.interruption is HandlerInterruption.SHUTDOWN:
            self._leave_behind(attempt)

    def _leave_behind(self, attempt: AttemptRun) -> None:
        """A thread that does not stop when the worker does. To give its job back would let it run twice at once, so
        nothing is written: its lease runs out by itself, some time after this process has ended."""
        extra = job_keys(attempt.claim.job, attempt.span_keys)
        log.warning("a thread still runs at shutdown; its job is free again when its lease runs out", extra=extra)
        attempt.context.close()
        self.running.discard(attempt)
        self.turns.ended(attempt)
        self._left.add(attempt)
        self._breakers.lost(attempt)
        self._reporter.forget(attempt.claim)
        self._on_change()

    async def close(self) -> None:
        """End what is left: nothing of it will be written any more."""
        tasks = [attempt.task for attempt in self.running | self._left if attempt.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            _, uncancellable = await asyncio.wait(tasks, timeout=1.0)
            for task in uncancellable:
                _tear_down(task)
        if self._processes is not None:
            await self._processes.close()
        self._threads.close()

    async def _run_in_process(self, handler: Handler, claim: Claim, context: Context) -> msgspec.Raw:
        """The first job of a `process=True` handler loads what children need; most workers never have one."""
        if self._processes is None:
            from euterpe.worker.execution.processes import Processes

            keeps_lines = self._reporter.log_lines > 0
            self._processes = Processes(self._reporter, self._result_limit, keeps_lines=keeps_lines)
        return await self._processes.run(handler, claim, context)


def _name_of(waiting: ReadyJob) -> tuple[str, int]:
    return waiting.claim.lease.job_id, waiting.claim.lease.claim_version


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
