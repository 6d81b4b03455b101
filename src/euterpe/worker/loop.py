"""The loop: claim for the free slots, run, settle what is over, and do both in one turn when there is both.

A few lanes take turns with the store, so that handlers run while the database works. A slot is free as soon as its
handler ends; what is over and not yet written is bounded, its lease is kept, it waits while the database is away, and
it is settled when the database is back.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from euterpe.model.errors import StaleLease, StoreUnavailable
from euterpe.model.failure import Category, Failure
from euterpe.model.job import Claim
from euterpe.model.outcome import Failed, Released
from euterpe.model.state import State
from euterpe.model.submission import RESULT_LIMIT
from euterpe.ports import LEASE_TTL_US, Advance, ClaimRequest, Claims, Finished, Telemetry, Trace, Verdict, Wakeups
from euterpe.worker.absence import Absence
from euterpe.worker.attempt import Attempt, Interruption, Means
from euterpe.worker.context import Context
from euterpe.worker.desk import MakeSubmission, Spawn, WorkerDesk
from euterpe.worker.handlers import Handlers
from euterpe.worker.keeper import LeaseKeeper, LoopKeeper, Reports
from euterpe.worker.processes import Processes
from euterpe.worker.telemetry import Silent, outcome_name, tell_claims, tell_settled
from euterpe.worker.threads import Threads

log = logging.getLogger("euterpe.worker")

LANES: Final = 2
WATCH_S: Final = 0.5
PRECISE_TIMEOUT_US: Final = 10_000_000
KEEP_AFTER_DEADLINE_S: Final = 30.0
STUBBORN_S: Final = 5.0
"""How long an interrupted handler may take to tidy up."""
LEAVE_S: Final = 10.0
"""How long a worker that gave everything back tries to write that down."""
SHORT_LEASE_US: Final = 10_000_000
"""A lease below this may run out while the keeper's process starts."""


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a worker behaves. `batch` bounds one claim; a slot is never claimed for before it is free."""

    worker_id: str
    queues: tuple[str, ...] = ("default",)
    concurrency: int = 100
    batch: int = 500
    lease_ttl_us: int = LEASE_TTL_US
    poll_s: float = 2.0
    grace_s: float = 30.0
    result_limit: int = RESULT_LIMIT


class Worker:
    """Runs the handlers it knows on jobs of its queues until it is told to stop."""

    def __init__(
        self,
        claims: Claims,
        handlers: Handlers,
        settings: WorkerSettings,
        *,
        wakeups: Wakeups,
        keeper_url: str | None = None,
        spawn: Spawn | None = None,
        make_submission: MakeSubmission | None = None,
        telemetry: Telemetry | None = None,
        settled: Callable[[str, Verdict], None] | None = None,
        trace: Trace | None = None,
    ) -> None:
        self._claims = claims
        self._handlers = handlers
        self._settings = settings
        self._wakeups = wakeups
        self._telemetry = telemetry or Silent()
        self._settled = settled
        self._trace = trace
        self._loop = asyncio.get_running_loop()
        self._desk = WorkerDesk(self._loop, self._advance, spawn, make_submission)
        self._threads = Threads(self._wake)
        self._processes = Processes(self._desk, settings.result_limit)
        self._means = Means(
            self._threads.call, self._processes.run, self._desk.has_news, self._desk.delivered, settings.result_limit
        )
        reports = Reports(self._lose, self._cancel)
        slots = 3 * settings.concurrency
        self._keeper: LeaseKeeper | LoopKeeper = (
            LoopKeeper(claims, slots, settings.lease_ttl_us, reports)
            if keeper_url is None
            else LeaseKeeper(keeper_url, slots, settings.lease_ttl_us, reports)
        )
        self._running: set[Attempt] = set()
        self._stubborn: set[Attempt] = set()
        self._ended: list[Attempt] = []
        self._unwritten = 0
        self._reserved = 0
        self._hungry = True
        self._absence = Absence()
        self._stopping = False
        self._leave_at: float | None = None
        self._grace: asyncio.TimerHandle | None = None
        self._news: list[asyncio.Event] = []
        self._tasks: set[asyncio.Task[None]] = set()

    # --- life ---------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Work until `stop`; then let running work finish for the grace time and give the rest back.

        Cancelled, it gives everything back at once before it ends."""
        if self._settings.lease_ttl_us < SHORT_LEASE_US:
            await self._keeper.ensure_running()
            await self._keeper.wait_until_ready()
        unsubscribe = self._wakeups.subscribe(self._wake, self._settings.queues)
        watcher = self._loop.create_task(self._watch())
        lanes = [self._loop.create_task(self._lane()) for _ in range(LANES)]
        try:
            await asyncio.wait(lanes, return_when=asyncio.FIRST_EXCEPTION)
        except asyncio.CancelledError:
            self.stop_at_once()
            await asyncio.wait(lanes, timeout=LEAVE_S)
            raise
        finally:
            unsubscribe()
            if self._grace is not None:
                self._grace.cancel()
            await self._leave([watcher, *lanes])
        for lane in lanes:
            if not lane.cancelled() and (error := lane.exception()) is not None:
                raise error

    async def _leave(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        leftover = [*tasks, *self._tasks]
        for task in leftover:
            task.cancel()
        _, deaf = await asyncio.wait(leftover, timeout=1.0)
        for task in deaf:
            _tear_down(task)
        await self._processes.close()
        self._threads.close()
        await self._keeper.close()

    def stop(self) -> None:
        """Claim nothing more; a second call gives back at once what still runs."""
        if self._stopping:
            self.stop_at_once()
        else:
            self._stopping = True
            log.info("stopping: %d running jobs may finish", len(self._running))
            self._grace = self._loop.call_later(self._settings.grace_s, self._release_all)
        self._wake()

    def stop_at_once(self) -> None:
        """Claim nothing more and give back what runs."""
        self._stopping = True
        self._release_all()

    def _release_all(self) -> None:
        if self._leave_at is None:
            self._leave_at = time.monotonic() + LEAVE_S
        if self._running:
            log.warning("%d unfinished jobs are given back", len(self._running))
        for attempt in tuple(self._running):
            attempt.interrupt(Interruption.SHUTDOWN)
        self._wake()

    # --- turns --------------------------------------------------------------------------------------

    async def _lane(self) -> None:
        news = asyncio.Event()
        self._news.append(news)
        while True:
            ended, self._ended = self._ended, []
            request = self._request()
            if not ended and request is None:
                if self._stopping and not self._running and not self._reserved and not self._unwritten:
                    self._wake()
                    return
                await self._wait(news)
                continue
            await self._turn(ended, request)

    def _request(self) -> ClaimRequest | None:
        """Claim for the slots that are free, in halves, so that one lane's jobs run while the other claims."""
        if self._stopping or not self._hungry:
            return None
        settings = self._settings
        taken = len(self._running) + self._reserved
        free = settings.concurrency - taken - self._threads.lingering - len(self._stubborn)
        room = 3 * settings.concurrency - taken - self._unwritten
        limit = min(free, room, -(-settings.concurrency // LANES), settings.batch)
        if limit <= 0:
            return None
        self._reserved += limit
        self._hungry = False
        return ClaimRequest(
            worker_id=settings.worker_id,
            limit=limit,
            queues=settings.queues,
            types=self._handlers.types,
            lease_ttl_us=settings.lease_ttl_us,
        )

    async def _turn(self, ended: list[Attempt], request: ClaimRequest | None) -> None:
        finished = [a.finished() for a in ended]
        try:
            verdicts, claims = await self._claims.turn(finished, request)
        except Exception as error:  # the worker lives on, whatever the store meets
            self._hungry = True
            if request is not None:
                self._reserved -= request.limit
            if isinstance(error, StoreUnavailable):
                self._ended = ended + self._ended
                await self._sit_out(error)
            else:
                log.error("the store refused a turn", exc_info=error)
                await self._settle_apart(ended)
            return
        if self._absence.is_away:
            self._absence.over(len(finished))
        if request is not None:
            self._reserved -= request.limit
            if claims:
                await self._begin(claims)
            if len(claims) == request.limit:
                self._hungry = True
        self._written(ended, finished, verdicts)

    async def _begin(self, claims: list[Claim]) -> None:
        tell_claims(self._telemetry, claims)
        await self._keeper.ensure_running()
        for claim in claims:
            self._start(claim)

    def _written(self, ended: list[Attempt], finished: list[Finished], verdicts: Sequence[Verdict]) -> None:
        self._unwritten -= len(ended)
        for attempt in ended:
            self._keeper.table.release(attempt.slot)
        if stale := tell_settled(self._telemetry, finished, verdicts):
            log.warning("%d late writes bounced: those jobs belong to other claims now", stale)
        for f, verdict in zip(finished, verdicts, strict=True):
            if not verdict.accepted:
                continue
            if self._settled is not None:
                self._settled(f.claim.job.id, verdict)
            if f.claim.job.has_dependents or verdict.state is State.SCHEDULED:
                self._hungry = True

    async def _settle_apart(self, ended: list[Attempt]) -> None:
        """One of a batch cannot be written: find it, so that the others are, and end its job with that error."""
        for attempt in ended:
            for _ in range(2):
                try:
                    finished = [attempt.finished()]
                    self._written([attempt], finished, await self._claims.settle(finished))
                    break
                except StoreUnavailable:
                    self._ended.append(attempt)
                    break
                except Exception as error:  # see above
                    log.error("an outcome cannot be written", extra={"job_id": attempt.claim.job.id}, exc_info=error)
                    reason = f"the outcome cannot be written: {type(error).__name__}"
                    attempt.outcome = Failed(Failure(Category.PERMANENT, reason, "unwritable_outcome"))
            else:
                self._written([attempt], [], [])  # Its lease will run out; a sweep ends it.
        await asyncio.sleep(WATCH_S)

    async def _sit_out(self, error: StoreUnavailable) -> None:
        pause_s = self._absence.begin_or_go_on(error, self._unwritten)
        if self._leave_at is not None and time.monotonic() > self._leave_at:
            log.error("%d ended jobs could not be settled; they will run again", len(self._ended))
            self._unwritten -= len(self._ended)
            self._ended.clear()
        else:
            await asyncio.sleep(pause_s)
        self._wake()

    async def _wait(self, news: asyncio.Event) -> None:
        """Until something happens, or a jittered while: polling is the fallback for every kind of wake-up."""
        alarm = self._loop.call_later(self._settings.poll_s * random.uniform(0.75, 1.25), self._wake)
        try:
            await news.wait()
            news.clear()
        finally:
            alarm.cancel()

    def _wake(self) -> None:
        self._hungry = True
        for news in self._news:
            news.set()

    # --- attempts -----------------------------------------------------------------------------------

    def _start(self, claim: Claim) -> None:
        job = claim.job
        handler = self._handlers[job.type]
        timeout_us = min(job.execution_timeout_us, handler.timeout_us or job.execution_timeout_us)
        now = time.monotonic()
        stops_at = now + timeout_us / 1_000_000
        ttl_us = min(self._settings.lease_ttl_us, job.visibility_us)
        slot = self._keeper.table.hold(claim.lease, stops_at + KEEP_AFTER_DEADLINE_S, ttl_us)
        attempt = Attempt(claim, handler, Context(claim, self._desk, stops_at), now, stops_at, slot)
        self._running.add(attempt)
        if self._stopping:
            # Claimed while the order to stop came in: it has not begun and goes back as it was.
            attempt.outcome = Released()
            self._over(attempt)
            return
        if timeout_us <= PRECISE_TIMEOUT_US:
            attempt.alarm = self._loop.call_later(timeout_us / 1_000_000, attempt.interrupt, Interruption.TIMEOUT)
        task = self._loop.create_task(self._execute(attempt))
        attempt.attach(task)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _execute(self, attempt: Attempt) -> None:
        if self._trace is None:
            await attempt.run(self._means)
        else:
            with self._trace(attempt.claim) as span:
                await attempt.run(self._means)
                span.set_outcome(outcome_name(attempt.outcome))
        if attempt in self._running:
            self._over(attempt)
        else:
            self._stubborn.discard(attempt)
            self._wake()

    def _over(self, attempt: Attempt) -> None:
        """The handler is through, or given up on: its slot is free, its outcome waits to be written."""
        self._running.discard(attempt)
        attempt.took_s = time.monotonic() - attempt.started
        attempt.context.close()
        self._desk.forget(attempt.claim)
        if attempt.alarm is not None:
            attempt.alarm.cancel()
        if attempt.outcome is not None:
            self._ended.append(attempt)
            self._unwritten += 1
        else:
            self._keeper.table.release(attempt.slot)
            job_id = attempt.claim.job.id
            log.warning("the lease was lost to another claim; this attempt's work is dropped", extra={"job_id": job_id})
        self._wake()

    def _find(self, job_id: str, claim_version: int) -> Attempt | None:
        for attempt in self._running:
            lease = attempt.claim.lease
            if lease.claim_version == claim_version and lease.job_id == job_id:
                return attempt
        return None

    def _lose(self, job_id: str, claim_version: int) -> None:
        if (attempt := self._find(job_id, claim_version)) is not None:
            attempt.interrupt(Interruption.LOST_LEASE)

    def _cancel(self, job_id: str, claim_version: int) -> None:
        if (attempt := self._find(job_id, claim_version)) is not None:
            attempt.interrupt(Interruption.CANCEL)
            if attempt.handler.mode == "process":
                self._processes.ask_to_stop(attempt.claim)

    async def _watch(self) -> None:
        """Deadlines and the deaf, in one pass for all: most jobs end long before theirs."""
        while True:
            await asyncio.sleep(WATCH_S)
            now = time.monotonic()
            for attempt in tuple(self._running):
                if now >= attempt.stops_at:
                    attempt.interrupt(Interruption.TIMEOUT)
                if attempt.interruption is not None and now >= attempt.interrupted_at + STUBBORN_S:
                    self._insist(attempt)
            if self._running or self._unwritten:
                await self._keeper.ensure_running()

    def _insist(self, attempt: Attempt) -> None:
        """It was asked to stop and does not: kill a process, leave a coroutine to itself; a thread may go on if the
        request was only a cancel."""
        if attempt.handler.mode == "process":
            attempt.cancel()
        elif attempt.handler.mode == "async":
            attempt.outcome = attempt.interrupted()
            self._stubborn.add(attempt)
            extra = {"job_id": attempt.claim.job.id, "error_code": str(attempt.interruption)}
            log.warning("a handler does not let itself be cancelled; its job is settled without it", extra=extra)
            self._over(attempt)

    async def _advance(self, news: Advance) -> None:
        """Write news. While the database is away it waits: a handler's work is worth more than its punctuality."""
        while True:
            try:
                (alive,) = await self._claims.advance([news])
                break
            except StoreUnavailable as error:
                await asyncio.sleep(self._absence.begin_or_go_on(error, self._unwritten))
        if not alive:
            lease = news.claim.lease
            self._lose(lease.job_id, lease.claim_version)
            raise StaleLease(lease.job_id, lease.claim_version)


def _tear_down(task: asyncio.Task[None]) -> None:
    """End a coroutine that swallows every cancellation: the event loop would wait for it for ever."""
    coroutine = task.get_coro()
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    with suppress(RuntimeError):  # it ignores even this
        if coroutine is not None:
            coroutine.close()
    task.cancel()
