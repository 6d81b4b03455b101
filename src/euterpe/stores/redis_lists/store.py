"""Jobs in Redis lists behind the port. What lists cannot do raises `Unsupported`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Final

import msgspec

from euterpe.model.claims.attempt_log import AttemptLog
from euterpe.model.claims.exchange import (
    LEASE_TTL_US,
    ClaimRequest,
    HeartbeatReply,
    ProgressUpdate,
    Report,
    SettleResult,
)
from euterpe.model.claims.outcome import settle as decide
from euterpe.model.errors import EuterpeError, InvalidInput
from euterpe.model.failures.group import FailureGroups
from euterpe.model.job import AttemptRow, Claim, JobRow, Lease
from euterpe.model.reading.views import QueueDepth, Search, SearchPage, StoreStats
from euterpe.model.reading.why import Explanation
from euterpe.model.state import State, stage_ordinal
from euterpe.model.submitting.batch import Parent, SubmitResult, Unit, drafts_of
from euterpe.model.submitting.changes import Changes, check_changes
from euterpe.model.submitting.replayed import REPLAY_KEY, Replayed
from euterpe.model.submitting.submission import (
    PAYLOAD_CEILING,
    PAYLOAD_LIMIT,
    SUBMISSION_TIMEOUT_US,
    Submission,
    check,
)
from euterpe.ports import (
    EVERYTHING,
    BulkOperations,
    Capability,
    Clock,
)
from euterpe.redis.settings import DEFAULT_TUNING, RedisTuning
from euterpe.stores.limited import LimitedStore
from euterpe.stores.redis_lists.commands import PING
from euterpe.stores.redis_lists.entry import Rows, foreign_jobs
from euterpe.stores.redis_lists.exchange import ListExchange
from euterpe.stores.redis_lists.operator import ListOperator, ended_of
from euterpe.stores.redis_lists.reads import ListReads
from euterpe.stores.redis_lists.reaper import ListSweeps
from euterpe.stores.redis_lists.scripts import RedisScripts
from euterpe.stores.redis_lists.settings import settings_from
from euterpe.stores.redis_lists.submit import Answer, Submitting, fresh_by_queue
from euterpe.stores.redis_lists.watch import ListWatch
from euterpe.stores.redis_lists.workers import ListWorkers
from euterpe.stores.sql.jobs.ended_jobs import EndedBy
from euterpe.stores.sql.submitting.batcher import SubmitBatcher

PATIENCE_S: Final = SUBMISSION_TIMEOUT_US / 1_000_000
LACKING: Final = frozenset(
    {
        Capability.CALLER_TRANSACTION,
        Capability.OUTBOX,
        Capability.CONTROL_PLANE,
        Capability.DEPENDENCIES,
        Capability.CONCURRENCY_KEYS,
        Capability.KEY_RATES,
        Capability.UNIQUE_KEYS,
        Capability.CRONS,
        Capability.SEARCH,
        Capability.BULK,
        Capability.LOG_LINES,
    }
)


class RedisListStore(LimitedStore):
    """Jobs in Redis: lists of entries, and a record for each job."""

    kind = "a queue in Redis lists"
    instead = "use a SQL engine for that"

    capabilities: frozenset[Capability] = EVERYTHING - LACKING

    def __init__(
        self,
        url: str,
        *,
        payload_limit: int = PAYLOAD_LIMIT,
        tuning: RedisTuning = DEFAULT_TUNING,
        clock: Clock | None = None,
        rng: Random | None = None,
    ) -> None:
        if not 1 <= payload_limit <= PAYLOAD_CEILING:
            raise InvalidInput("payload_limit", f"{payload_limit} is not between 1 and {PAYLOAD_CEILING} bytes")
        super().__init__(payload_limit)
        self.plain_url, self.settings = settings_from(url)
        self._rng = rng or Random()
        foreign = foreign_jobs(self.settings)
        rows = Rows(foreign)
        self.scripts = RedisScripts(self.plain_url, self.settings, tuning)
        self._submitting = Submitting(self.scripts, clock, lambda: self.key_window_us)
        self._batcher = SubmitBatcher(self._write, lambda: PATIENCE_S)
        self._watch = ListWatch(self.plain_url, tuning, self.scripts)
        self._exchange = ListExchange(self.scripts, self._watch, rows, foreign, clock)
        self._operator = ListOperator(self.scripts, rows, self._exchange)
        self._reads = ListReads(self.scripts, rows)
        self.sweeps = ListSweeps(self.scripts, self._exchange, self._operator, self._rng, lambda: self.telemetry)
        self.workers = ListWorkers(self.scripts, lambda: self._exchange.now, self.sweeps.now_us)

    @property
    def operations(self) -> BulkOperations:
        self.refuse("act on everything that matches a query")

    # --- life -----------------------------------------------------------------------------------------

    async def open(self) -> None:
        await self.scripts.open()

    async def close(self) -> None:
        await self._watch.close()
        await self.scripts.close()

    async def ping(self) -> None:
        await self.scripts.read(PING)

    async def now_us(self) -> int:
        return await self.sweeps.now_us()

    def expect_leases_of(self, seconds: float) -> None:
        """No transaction of ours outlasts its script."""

    def expect_own_spans(self) -> None:
        """Nobody else traces them."""

    # --- submit ---------------------------------------------------------------------------------------

    async def spawn(self, parent: Lease, submissions: Sequence[Submission]) -> list[SubmitResult]:
        for submission in submissions:
            check(submission, self.payload_limit)
        return await self.submit_unit(Unit(drafts_of(submissions), parent=Parent(parent.job_id, parent.claim_version)))

    async def submit_unit(self, unit: Unit) -> list[SubmitResult]:
        answer = await self._batcher.submit(unit)
        if isinstance(answer, EuterpeError):
            raise answer
        return answer

    async def _write(self, units: Sequence[Unit], deadline: float) -> list[Answer]:  # noqa: ARG002
        answers = await self._submitting.write(units)
        counts, ready = fresh_by_queue(answers)
        if self.wakeups is not None and ready:
            self.wakeups.announce(ready)
        if self.telemetry is not None:
            for queue, count in counts.items():
                self.telemetry.produced(queue, count)
        return answers

    # --- Claims ---------------------------------------------------------------------------------------

    async def claim(self, request: ClaimRequest) -> list[Claim]:
        return (await self._exchange.run((), (), request))[1] if request.is_answerable else []

    async def heartbeat(self, leases: Sequence[Lease], lease_ttl_us: int = LEASE_TTL_US) -> list[HeartbeatReply]:
        return await self._exchange.heartbeat(leases, lease_ttl_us) if leases else []

    async def check_leases(self, leases: Sequence[Lease]) -> list[HeartbeatReply]:
        return await self._exchange.check_leases(leases)

    async def update_progress(self, updates: Sequence[ProgressUpdate]) -> list[bool]:
        for n in updates:
            if n.stage is not None:
                stage_ordinal(n.claim.job.stages, n.stage)
        return await self._exchange.update_progress(updates) if updates else []

    async def settle(self, finished: Sequence[Report]) -> list[SettleResult]:
        return (await self.exchange(finished, None))[0]

    async def exchange(
        self, finished: Sequence[Report], request: ClaimRequest | None
    ) -> tuple[list[SettleResult], list[Claim]]:
        settlements = [decide(f.claim.job, f.outcome, self._rng) for f in finished]
        claims: list[Claim] = []
        states: list[State | None] = []
        may_claim = request is not None and request.is_answerable
        if settlements or may_claim:
            states, claims = await self._exchange.run(settlements, [f.claim.job for f in finished], request)
        if request is not None and request.limit > len(claims) and self.wakeups is not None:
            if may_claim and not finished and not claims and request.worker_id not in self._waiting:
                claims = await self._claim_waiting(request)
            if len(claims) < request.limit:
                asyncio.get_running_loop().call_soon(self._claim_after_start, request)
        return [
            SettleResult(False) if state is None else SettleResult(True, state, s.delay_us)
            for s, state in zip(settlements, states, strict=True)
        ], claims

    def _claim_after_start(self, request: ClaimRequest) -> None:
        """Another turn of the loop later: handlers of what was just claimed begin first."""
        asyncio.get_running_loop().call_soon(self.claim_again, request)

    async def _claim_waiting(self, request: ClaimRequest) -> list[Claim]:
        """One claim of a worker waits at Redis for work to come; its other lane stays free to report."""
        self._waiting.add(request.worker_id)
        try:
            return await self._exchange.claim_when_ready(request, self.settings.brpoplpush_timeout_us / 1e6)
        finally:
            self._waiting.discard(request.worker_id)

    # --- operators ------------------------------------------------------------------------------------

    async def cancel(self, job_id: str, requester_id: str | None = None, *, force: bool = False) -> State:
        state, ended = await self._operator.cancel(job_id, requester_id, force=force)
        self.sweeps.report_ended([ended] if ended is not None else [], EndedBy.OPERATOR)
        return state

    async def retry(self, job_id: str, requester_id: str | None = None, key: str | None = None) -> JobRow:
        again = await self._operator.retry(job_id, requester_id)
        if isinstance(again, JobRow):
            if self.telemetry is not None:
                self.telemetry.retried(again.queue)
            return again
        submitted = await self.submit(msgspec.structs.replace(again, idempotency_key=key))
        return await self.get(submitted.job_id)

    async def replay(self, job_id: str, requester_id: str | None = None) -> Replayed:
        """There are no dependents here; the key makes one replay at most."""
        again = await self._operator.retry(job_id, requester_id)
        if isinstance(again, JobRow):
            return Replayed(again, [])
        key = f"{REPLAY_KEY}{again.replay_of}"
        return Replayed(await self.submit(msgspec.structs.replace(again, idempotency_key=key)), [])

    async def dead_letter(self, job_id: str, requester_id: str | None = None) -> State:
        job = await self._operator.dead_letter(job_id, requester_id)
        self.sweeps.report_ended(
            [ended_of(job, State.DEAD_LETTER, "other", "error", had_failed=True)], EndedBy.OPERATOR
        )
        return State.DEAD_LETTER

    async def purge(self, job_ids: Sequence[str]) -> list[str]:
        return await self._operator.purge(job_ids)

    async def update(self, job_id: str, changes: Changes, requester_id: str | None = None) -> JobRow:
        check_changes(changes)
        return await self._operator.update(job_id, changes, requester_id)

    async def pause(self, kind: str, name: str) -> None:
        await self._operator.pause(kind, name)

    async def resume(self, kind: str, name: str) -> None:
        await self._operator.resume(kind, name)

    async def paused(self) -> list[tuple[str, str]]:
        return await self._operator.paused()

    # --- readers --------------------------------------------------------------------------------------

    async def get(self, job_id: str, requester_id: str | None = None) -> JobRow:
        return await self._operator.get(job_id, requester_id)

    async def attempts(self, job_id: str, requester_id: str | None = None) -> list[AttemptRow]:
        return await self._operator.attempts(job_id, requester_id)

    async def attempt_logs(self, job_id: str, requester_id: str | None = None) -> list[AttemptLog]:  # noqa: ARG002
        self.refuse("keep what a handler logs")

    async def why(self, job_id: str, requester_id: str | None = None) -> Explanation:
        job = await self.get(job_id, requester_id)
        now = await self.now_us()
        service = await self.workers.service_for(job, now) if job.state is State.SCHEDULED else None
        return await self._reads.why(job, await self.paused(), now, service)

    async def search(self, query: Search) -> SearchPage:  # noqa: ARG002
        self.refuse("search jobs")

    async def failure_groups(self, requester_id: str | None = None, limit: int = 50) -> FailureGroups:  # noqa: ARG002
        self.refuse("group failures by their cause")

    async def stats(self, requester_id: str | None = None) -> StoreStats:
        if requester_id is not None:
            self.refuse("count the jobs of one requester")
        return await self._reads.stats(await self.now_us())

    async def depths(self) -> list[QueueDepth]:
        return await self._reads.depths(await self.now_us())

    async def peek(self, queues: Sequence[str], limit: int) -> list[JobRow]:
        return await self._reads.peek(queues, limit)

    async def unknown_types(self, queues: Sequence[str], types: Sequence[str]) -> dict[str, int]:
        return await self._reads.unknown_types(queues, types)
