"""The loop: claim for the free slots and a moment ahead, run, settle what is over, settle and claim in one exchange.

A few lanes take turns with the store, so that handlers run while the database works. What is over and not yet
written is bounded, waits while the database is away, and is settled when the database is back.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections.abc import Callable, Collection, Sequence
from typing import Final

from euterpe.model.claims.exchange import COMPLETED, ClaimRequest, ProgressUpdate, Report, SettleResult
from euterpe.model.claims.outcome import Success
from euterpe.model.claims.presence import WorkerFacts
from euterpe.model.errors import ServerNotReady, StaleLease, StoreUnavailable
from euterpe.model.failures.circuit_breaker import BreakerPolicy
from euterpe.model.job import Claim
from euterpe.model.state import State
from euterpe.observe.attempt_lines import begin_keeping, end_keeping
from euterpe.ports import CallerCompletions, Claims, Telemetry, Trace, Wakeups
from euterpe.runtime.outage import Outage
from euterpe.runtime.shutdown import CLOSE_S, WRITE_S, ShutdownDeadline
from euterpe.worker.attempt import AttemptRun
from euterpe.worker.attempts import SLICE, RunningAttempts, leases_of
from euterpe.worker.cancel_watch import CancelWatch
from euterpe.worker.claiming.breaker import CircuitBreakers
from euterpe.worker.claiming.circuits import SharedCircuits
from euterpe.worker.claiming.claim_plan import LANES, ClaimPlan
from euterpe.worker.claiming.lost_claims import LostClaims, ReleaseUnbegun
from euterpe.worker.claiming.prefetch import Pace
from euterpe.worker.context import NO_STATE
from euterpe.worker.handling.handlers import Handlers
from euterpe.worker.handling.hooks import AttemptHooks
from euterpe.worker.heartbeat.keeper import KeeperProcess, LeaseKeeper, LoopKeeper, Reports
from euterpe.worker.heartbeat.lease_table import SHORT_LEASE_US
from euterpe.worker.reporting.completions import HandlerCompletions
from euterpe.worker.reporting.job_log import report_end, report_starts
from euterpe.worker.reporting.reporter import Charge, MakeSubmission, Spawn, WorkerReporter
from euterpe.worker.reporting.single_settles import SingleSettles
from euterpe.worker.reporting.telemetry import NoTelemetry, record_claims, record_completed, record_settled
from euterpe.worker.settings import WorkerSettings

log = logging.getLogger("euterpe.worker")

WATCH_S: Final = 0.5
OTHER_LANE_S: Final = 0.2
"""So long a lane may wait for another that is under way; one that takes longer is held up by something."""


class WorkerLoop:
    """Runs the handlers it knows on jobs of its queues until it is told to stop. Made inside a running event loop."""

    def __init__(
        self,
        claims: Claims,
        handlers: Handlers,
        settings: WorkerSettings,
        *,
        wakeups: Wakeups,
        keeper: KeeperProcess | None = None,
        spawn: Spawn | None = None,
        make_submission: MakeSubmission | None = None,
        telemetry: Telemetry | None = None,
        settled: Callable[[Sequence[str], SettleResult], None] | None = None,
        trace: Trace | None = None,
        shutdown: ShutdownDeadline | None = None,
        circuits: SharedCircuits | None = None,
        completions: CallerCompletions | None = None,
        hooks: AttemptHooks | None = None,
        charge: Charge | None = None,
        pace: Pace | None = None,
        release_unbegun: ReleaseUnbegun | None = None,
    ) -> None:
        joined = (
            None if completions is None else HandlerCompletions(claims, completions, handlers, settings.result_limit)
        )
        self._claims = joined or claims
        self._handlers = handlers
        self._settings = settings
        self._wakeups = wakeups
        self._telemetry = telemetry or NoTelemetry()
        self._settled = settled
        self._shutdown = shutdown or ShutdownDeadline()
        self._loop = asyncio.get_running_loop()
        self._breakers = CircuitBreakers(
            circuits or SharedCircuits(settings.breaker or BreakerPolicy()),
            () if settings.breaker is None else settings.queues,
            handlers,
            self._telemetry,
        )
        state, around = (NO_STATE, None) if hooks is None else (hooks.state, hooks.around)
        reporter = WorkerReporter(
            self._loop, self._write_progress, spawn, make_submission, joined, state, charge, settings.log_lines
        )
        self._attempts = RunningAttempts(
            handlers, reporter, settings.concurrency, settings.result_limit, self._wake, self._breakers, trace, around
        )
        reports = Reports(self._attempts.lose, self._attempts.cancel)
        slots = leases_of(settings.concurrency)
        self._keeper: LeaseKeeper | LoopKeeper = (
            LoopKeeper(claims, slots, settings.lease_ttl_us, reports, settings.worker_id)
            if keeper is None
            else LeaseKeeper(keeper, claims, slots, settings.lease_ttl_us, reports, settings.worker_id)
        )
        self._attempts.hold_leases_in(self._keeper.table)
        lease_s = settings.lease_ttl_us / 1e6
        self._lost_claims = LostClaims(release_unbegun, settings.worker_id, self._attempts.claims_held, lease_s)
        self._cancels = CancelWatch(claims, self._attempts.leases, reports)
        whole = _largest_request(settings)
        self._plan = ClaimPlan(whole, settings, handlers, self._attempts, self._breakers, pace or Pace())
        self._single_settles = SingleSettles(
            self._claims, self._after_settle, lambda attempt: self._attempts.give_up(attempt, settings.lease_ttl_us)
        )
        self._should_claim = True
        self._outage = Outage(log, "the worker")
        self._stopping = False
        self._stop_asked = asyncio.Event()
        self._grace: asyncio.TimerHandle | None = None
        self._force_exit_timer: asyncio.TimerHandle | None = None
        self._lanes: list[asyncio.Task[None]] = []
        self._asleep: list[asyncio.Event] = []
        self._under_way_since: list[float] = []
        """When the exchanges that are under way began, the oldest first."""
        self._locked: set[asyncio.Task[None]] = set()

    # --- life ---------------------------------------------------------------------------------------

    @property
    def running(self) -> Collection[AttemptRun]:
        """The attempts whose handlers are at work."""
        return self._attempts.running

    @property
    def is_stopping(self) -> bool:
        return self._stopping

    @property
    def breaker_changes(self) -> int:
        return self._breakers.changes

    def facts(self) -> WorkerFacts:
        """What others may know of this worker."""
        return WorkerFacts(
            queues=self._settings.queues,
            types=self._handlers.types,
            slots=self._settings.concurrency,
            running=len(self._attempts.running),
            stopping=self._stopping,
            breakers=self._breakers.tripped(),
        )

    async def run(self) -> None:
        """Work until `stop`; then let running work finish for the grace time and give the rest back.

        Cancelled, it gives everything back at once before it ends."""
        if self._settings.log_lines:
            begin_keeping()
        try:
            if self._settings.lease_ttl_us < SHORT_LEASE_US:
                await self._until_leases_are_kept()
            await self._run_lanes()
        finally:
            if self._settings.log_lines:
                end_keeping()
            await self._keeper.close(self._shutdown)

    async def _until_leases_are_kept(self) -> None:
        """Leases that are shorter than a keeper takes to start need it first. An order to stop is not kept waiting."""

        async def start_keeper() -> None:
            await self._keeper.ensure_running()
            await self._keeper.wait_until_ready()

        waits = [self._loop.create_task(wait) for wait in (start_keeper(), self._stop_asked.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _run_lanes(self) -> None:
        unsubscribe = self._wakeups.subscribe(self._on_wakeup, self._settings.queues)
        self._cancels.begin(self._wakeups)
        watcher = self._loop.create_task(self._watch())
        lanes = self._lanes = [self._loop.create_task(self._lane()) for _ in range(LANES)]
        try:
            await asyncio.wait(lanes, return_when=asyncio.FIRST_EXCEPTION)
        except asyncio.CancelledError:
            self.stop_at_once()
            await asyncio.wait(lanes, timeout=CLOSE_S)
            raise
        finally:
            unsubscribe()
            self._cancels.end()
            for timer in (self._grace, self._force_exit_timer):
                if timer is not None:
                    timer.cancel()
            tasks = (watcher, *lanes, *self._locked)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await self._attempts.close()
            self._breakers.close()
        for lane in lanes:
            if not lane.cancelled() and (error := lane.exception()) is not None:
                raise error

    def stop(self) -> None:
        """Claim nothing more; a second call gives back at once what still runs."""
        if self._stopping:
            self.stop_at_once()
        else:
            self._stopping = True
            log.info("shutting down: %d running jobs may finish", len(self._attempts.running))
            self._shutdown.set_in(self._settings.grace_s + CLOSE_S)
            self._attempts.release_ready()
            self._grace = self._loop.call_later(self._settings.grace_s, self.stop_at_once)
        self._stop_asked.set()
        self._wake()

    def stop_at_once(self) -> None:
        """Claim nothing more and give back what runs."""
        self._stopping = True
        self._stop_asked.set()
        if self._force_exit_timer is None:
            self._shutdown.set_in(CLOSE_S)
            self._force_exit_timer = self._loop.call_later(WRITE_S, self._force_exit)
        self._attempts.release_ready()
        if self._attempts.running:
            log.warning("shutting down: %d unfinished jobs are given back", len(self._attempts.running))
            self._attempts.release_all()
        self._wake()

    def _force_exit(self) -> None:
        """A statement that is never answered does not keep the process. Handlers that do not stop have had their own
        time, and may still be having it."""
        if self._attempts.running:
            self._shutdown.set_in(CLOSE_S)
            self._force_exit_timer = self._loop.call_later(WATCH_S, self._force_exit)
            return
        if self._attempts.unwritten:
            log.error(
                "%d ended jobs could not be settled in time; they run again when their leases expire",
                self._attempts.unwritten,
            )
        for lane in self._lanes:
            lane.cancel()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(WATCH_S)
            try:
                self._attempts.check_timeouts()
                if self._attempts.running or self._attempts.unwritten or self._attempts.ready:
                    await self._keeper.ensure_running()
            except Exception as error:  # without this watch there are no timeouts
                log.error("a look at the running jobs failed", exc_info=error)

    # --- exchanges --------------------------------------------------------------------------------------

    async def _lane(self) -> None:
        attempts = self._attempts
        while True:
            if attempts.ready:
                attempts.start_ready(SLICE)
            is_claiming = attempts.reserved + attempts.reserved_ahead > 0
            may_look = not is_claiming and not self._lost_claims.is_looking
            if may_look and self._lost_claims.is_due(stopping=self._stopping):
                await self._look_for_lost_claims()
                continue
            if self._waits_for_other_lane():
                await self._wait(OTHER_LANE_S)
                continue
            # What an order to stop gives back must not be taken again by a claim of ours that is still under way.
            ended = [] if self._stopping and is_claiming else attempts.take_ended()
            request = self._request(is_settling=bool(ended))
            if ended or request is not None:
                await self._exchange(ended, request)
            elif self._stopping and not (attempts.running or attempts.unwritten or is_claiming):
                self._wake()
                return
            else:
                await self._wait()

    def _waits_for_other_lane(self) -> bool:
        """It takes what has ended by then along."""
        since = self._under_way_since
        if self._stopping or not since or self._loop.time() - since[0] >= OTHER_LANE_S:
            return False
        return len(since) >= self._plan.lanes

    def _request(self, *, is_settling: bool) -> ClaimRequest | None:
        lost_claims = self._lost_claims
        if self._stopping or not self._should_claim or lost_claims.is_looking or lost_claims.is_due():
            return None
        request = self._plan.next_request(self._handlers.types, is_settling=is_settling)
        if request is not None:
            self._should_claim = self._breakers.is_probe(request) or self._plan.leaves_others(request)
        return request

    async def _exchange(self, ended: list[AttemptRun], request: ClaimRequest | None) -> None:
        finished = [attempt.finished() for attempt in ended]
        self._plan.attempts_ended(ended)
        began_at = self._loop.time()
        try:
            verdicts, claims = await self._settle_and_claim(finished, request)
        except Exception as error:  # noqa: BLE001  # the worker lives on, whatever the store meets
            self._should_claim = True
            if request is not None:
                self._breakers.failed_to_claim(request)
                self._lost_claims.suspect()
                if not isinstance(error, ServerNotReady):
                    self._plan.got_no_answer(request)
            self._give_back(request)
            if isinstance(error, StoreUnavailable) or not ended:
                self._attempts.give_back_ended(ended)
                await self._back_off(error)
            else:
                await self._settle_one_by_one(ended, error)
            return
        self._outage.over()
        if request is not None:
            self._plan.answered(request, len(claims), self._loop.time() - began_at)
            if claims:
                await self._keeper.ensure_running()
            allowed, refused = self._breakers.claimed(request, claims)
            if log.isEnabledFor(logging.DEBUG):
                report_starts(allowed)
            for claim, outcome in refused:
                self._attempts.return_unbegun(claim, self._settings.lease_ttl_us, outcome)
            await self._start(allowed, request)
            if claims:
                record_claims(self._telemetry, claims)
            if self._plan.brought(request, claims):
                self._should_claim = True
        self._after_settle(ended, finished, verdicts)

    async def _settle_and_claim(
        self, finished: list[Report], request: ClaimRequest | None
    ) -> tuple[list[SettleResult], list[Claim]]:
        began_at = self._loop.time()
        self._under_way_since.append(began_at)
        try:
            return await self._claims.exchange(finished, request)
        finally:
            self._under_way_since.remove(began_at)

    async def _look_for_lost_claims(self) -> None:
        try:
            async with asyncio.timeout(WRITE_S if self._stopping else None):
                await self._lost_claims.look()
        except Exception as error:  # noqa: BLE001  # the worker lives on, whatever the store meets
            if self._stopping:
                self._lost_claims.forget()  # Their leases run out.
            else:
                await self._back_off(error)
        else:
            self._wake()

    def _give_back(self, request: ClaimRequest | None) -> None:
        """The slots that a claim was to fill are filled, or free again."""
        if request is not None:
            self._plan.give_back(request)
            if self._stopping:
                self._wake()

    async def _start(self, claims: Sequence[Claim], request: ClaimRequest) -> None:
        """A slice at a time: between them the loop serves the other lane, and the database is not left waiting."""
        attempts, lease_ttl_us = self._attempts, self._settings.lease_ttl_us
        now, ahead = self._plan.begin_at_once(claims, request)
        for at in range(0, len(now), SLICE):
            if at:
                await asyncio.sleep(0)
            begin = attempts.return_unbegun if self._stopping else attempts.start
            for claim in now[at : at + SLICE]:
                begin(claim, lease_ttl_us)
        if len(claims) < request.limit:
            await asyncio.sleep(0)  # A worker that has time lets its handlers begin before it asks for more.
        if self._stopping:
            for claim in ahead:
                attempts.return_unbegun(claim, lease_ttl_us)
        elif ahead:
            attempts.put_ready(ahead, lease_ttl_us)
        self._give_back(request)
        await self._let_begin_what_waits()

    async def _let_begin_what_waits(self) -> None:
        """What ends at once is over before the next exchange of this lane, and settled by it. A lane that is under way
        keeps its share of the slots meanwhile, and those that began first have to end before any that waits begins."""
        attempts = self._attempts
        slots = min(SLICE, -(-self._settings.concurrency // LANES))
        turns = 1 + -(-len(attempts.ready) // slots) if attempts.ready else 0
        for _ in range(turns):
            attempts.start_ready(SLICE)
            await asyncio.sleep(0)

    def _after_settle(self, ended: list[AttemptRun], finished: list[Report], verdicts: Sequence[SettleResult]) -> None:
        tell_all = log.isEnabledFor(logging.DEBUG)
        if verdicts.count(COMPLETED) == len(verdicts) and not tell_all:
            self._all_completed(ended, finished)
            return
        if any(verdict.locked for verdict in verdicts):
            self._settle_locked([a for a, verdict in zip(ended, verdicts, strict=True) if verdict.locked])
            written = [i for i, verdict in enumerate(verdicts) if not verdict.locked]
            ended = [ended[i] for i in written]
            finished, verdicts = [finished[i] for i in written], [verdicts[i] for i in written]
        self._attempts.dismiss(ended)
        if stale := record_settled(self._telemetry, finished, verdicts):
            log.warning("%d late writes bounced: those jobs belong to other claims now", stale)
        for attempt, f, verdict in zip(ended, finished, verdicts, strict=True):
            if not verdict.accepted:
                continue
            if tell_all or type(f.outcome) is not Success:
                report_end(f, verdict, attempt.span_keys)
            if self._settled is not None:
                self._settled([f.claim.job.id], verdict)
            if f.claim.job.has_dependents or verdict.state is State.SCHEDULED:
                self._should_claim = True

    def _all_completed(self, ended: list[AttemptRun], finished: list[Report]) -> None:
        self._attempts.dismiss(ended)
        record_completed(self._telemetry, finished)
        if self._settled is not None:
            self._settled([f.claim.job.id for f in finished], COMPLETED)
        if any(f.claim.job.has_dependents for f in finished):
            self._should_claim = True

    def _settle_locked(self, locked: list[AttemptRun]) -> None:
        """Somebody holds their rows. They are settled apart from the exchanges, which must not wait for that."""
        task = self._loop.create_task(self._settle_when_free(locked))
        self._locked.add(task)
        task.add_done_callback(self._locked.discard)

    async def _settle_when_free(self, locked: list[AttemptRun]) -> None:
        finished = [attempt.finished() for attempt in locked]
        try:
            verdicts = await self._claims.settle(finished)
        except Exception:  # noqa: BLE001  # the next exchange tells what kind of error it is
            log.info("locked jobs could not be settled yet")
            self._attempts.give_back_ended(locked)
        else:
            self._after_settle(locked, finished, verdicts)
        self._wake()

    async def _settle_one_by_one(self, ended: list[AttemptRun], error: Exception) -> None:
        """Something in a batch cannot be written: find it, so that the others are."""
        kept = await self._single_settles.settle(ended)
        self._attempts.give_back_ended(kept)
        if kept:
            await self._back_off(error)

    async def _back_off(self, error: Exception) -> None:
        await asyncio.sleep(self._outage.pause_after(error, self._attempts.unwritten))
        self._wake()

    async def _wait(self, at_most_s: float = math.inf) -> None:
        """Until something happens, or a jittered while: polling is the fallback for every kind of wake-up."""
        woken = asyncio.Event()
        self._asleep.append(woken)
        wait_s = self._plan.wait_s(self._settings.poll_s * random.uniform(0.75, 1.25))
        alarm = self._loop.call_later(min(wait_s, at_most_s), self._wake)
        try:
            await woken.wait()
        finally:
            alarm.cancel()

    def _on_wakeup(self) -> None:
        self._plan.jobs_came()
        self._wake()

    def _wake(self) -> None:
        self._should_claim = True
        if self._asleep:
            sleepers, self._asleep = self._asleep, []
            for woken in sleepers:
                woken.set()

    async def _write_progress(self, update: ProgressUpdate) -> None:
        """Write what a handler reports. While the database is away it waits: no report is worth losing the work."""
        while True:
            try:
                (alive,) = await self._claims.update_progress([update])
                break
            except StoreUnavailable as error:
                await asyncio.sleep(self._outage.pause_after(error, self._attempts.unwritten))
        self._outage.over()
        if not alive:
            lease = update.claim.lease
            self._attempts.lose({(lease.job_id, lease.claim_version)})
            raise StaleLease(lease.job_id, lease.claim_version)


def _largest_request(settings: WorkerSettings) -> ClaimRequest:
    return ClaimRequest(
        worker_id=settings.worker_id,
        limit=settings.batch,
        queues=settings.queues,
        lease_ttl_us=settings.lease_ttl_us,
    )
