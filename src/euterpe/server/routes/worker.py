"""Claim, heartbeat, complete, fail: the contract that a worker in any language can keep with plain HTTP.

Completion is idempotent by job and attempt and guarded by the lease token: the same report again gets the first
answer, any other 409, and then nothing was written. An exchange is all of it at once, with an answer for each entry. A
worker key runs the jobs of every requester.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from euterpe.model.claims.outcome import Success
from euterpe.model.claims.worker_reports import (
    REFUSED,
    ProgressFields,
    Renewed,
    ShownLease,
    TokenReply,
    TokenReport,
)
from euterpe.model.errors import IllegalTransition
from euterpe.model.job import Claim, attempt_id
from euterpe.model.reading.document import rfc3339
from euterpe.model.state import State
from euterpe.ports import OUTBOX_CHANNEL, Address, ControlPlaneStore, MessageWakeups, Sweeps, Telemetry, Trace, Wakeups
from euterpe.server.attempt_spans import AttemptSpans
from euterpe.server.batcher import Batcher
from euterpe.server.http.asgi import Answer, ClientGone, Request
from euterpe.server.http.problems import Refusal, refused_lease
from euterpe.server.long_poll import LongPoll, Waiter
from euterpe.server.routes.claims import grouped, one_of_many, the_only_one
from euterpe.server.routes.reports import (
    completion_report,
    failure_report,
    fields_of,
    held_claims,
    lease_of,
)
from euterpe.server.worker_presence import WorkerPresence
from euterpe.wire.worker import (
    AttemptFailureAnswer,
    ClaimBody,
    ClaimCriteria,
    CompleteAnswer,
    CompleteBody,
    CompletionAnswer,
    ExchangeAnswer,
    ExchangeBody,
    ExchangeCriteria,
    FailAnswer,
    FailBody,
    HeartbeatAnswer,
    HeartbeatBody,
    LeaseHeartbeatAnswer,
    ManyClaimed,
    NothingClaimed,
)
from euterpe.worker.reporting.job_log import report_attempt
from euterpe.worker.reporting.telemetry import AttemptEnd, reason_of, record_ends

COMPLETED: Final = msgspec.json.encode(CompleteAnswer(ok=True, ack=True))
_NOTHING: Final = Answer(200, msgspec.json.encode(NothingClaimed()))
_NO_JOBS: Final = Answer(200, msgspec.json.encode(ManyClaimed(claimed=False, jobs=[])))
_SECOND_US: Final = 1_000_000
_STALE: Final = "this lease is over, or was never yours; abort, nothing was written"
_NOT_THE_SAME: Final = "this attempt is closed with another result, or the token is not its own; nothing was written"


class WorkerRoutes:
    """Handlers over the control plane's store. Reports and heartbeats that wait together are written together."""

    def __init__(
        self,
        claims: ControlPlaneStore,
        sweeps: Sweeps,
        coordinator: LongPoll,
        wakeups: Wakeups,
        telemetry: Telemetry | None,
        presence: WorkerPresence,
        *,
        max_wait_ms: int,
        lease_ttl_us: int,
        trace: Trace | None = None,
    ) -> None:
        self._spans = AttemptSpans(trace)
        self._claims = claims
        self._sweeps = sweeps
        self._coordinator = coordinator
        self._wakeups = wakeups
        self._messages = wakeups if isinstance(wakeups, MessageWakeups) else None
        self._telemetry = telemetry
        self._presence = presence
        self._max_wait_ms = max_wait_ms
        self._lease_ttl_us = lease_ttl_us
        self._reports: Batcher[TokenReport, TokenReply] = Batcher(self._finish)
        self._heartbeats: Batcher[ShownLease, Renewed | None] = Batcher(
            lambda leases: claims.renew_leases(leases, lease_ttl_us)
        )

    async def claim(self, request: Request, body: ClaimBody) -> Answer:
        claims = await self._claimed(request, body, Waiter(body.worker_id, body.max_jobs or 1))
        if body.max_jobs is not None:
            if not claims:
                return _NO_JOBS
            jobs = [*map(one_of_many, claims, await self._messages_of(claims))]
            return Answer(200, msgspec.json.encode(ManyClaimed(claimed=True, jobs=jobs)))
        if not claims:
            return _NOTHING
        (message,) = await self._messages_of(claims[:1])
        return Answer(200, msgspec.json.encode(the_only_one(claims[0], message)))

    async def heartbeat(self, _: Request, body: HeartbeatBody) -> Answer:
        lease = lease_of(body, body.worker_id)
        if lease is None:
            raise refused_lease(_STALE)
        fields = fields_of(body)
        renewed = await (self._heartbeats.ask(lease) if fields is None else self._write_progress(lease, fields))
        if renewed is None:
            raise refused_lease(_STALE)
        self._presence.beats(body.worker_id)
        answer = HeartbeatAnswer(True, rfc3339(renewed.expires_at) or "", renewed.cancel_requested)
        return Answer(200, msgspec.json.encode(answer))

    async def complete(self, _: Request, body: CompleteBody) -> Answer:
        await self._ended(completion_report(body, body.worker_id))
        return Answer(200, COMPLETED)

    async def fail(self, _: Request, body: FailBody) -> Answer:
        state = await self._ended(failure_report(body, body.worker_id))
        answer = FailAnswer(ok=True, ack=True, requeued=_goes_on(state), dlq=state is State.DEAD_LETTER)
        return Answer(200, msgspec.json.encode(answer))

    async def exchange(self, request: Request, body: ExchangeBody) -> Answer:
        """In this order: who is alive, what ended, what goes on, what was lost, what comes next. All entries are
        checked before any is written."""
        name = body.worker_id
        completions = [completion_report(entry, name, f"/complete/{i}") for i, entry in enumerate(body.complete)]
        failures = [failure_report(entry, name, f"/fail/{i}") for i, entry in enumerate(body.fail)]
        heartbeats = [
            (lease_of(entry, name), fields_of(entry, f"/heartbeat/{i}")) for i, entry in enumerate(body.heartbeat)
        ]
        held = None if body.held is None else held_claims(body.held)
        if body.registration is not None:
            is_all = not (completions or failures or heartbeats or body.claim)
            await self._presence.register(body.worker_id, body.registration, must=is_all)
        replies = await self._replies([*completions, *failures])
        renewals = await self._renew_all(heartbeats)
        if heartbeats:
            self._presence.beats(body.worker_id)
        if held is not None and await self._sweeps.release_unbegun(body.worker_id, held):
            self._coordinator.wake_all()
        claims: list[Claim] = []
        if body.claim is not None:
            claims = await self._claimed(request, body.claim, _waiter(body, body.claim))
        together = self._messages is None and body.claim is not None and body.claim.uniform
        answer = ExchangeAnswer(
            complete=[_completion_answer(reply) for reply in replies[: len(completions)]],
            fail=[_failure_answer(reply.state) for reply in replies[len(completions) :]],
            heartbeat=renewals,
            claimed=bool(claims),
            jobs=[] if together else [*map(one_of_many, claims, await self._messages_of(claims))],
            uniform=grouped(claims) if together else msgspec.UNSET,
        )
        return Answer(200, msgspec.json.encode(answer))

    async def _claimed(self, request: Request, criteria: ClaimCriteria, waiter: Waiter) -> list[Claim]:
        self._presence.claims(request, waiter.worker_id, criteria)
        watch = request.watch(waiter.leave)
        try:
            wait_s = min(criteria.max_wait_ms, self._max_wait_ms) / 1000
            await self._coordinator.claim(waiter, criteria.streams, criteria.types, wait_s)
        finally:
            watch.cancel()
        claims = waiter.future.result()
        if waiter.gone:
            self._coordinator.give_back(claims)
            raise ClientGone
        self._announce_events(claim.job.callback_url is not None for claim in claims)
        self._count_claims(claims)
        self._spans.begin(request, claims)
        return claims

    async def _messages_of(self, claims: Sequence[Claim]) -> Sequence[Address | None]:
        if self._messages is None or not claims:
            return [None] * len(claims)
        return await self._messages.messages_of([claim.job for claim in claims])

    async def _ended(self, report: TokenReport | None) -> State:
        if report is None:
            raise refused_lease(_STALE)
        reply = await self._reports.ask(report)
        if reply.why is not None:
            raise Refusal(409, "illegal_transition", reply.why, ok=False, ack=False)
        if reply.state is None:
            raise refused_lease(_NOT_THE_SAME)
        return reply.state

    async def _replies(self, reports: Sequence[TokenReport | None]) -> list[TokenReply]:
        sent = [report for report in reports if report is not None]
        replies = await self._reports.ask_all(sent) if sent else []
        if len(sent) < len(reports):
            told = iter(replies)
            replies = [REFUSED if report is None else next(told) for report in reports]
        return replies

    async def _renew_all(
        self, heartbeats: Sequence[tuple[ShownLease | None, ProgressFields | None]]
    ) -> list[LeaseHeartbeatAnswer]:
        plain = [heartbeat for heartbeat, fields in heartbeats if heartbeat is not None and fields is None]
        renewed = iter(await self._heartbeats.ask_all(plain) if plain else ())
        answers = []
        for heartbeat, fields in heartbeats:
            if heartbeat is None:
                answers.append(_LEASE_OVER)
            elif fields is None:
                answers.append(_heartbeat_answer(next(renewed)))
            else:
                answers.append(await self._renew_with_progress(heartbeat, fields))
        return answers

    async def _renew_with_progress(self, lease: ShownLease, fields: ProgressFields) -> LeaseHeartbeatAnswer:
        try:
            return _heartbeat_answer(await self._claims.renew_with_progress(lease, fields, self._lease_ttl_us))
        except IllegalTransition as error:
            return LeaseHeartbeatAnswer(ok=False, code="illegal_transition", detail=str(error))

    async def _finish(self, reports: Sequence[TokenReport]) -> list[TokenReply]:
        replies = await self._claims.finish(reports)
        if self._messages is not None:  # After the commit, and never before.
            settled = zip(reports, replies, strict=True)
            self._messages.acknowledge([(r.job_id, r.message) for r, reply in settled if reply.state is not None])
        if any(reply.wakes_others for reply in replies):
            self._coordinator.wake_all()
        self._announce_events(reply.job is not None and reply.job.callback_url is not None for reply in replies)
        _log_failures(reports, replies, self._spans.end(reports, replies))
        if self._telemetry is not None:
            _count_ends(self._telemetry, reports, replies)
        return replies

    async def _write_progress(self, lease: ShownLease, fields: ProgressFields) -> Renewed | None:
        try:
            return await self._claims.renew_with_progress(lease, fields, self._lease_ttl_us)
        except IllegalTransition as error:
            raise Refusal(422, "illegal_transition", str(error), pointer="/stage") from None

    def _announce_events(self, have_callbacks: Iterable[bool]) -> None:
        """Events were written beside these changes; their delivery need not wait for a poll."""
        if any(have_callbacks):
            self._wakeups.announce([OUTBOX_CHANNEL])

    def _count_claims(self, claims: Sequence[Claim]) -> None:
        if self._telemetry is None:
            return
        latencies: dict[str, list[float]] = defaultdict(list)
        for claim in claims:
            job = claim.job
            waited_us = (job.started_at or 0) - max(job.scheduled_at or 0, job.run_at)
            latencies[job.queue].append(max(0, waited_us) / _SECOND_US)
        for queue, seconds in latencies.items():
            self._telemetry.claimed(queue, seconds)


def _waiter(body: ExchangeBody, criteria: ExchangeCriteria) -> Waiter:
    wants = 1 if criteria.max_jobs is None else criteria.max_jobs
    return Waiter(body.worker_id, wants, criteria.max_ahead or 0, criteria.ahead_types)


_COMPLETED: Final = CompletionAnswer(ok=True, ack=True)
_NOT_COMPLETED: Final = CompletionAnswer(ok=False, ack=False, code="stale_lease", detail=_NOT_THE_SAME)
_LEASE_OVER: Final = LeaseHeartbeatAnswer(ok=False, code="stale_lease", detail=_STALE)


def _completion_answer(reply: TokenReply) -> CompletionAnswer:
    if reply.why is not None:
        return CompletionAnswer(ok=False, ack=False, code="illegal_transition", detail=reply.why)
    return _COMPLETED if reply.state else _NOT_COMPLETED


def _failure_answer(state: State | None) -> AttemptFailureAnswer:
    if state is None:
        return AttemptFailureAnswer(False, False, False, False, code="stale_lease", detail=_NOT_THE_SAME)
    return AttemptFailureAnswer(True, True, _goes_on(state), state is State.DEAD_LETTER, state=state.value)


def _goes_on(state: State) -> bool:
    return state in (State.RETRYING, State.SCHEDULED)


def _heartbeat_answer(renewed: Renewed | None) -> LeaseHeartbeatAnswer:
    if renewed is None:
        return _LEASE_OVER
    expires_at = rfc3339(renewed.expires_at) or ""
    return LeaseHeartbeatAnswer(ok=True, lease_expires_at=expires_at, cancel_requested=renewed.cancel_requested)


def _log_failures(
    reports: Sequence[TokenReport], replies: Sequence[TokenReply], spans: Mapping[str, Mapping[str, str]]
) -> None:
    """As a worker beside the database tells them; a report that comes again tells nothing new."""
    for report, reply in zip(reports, replies, strict=True):
        job = reply.job
        if isinstance(report.outcome, Success) or job is None:
            continue
        took_s = max(0, time.time_ns() // 1000 - (job.started_at or 0)) / _SECOND_US
        span_keys = spans.get(attempt_id(report.job_id, report.claim_version))
        report_attempt(job, report.outcome, reply.state, reply.delay_us, took_s, span_keys)


def _count_ends(telemetry: Telemetry, reports: Sequence[TokenReport], replies: Sequence[TokenReply]) -> None:
    now_us = time.time_ns() // 1000
    ended: dict[AttemptEnd, list[float]] = defaultdict(list)
    stale = 0
    for report, reply in zip(reports, replies, strict=True):
        if reply.state is None:
            stale += 1
        elif reply.job is not None:
            job = reply.job
            reason = reason_of(report.outcome)
            duration_s = max(0, now_us - (job.started_at or now_us)) / _SECOND_US
            ended[AttemptEnd(job.queue, job.type, reply.state, reason)].append(duration_s)
    record_ends(telemetry, ended)
    if stale:
        telemetry.stale_write(stale)
