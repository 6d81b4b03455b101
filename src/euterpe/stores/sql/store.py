"""The store: every promise of the ports, kept by programs on a SQL engine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cached_property, partial
from random import Random
from typing import TYPE_CHECKING

import msgspec

from euterpe.model.claims.exchange import (
    COMPLETED,
    LEASE_TTL_US,
    ClaimRequest,
    HeartbeatReply,
    ProgressUpdate,
    Report,
    SettleResult,
)
from euterpe.model.claims.outcome import settle_logged
from euterpe.model.dependency import check_edges
from euterpe.model.errors import InvalidInput, StoreUnavailable
from euterpe.model.job import AttemptRow, Claim, JobRow, Lease
from euterpe.model.state import State, stage_ordinal
from euterpe.model.submitting.batch import Draft, Parent, SubmitResult, Unit, check_children, drafts_of, edges_of
from euterpe.model.submitting.changes import Changes, check_changes
from euterpe.model.submitting.submission import (
    IDEMPOTENCY_WINDOW_US,
    PAYLOAD_CEILING,
    PAYLOAD_LIMIT,
    Submission,
    check,
    check_key,
)
from euterpe.ports import (
    CANCEL_CHANNEL,
    EVERYTHING,
    Telemetry,
    Wakeups,
)
from euterpe.stores.sql.engine import Engine
from euterpe.stores.sql.exchange.exchange import Exchange
from euterpe.stores.sql.exchange.simple_jobs import SettleBatch
from euterpe.stores.sql.jobs.ended_jobs import EndedBy, EndReporter
from euterpe.stores.sql.jobs.heartbeat import HELD_AT_MOST, check_leases, heartbeat, heartbeat_of_held, update_progress
from euterpe.stores.sql.jobs.settle import LOCKED, complete_joined, completed_claims
from euterpe.stores.sql.jobs.usable_claims import usable_claims
from euterpe.stores.sql.maintenance import operator
from euterpe.stores.sql.maintenance import replay as graph_replay
from euterpe.stores.sql.program import Program
from euterpe.stores.sql.reads import search as reads_search
from euterpe.stores.sql.submitting import submit as jobs_submit
from euterpe.stores.sql.submitting.announcer import Announcer
from euterpe.stores.sql.submitting.unit_commits import UnitCommits

if TYPE_CHECKING:  # Its other faces and the rarer programs are loaded when they are first used: a submit needs none.
    from euterpe.model.claims.attempt_log import AttemptLog
    from euterpe.model.failures.group import FailureGroups
    from euterpe.model.reading.views import QueueDepth, Search, SearchPage, StoreStats
    from euterpe.model.reading.why import Explanation
    from euterpe.model.submitting.replayed import Replayed
    from euterpe.stores.sql.bulk.operations import Operations
    from euterpe.stores.sql.caller import Joined, Target
    from euterpe.stores.sql.control_plane import SqlControlPlane
    from euterpe.stores.sql.crons import SqlCrons
    from euterpe.stores.sql.jobs.rates import SqlKeyRates
    from euterpe.stores.sql.maintenance.sweeps import SqlSweeps
    from euterpe.stores.sql.outbox.store import Outbox
    from euterpe.stores.sql.workers import SqlWorkers


class SqlStore:
    """Jobs in a SQL database. `sweeps`, `outbox` and `serving` are its other faces."""

    def __init__(self, engine: Engine, *, payload_limit: int = PAYLOAD_LIMIT, rng: Random | None = None) -> None:
        if not 1 <= payload_limit <= PAYLOAD_CEILING:
            raise InvalidInput("payload_limit", f"{payload_limit} is not between 1 and {PAYLOAD_CEILING} bytes")
        self.engine = engine
        self.capabilities = EVERYTHING
        self.rng = rng or Random()
        self.payload_limit = payload_limit
        self.key_window_us = IDEMPOTENCY_WINDOW_US
        self.end_reporter = EndReporter(engine, lambda: self.telemetry)
        self.telemetry: Telemetry | None = None
        self._announcer = Announcer(lambda: self.telemetry)
        self._commits = UnitCommits(engine, self.end_reporter, self._announcer, lambda: self.key_window_us)
        self._exchange = _exchange_of(engine, self.end_reporter)

    @property
    def wakeups(self) -> Wakeups | None:
        return self._announcer.wakeups

    @wakeups.setter
    def wakeups(self, wakeups: Wakeups | None) -> None:
        self._announcer.wakeups = wakeups

    # --- its other faces --------------------------------------------------------------------------

    @cached_property
    def operations(self) -> Operations:
        from euterpe.stores.sql.bulk.operations import Operations

        return Operations(
            self.engine, self.end_reporter, self.payload_limit, lambda: self.telemetry, lambda: self.wakeups
        )

    @cached_property
    def sweeps(self) -> SqlSweeps:
        from euterpe.stores.sql.maintenance.sweeps import SqlSweeps

        return SqlSweeps(self.engine, self.rng, self.end_reporter, self.operations)

    @cached_property
    def outbox(self) -> Outbox:
        from euterpe.stores.sql.outbox.store import Outbox

        return Outbox(self.engine)

    @cached_property
    def rates(self) -> SqlKeyRates:
        from euterpe.stores.sql.jobs.rates import SqlKeyRates

        return SqlKeyRates(self.engine)

    @cached_property
    def crons(self) -> SqlCrons:
        from euterpe.stores.sql.crons import SqlCrons

        return SqlCrons(self.engine)

    @cached_property
    def workers(self) -> SqlWorkers:
        from euterpe.stores.sql.workers import SqlWorkers

        return SqlWorkers(self.engine)

    @cached_property
    def control_plane(self) -> SqlControlPlane:
        from euterpe.stores.sql.control_plane import SqlControlPlane

        return SqlControlPlane(self.engine, self.rng, self.end_reporter, self._exchange)

    def _join(self, connection: object) -> tuple[Joined, Target]:
        """The caller's own connection, and where its transaction must be."""
        from euterpe.stores.sql.caller import join, target_of

        return join(connection), target_of(self.engine)

    # --- life -------------------------------------------------------------------------------------

    async def open(self) -> None:
        await self.engine.open()

    async def close(self) -> None:
        await self._exchange.close()
        await self.engine.close()

    async def migrate(self) -> list[str]:
        return await self.engine.migrate()

    async def ping(self) -> None:
        await self.engine.check_writable()

    async def now_us(self) -> int:
        return await self.engine.read(reads_search.now_us)

    def expect_leases_of(self, seconds: float) -> None:
        self.engine.expect_leases_of(seconds)

    def expect_own_spans(self) -> None:
        """Nobody else traces them."""

    # --- submit -----------------------------------------------------------------------------------

    async def submit(self, submission: Submission) -> SubmitResult:
        """Store one job; an error names what is wrong, and then nothing is stored."""
        check(submission, self.payload_limit)
        return (await self.submit_unit(Unit(drafts_of([submission]))))[0]

    async def submit_many(self, submissions: Sequence[Submission], key: str | None = None) -> list[SubmitResult]:
        """Store all of them or none."""
        if key is not None:
            check_key(key)
        if not submissions:
            return []
        for submission in submissions:
            check(submission, self.payload_limit)
        return await self.submit_unit(Unit(drafts_of(submissions), key=key))

    async def submit_graph(self, drafts: Sequence[Draft], key: str | None = None) -> list[SubmitResult]:
        """Store a whole graph, whose drafts depend on each other by id, or nothing of it."""
        if key is not None:
            check_key(key)
        if not drafts:
            return []
        for draft in drafts:
            check(draft.submission, self.payload_limit)
        return await self.submit_unit(Unit(tuple(drafts), key=key))

    async def spawn(self, parent: Lease, submissions: Sequence[Submission]) -> list[SubmitResult]:
        """Children of a running job; refused when its claim is stale."""
        for submission in submissions:
            check(submission, self.payload_limit)
        return await self.submit_unit(Unit(drafts_of(submissions), parent=Parent(parent.job_id, parent.claim_version)))

    async def submit_unit(self, unit: Unit) -> list[SubmitResult]:
        if unit.parent is not None:
            check_children(unit)
        check_edges(edges_of(unit))
        return await self._commits.submit(unit)

    async def submit_unit_on(self, unit: Unit, connection: object, channel: str | None = None) -> list[SubmitResult]:
        """Store a unit inside the transaction that the caller has open on this connection: it is there when the
        caller commits, and never was when not. With a channel, Postgres tells its listeners at that commit."""
        self._check_unit(unit)
        joined, target = self._join(connection)
        return await joined.run(lambda: self._joined(unit, channel), target)

    def submit_unit_on_sync(self, unit: Unit, connection: object, channel: str | None = None) -> list[SubmitResult]:
        """The same from code that cannot await, on a blocking connection."""
        self._check_unit(unit)
        joined, target = self._join(connection)
        return joined.run_sync(lambda: self._joined(unit, channel), target)

    async def complete_on(self, finished: Report, connection: object) -> None:
        """End a running job inside the transaction that its handler has open on this connection."""
        settlement = settle_logged(finished.claim.job, finished.outcome, self.rng, finished.log)
        joined, target = self._join(connection)
        await joined.run(lambda: complete_joined(settlement, self.engine.family), target)

    def complete_on_sync(self, finished: Report, connection: object) -> None:
        settlement = settle_logged(finished.claim.job, finished.outcome, self.rng, finished.log)
        joined, target = self._join(connection)
        joined.run_sync(lambda: complete_joined(settlement, self.engine.family), target)

    async def completed(self, claims: Sequence[Claim]) -> list[bool]:
        found = await self.engine.read(lambda: completed_claims([claim.lease for claim in claims]))
        done = [(claim.lease.job_id, claim.lease.claim_version) in found for claim in claims]
        if _has_callback(claim for claim, is_done in zip(claims, done, strict=True) if is_done):
            self._announcer.hint_of_events()
        return done

    def _joined(self, unit: Unit, channel: str | None) -> Program[list[SubmitResult]]:
        return jobs_submit.submit_joined(unit, self.engine.family, channel, key_window_us=self.key_window_us)

    def _check_unit(self, unit: Unit) -> None:
        if unit.key is not None:
            check_key(unit.key)
        check_edges(edges_of(unit))
        for draft in unit.drafts:
            check(draft.submission, self.payload_limit)

    # --- Claims -----------------------------------------------------------------------------------

    async def claim(self, request: ClaimRequest) -> list[Claim]:
        if request.total < 1 or not request.queues or request.types == ():
            return []
        return (await self.exchange([], request))[1]

    async def heartbeat(self, leases: Sequence[Lease], lease_ttl_us: int = LEASE_TTL_US) -> list[HeartbeatReply]:
        if not leases:
            return []
        beats = await self.engine.write_one(lambda: heartbeat(leases, lease_ttl_us))
        held = [i for i, beat in enumerate(beats) if beat.alive and not beat.renewed]
        for i in held[:HELD_AT_MOST]:
            lease = beats[i].lease
            with suppress(StoreUnavailable):
                beats[i] = await self.engine.write(partial(heartbeat_of_held, lease, lease_ttl_us))
        return beats

    async def check_leases(self, leases: Sequence[Lease]) -> list[HeartbeatReply]:
        return await self.engine.read(lambda: check_leases(leases)) if leases else []

    async def update_progress(self, updates: Sequence[ProgressUpdate]) -> list[bool]:
        ordinals = [
            # Which one is next, the row says; the claim may be stages behind.
            None if n.stage is None else stage_ordinal(n.claim.job.stages, n.stage)
            for n in updates
        ]
        if not updates:
            return []
        return await self.engine.write(lambda: update_progress(updates, ordinals))

    async def settle(self, finished: Sequence[Report]) -> list[SettleResult]:
        """Safe to repeat after CommitUnknown or a timeout: what this outcome already closed is accepted again."""
        return (await self.exchange(finished, None))[0]

    async def exchange(
        self, finished: Sequence[Report], request: ClaimRequest | None
    ) -> tuple[list[SettleResult], list[Claim]]:
        """A settle and the next claim: a busy worker commits once for both."""
        batch = SettleBatch(finished, self.rng)
        states, claims = await self._exchange.run(batch, request)
        if claims and request is not None:
            claims = await self._only_readable(claims, request)
        if batch.have_callbacks or _has_callback(claims):
            self._announcer.hint_of_events()
        if states.count(State.COMPLETED) == len(states):
            return [COMPLETED] * len(states), claims
        return [
            SettleResult(False, locked=state is LOCKED)
            if state is None or state is LOCKED
            else SettleResult(True, state, s.delay_us)
            for s, state in zip(batch.settlements, states, strict=True)
        ], claims

    async def _only_readable(self, claims: list[Claim], request: ClaimRequest) -> list[Claim]:
        readable = await usable_claims(self.engine, self.end_reporter, claims)
        while len(readable) < len(claims):
            # A short answer would tell the worker that the queue is empty.
            _, more = await self._exchange.run(SettleBatch((), self.rng), request.after(len(readable)))
            if not more:
                break
            readable += await usable_claims(self.engine, self.end_reporter, more)
        return readable

    # --- operators and readers ---------------------------------------------------------------------

    async def cancel(self, job_id: str, requester_id: str | None = None, *, force: bool = False) -> State:
        family = self.engine.family
        state = await self.end_reporter.write(
            lambda: operator.cancel(job_id, requester_id, family, force=force), EndedBy.OPERATOR
        )
        self._announcer.hint_of_events()
        if self.wakeups is not None and (force or state is State.RUNNING):
            self.wakeups.announce([CANCEL_CHANNEL])
        return state

    async def retry(self, job_id: str, requester_id: str | None = None, key: str | None = None) -> JobRow:
        """The job, scheduled again, or a new job that replays it; with an idempotency key only one such job."""
        job = await self.engine.write(lambda: operator.retry(job_id, requester_id))
        if job.state is State.SCHEDULED:
            if self.telemetry is not None:
                self.telemetry.retried(job.queue)
            return job
        again = await self.engine.read(lambda: graph_replay.with_results(job))
        submitted = await self.submit(msgspec.structs.replace(again, idempotency_key=key))
        return await self.get(submitted.job_id)

    async def replay(self, job_id: str, requester_id: str | None = None) -> Replayed:
        replayed = await self.end_reporter.write(
            lambda: graph_replay.replay(job_id, requester_id, self.payload_limit, self.key_window_us), EndedBy.OPERATOR
        )
        first = replayed.first
        if isinstance(first, JobRow):
            if self.wakeups is not None:
                self.wakeups.announce([first.queue])
            self._announcer.announce_ready([replayed.dependents], None)
        else:
            self._announcer.announce_ready([[first, *replayed.dependents]], None)
        return replayed

    async def purge(self, job_ids: Sequence[str]) -> list[str]:
        from euterpe.stores.sql.maintenance.purge import purge_dead

        return await self.engine.write(lambda: purge_dead(job_ids))

    async def dead_letter(self, job_id: str, requester_id: str | None = None) -> State:
        state = await self.end_reporter.write(lambda: operator.dead_letter(job_id, requester_id), EndedBy.OPERATOR)
        self._announcer.hint_of_events()
        return state

    async def update(self, job_id: str, changes: Changes, requester_id: str | None = None) -> JobRow:
        """Change priority (while it waits), tags, correlation id or callback URL; type and payload never change."""
        check_changes(changes)

        def program() -> Program[JobRow]:
            job = yield from operator.update(job_id, requester_id, changes)
            return (yield from reads_search.with_dependencies([job]))[0]

        return await self.engine.write(program)

    async def pause(self, kind: str, name: str) -> None:
        await self.engine.write(lambda: operator.pause(kind, name))

    async def resume(self, kind: str, name: str) -> None:
        await self.engine.write(lambda: operator.resume(kind, name))

    async def paused(self) -> list[tuple[str, str]]:
        return await self.engine.read(operator.paused)

    async def get(self, job_id: str, requester_id: str | None = None) -> JobRow:
        return await self.engine.read(lambda: reads_search.get(job_id, requester_id))

    async def attempts(self, job_id: str, requester_id: str | None = None) -> list[AttemptRow]:
        return await self.engine.read(lambda: reads_search.attempts(job_id, requester_id))

    async def attempt_logs(self, job_id: str, requester_id: str | None = None) -> list[AttemptLog]:
        return await self.engine.read(lambda: reads_search.attempt_logs(job_id, requester_id))

    async def why(self, job_id: str, requester_id: str | None = None) -> Explanation:
        from euterpe.stores.sql.reads.why import why

        return await self.engine.read(lambda: why(job_id, requester_id))

    async def search(self, query: Search) -> SearchPage:
        return await self.engine.read(lambda: reads_search.search(query))

    async def failure_groups(self, requester_id: str | None = None, limit: int = 50) -> FailureGroups:
        from euterpe.stores.sql.reads.failures import failure_groups

        return await self.engine.read(lambda: failure_groups(requester_id, limit))

    async def stats(self, requester_id: str | None = None) -> StoreStats:
        from euterpe.stores.sql.reads.stats import stats

        return await self.engine.read(lambda: stats(requester_id))

    async def unknown_types(self, queues: Sequence[str], types: Sequence[str]) -> dict[str, int]:
        return await self.engine.read(lambda: reads_search.unknown_types(queues, types))

    async def peek(self, queues: Sequence[str], limit: int) -> list[JobRow]:
        from euterpe.stores.sql.reads.peek import peek

        return await self.engine.read(lambda: peek(queues, limit))

    async def depths(self) -> list[QueueDepth]:
        from euterpe.stores.sql.reads.stats import depths

        return await self.engine.read(depths)


def _has_callback(claims: Iterable[Claim]) -> bool:
    return any(claim.job.callback_url is not None for claim in claims)


def _exchange_of(engine: Engine, end_reporter: EndReporter) -> Exchange:
    """Each engine loads its own."""
    if engine.family == "postgres":
        from euterpe.stores.sql.exchange.postgres import PostgresExchange

        return PostgresExchange(engine, end_reporter)
    from euterpe.stores.sql.exchange.sqlite import SqliteExchange

    return SqliteExchange(end_reporter)
