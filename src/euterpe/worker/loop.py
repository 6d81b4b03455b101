"""The loop: claim for the free slots, run, settle what is over, and do both in one turn when there is both.

A few lanes take turns with the store, so that handlers run while the database works. A slot is free as soon as its
handler ends; what is finished and not yet written is bounded, kept while the database is away, and settled when it
is back.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import msgspec

from euterpe.model.errors import EuterpeError, StaleLease, StoreUnavailable
from euterpe.model.job import Claim
from euterpe.model.submission import RESULT_LIMIT, Submission
from euterpe.ports import LEASE_TTL_US, Advance, ClaimRequest, Claims, Finished, Telemetry, Wakeups
from euterpe.worker.attempt import Attempt, Interruption, interrupted
from euterpe.worker.context import Context, Desk
from euterpe.worker.handlers import Handlers
from euterpe.worker.keeper import LeaseKeeper
from euterpe.worker.processes import Processes
from euterpe.worker.telemetry import Silent, tell_claims, tell_settled

log = logging.getLogger("euterpe.worker")

LANES: Final = 2
WATCH_S: Final = 0.5
PRECISE_TIMEOUT_US: Final = 10_000_000
KEEP_AFTER_DEADLINE_S: Final = 30.0
BACKOFF_S: Final = (0.1, 5.0)


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
        spawn: Callable[[Claim, Sequence[Submission]], Awaitable[list[str]]] | None = None,
        make_submission: Callable[..., Submission] | None = None,
        telemetry: Telemetry | None = None,
        settled: Callable[[str], None] | None = None,
    ) -> None:
        self._claims = claims
        self._handlers = handlers
        self._settings = settings
        self._wakeups = wakeups
        self._telemetry = telemetry or Silent()
        self._settled = settled
        self._keeper_url = keeper_url
        self._keeper: LeaseKeeper | None = None
        self._spawn = spawn
        self._make_submission = make_submission
        self._running: dict[str, Attempt] = {}
        self._slots: dict[str, int] = {}
        self._finished: list[Finished] = []
        self._reserved = 0
        self._hungry = True
        self._away = False
        self._stopping = False
        self._news: list[asyncio.Event] = []
        self._threads = ThreadPoolExecutor(settings.concurrency, thread_name_prefix="euterpe-handler")
        self._processes = Processes()
        self._tasks: set[asyncio.Task[None]] = set()

    # --- life ---------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Work until `stop`; then let running work finish for the grace time and give the rest back."""
        self._loop = asyncio.get_running_loop()
        self._desk = Desk(self._loop, self._advance, self._spawn or _no_spawn, self._make_submission or _no_submission)
        unsubscribe = self._wakeups.subscribe(self._wake, self._settings.queues)
        watcher = self._loop.create_task(self._watch())
        try:
            await asyncio.gather(*(self._lane() for _ in range(LANES)))
        finally:
            watcher.cancel()
            unsubscribe()
            for task in self._tasks:
                task.cancel()
            self._processes.close()
            self._threads.shutdown(wait=False, cancel_futures=True)
            if self._keeper is not None:
                await self._keeper.close()

    def stop(self) -> None:
        """Claim nothing more; a second call gives back at once what still runs."""
        if self._stopping:
            self._release_all()
        else:
            self._stopping = True
            log.info("stopping: %d running jobs may finish", len(self._running))
            self._loop.call_later(self._settings.grace_s, self._release_all)
        self._wake()

    def _release_all(self) -> None:
        for attempt in list(self._running.values()):
            attempt.interrupt(Interruption.SHUTDOWN)
            if attempt.handler.mode == "thread":
                self._detach(attempt, Interruption.SHUTDOWN)

    # --- turns --------------------------------------------------------------------------------------

    async def _lane(self) -> None:
        news = asyncio.Event()
        self._news.append(news)
        while True:
            finished, self._finished = self._finished, []
            request = self._request()
            if not finished and request is None:
                if self._stopping and not self._running and not self._reserved and not self._finished:
                    self._wake()
                    return
                await self._wait(news)
                continue
            await self._turn(finished, request)

    def _request(self) -> ClaimRequest | None:
        """Claim for the slots that are free, in halves, so that one lane's jobs run while the other claims."""
        free = self._settings.concurrency - len(self._running) - self._reserved
        unwritten = len(self._finished)
        if self._stopping or self._away or not self._hungry or free <= 0 or unwritten > self._settings.concurrency:
            return None
        share = max(1, -(-self._settings.concurrency // LANES))
        limit = min(free, share, self._settings.batch)
        self._reserved += limit
        return ClaimRequest(
            worker_id=self._settings.worker_id,
            limit=limit,
            queues=self._settings.queues,
            types=self._handlers.types,
            lease_ttl_us=self._settings.lease_ttl_us,
        )

    async def _turn(self, finished: list[Finished], request: ClaimRequest | None) -> None:
        self._hungry = False
        try:
            verdicts, claims = await self._claims.turn(finished, request)
        except EuterpeError as error:
            self._finished = finished + self._finished
            self._hungry = True
            self._reserved -= request.limit if request else 0
            await self._sit_out(error)
            return
        if self._away:
            self._away = False
            log.warning("the database is back; %d finished jobs were settled", len(finished))
        if request is not None:
            self._reserved -= request.limit
            if claims:
                tell_claims(self._telemetry, claims)
                if self._keeper_url is not None:
                    await self._keep_leases()
                for claim in claims:
                    self._start(claim)
            if len(claims) == request.limit:
                self._hungry = True
        stale = tell_settled(self._telemetry, finished, verdicts)
        if stale:
            log.warning("%d late writes bounced: those jobs belong to other claims now", stale)
        for f, verdict in zip(finished, verdicts, strict=True):
            if verdict.accepted:
                if self._settled is not None:
                    self._settled(f.claim.job.id)
                if f.claim.job.has_dependents:
                    self._hungry = True

    async def _sit_out(self, error: EuterpeError) -> None:
        if not isinstance(error, StoreUnavailable):
            log.error("the store refused a turn", exc_info=error)
        elif not self._away:
            log.warning("the database is away; %d finished jobs are kept", len(self._finished), exc_info=error)
        self._away = True
        await asyncio.sleep(random.uniform(*BACKOFF_S) / 4)
        self._away = False if self._stopping else self._away
        self._wake()
        self._probe()

    def _probe(self) -> None:
        # Without anything to write, the next claim is what finds out that the database is back.
        if not self._finished:
            self._away = False
        self._hungry = True

    async def _wait(self, news: asyncio.Event) -> None:
        """Until something happens, or a jittered while: polling is the fallback for every kind of wake-up."""
        alarm = self._loop.call_later(self._settings.poll_s * random.uniform(0.75, 1.25), self._poll)
        try:
            await news.wait()
            news.clear()
        finally:
            alarm.cancel()

    def _poll(self) -> None:
        self._hungry = True
        for news in self._news:
            news.set()

    def _wake(self) -> None:
        self._poll()

    # --- attempts -----------------------------------------------------------------------------------

    async def _keep_leases(self) -> None:
        if self._keeper is None:
            assert self._keeper_url is not None
            self._keeper = LeaseKeeper(
                self._keeper_url,
                self._settings.concurrency * 2,
                self._settings.lease_ttl_us,
                on_lost=lambda job_id, version: self._interrupt(job_id, version, Interruption.LOST_LEASE),
                on_cancel=lambda job_id, version: self._interrupt(job_id, version, Interruption.CANCEL),
            )
        await self._keeper.ensure_running()

    def _start(self, claim: Claim) -> None:
        job = claim.job
        handler = self._handlers[job.type]
        timeout_us = min(job.execution_timeout_us, handler.timeout_us or job.execution_timeout_us)
        now = self._loop.time()
        stops_at = now + timeout_us / 1_000_000
        attempt = Attempt(claim, handler, Context(claim, self._desk, stops_at), now, stops_at)
        self._running[job.id] = attempt
        if self._keeper is not None:
            self._slots[job.id] = self._keeper.table.hold(claim.lease, stops_at + KEEP_AFTER_DEADLINE_S)
        if timeout_us <= PRECISE_TIMEOUT_US:
            self._loop.call_at(stops_at, self._time_out, attempt)
        task = self._loop.create_task(self._execute(attempt))
        attempt.attach(task)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _execute(self, attempt: Attempt) -> None:
        await attempt.run(self._threads, self._processes.run, self._settings.result_limit)
        self._over(attempt)

    def _over(self, attempt: Attempt) -> None:
        job = attempt.claim.job
        if self._running.get(job.id) is not attempt:
            return
        del self._running[job.id]
        self._forget_lease(job.id)
        if attempt.outcome is not None:
            self._finished.append(Finished(attempt.claim, attempt.outcome, self._loop.time() - attempt.started))
        else:
            log.warning("the lease was lost to another claim; this attempt's work is dropped", extra={"job_id": job.id})
        for news in self._news:
            news.set()
        if not self._stopping:
            self._hungry = True

    def _forget_lease(self, job_id: str) -> None:
        slot = self._slots.pop(job_id, None)
        if slot is not None and self._keeper is not None:
            self._keeper.table.release(slot)

    def _interrupt(self, job_id: str, claim_version: int, why: Interruption) -> None:
        attempt = self._running.get(job_id)
        if attempt is not None and attempt.claim.lease.claim_version == claim_version:
            attempt.interrupt(why)

    def _time_out(self, attempt: Attempt) -> None:
        if attempt.outcome is None and attempt.interruption is None:
            attempt.interrupt(Interruption.TIMEOUT)
            if attempt.handler.mode == "thread":
                self._detach(attempt, Interruption.TIMEOUT)

    def _detach(self, attempt: Attempt, why: Interruption) -> None:
        """A thread cannot be stopped: settle the job now; its slot stays taken until the thread is through."""
        outcome = interrupted(why, attempt.claim)
        if attempt.outcome is None and outcome is not None:
            attempt.outcome = outcome
            self._finished.append(Finished(attempt.claim, outcome))
            self._forget_lease(attempt.claim.job.id)
            extra = {"job_id": attempt.claim.job.id, "error_code": str(why)}
            log.warning("a thread cannot be stopped: it goes on while its job is settled", extra=extra)
            self._wake()

    async def _watch(self) -> None:
        """Deadlines, in one pass for all: most jobs end long before theirs."""
        while True:
            await asyncio.sleep(WATCH_S)
            now = self._loop.time()
            for attempt in list(self._running.values()):
                if now >= attempt.stops_at:
                    self._time_out(attempt)
            if self._keeper is not None and self._running:
                await self._keeper.ensure_running()

    async def _advance(self, news: Advance) -> None:
        (alive,) = await self._claims.advance([news])
        if not alive:
            job = news.claim.job
            self._interrupt(job.id, news.claim.lease.claim_version, Interruption.LOST_LEASE)
            raise StaleLease(job.id, news.claim.lease.claim_version)


async def _no_spawn(_claim: Claim, _submissions: Sequence[Submission]) -> list[str]:
    raise EuterpeError("this worker cannot spawn jobs: it has no queue to submit to")


def _no_submission(*_args: object, **_options: object) -> Submission:
    raise EuterpeError("this worker cannot spawn jobs: it has no queue to submit to")
