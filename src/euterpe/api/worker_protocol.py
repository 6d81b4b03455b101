"""Claim, heartbeat, complete, fail: the contract that a worker in any language can keep with plain HTTP.

Completion is idempotent by job and attempt and guarded by the lease token: the same report again gets the first
answer, any other 409, and then nothing was written. A worker key runs the jobs of every requester.
"""

from __future__ import annotations

import hashlib
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from euterpe.api.asgi import Answer, ClientGone, Request
from euterpe.api.coordinator import Coordinator, Waiter
from euterpe.api.decoding import canonical_json
from euterpe.api.gathering import Gathering
from euterpe.api.problems import Refusal, pointer_of, refused_lease
from euterpe.api.submissions import bytes_of
from euterpe.api.wire_worker import (
    ABSENT,
    ClaimBody,
    ClaimedJob,
    CompleteAnswer,
    CompleteBody,
    FailAnswer,
    FailBody,
    HeartbeatAnswer,
    HeartbeatBody,
    ManyClaimed,
    NothingClaimed,
    OneClaimed,
    ProgressSaid,
    StreamRef,
    WorkerError,
)
from euterpe.duration import parse_duration_us
from euterpe.model.document import rfc3339
from euterpe.model.errors import IllegalTransition, InvalidInput
from euterpe.model.failure import Category, Failure
from euterpe.model.job import Claim, Job, parse_attempt_id
from euterpe.model.outcome import Cancelled, Failed, Outcome, Released, Success
from euterpe.model.priority import PRIORITY_NAMES
from euterpe.model.state import State
from euterpe.model.submission import RESULT_LIMIT
from euterpe.ports import OUTBOX_CHANNEL, Telemetry, Wakeups
from euterpe.store.claiming import hash_token
from euterpe.store.wire import News, Renewed, Reply, Report, TokenBeat, WireClaims

COMPLETED: Final = msgspec.json.encode(CompleteAnswer(ok=True, ack=True))
_NOTHING: Final = Answer(200, msgspec.json.encode(NothingClaimed()))
_NO_JOBS: Final = Answer(200, msgspec.json.encode(ManyClaimed(claimed=False, jobs=[])))
_SECOND_US: Final = 1_000_000
_STALE: Final = "this lease is over, or was never yours; abort, nothing was written"
_NOT_THE_SAME: Final = "this attempt is closed with another result, or the token is not its own; nothing was written"


class WorkerRoutes:
    """Handlers over the wire store. Reports and beats that wait together are written together."""

    def __init__(
        self,
        claims: WireClaims,
        coordinator: Coordinator,
        wakeups: Wakeups,
        telemetry: Telemetry | None,
        *,
        max_wait_ms: int,
        lease_ttl_us: int,
    ) -> None:
        self._claims = claims
        self._coordinator = coordinator
        self._wakeups = wakeups
        self._telemetry = telemetry
        self._max_wait_ms = max_wait_ms
        self._lease_ttl_us = lease_ttl_us
        self._reports: Gathering[Report, Reply] = Gathering(self._finish)
        self._beats: Gathering[TokenBeat, Renewed | None] = Gathering(lambda beats: claims.beat(beats, lease_ttl_us))

    async def claim(self, request: Request, body: ClaimBody) -> Answer:
        waiter = Waiter(body.worker_id, body.max_jobs or 1)
        watch = request.watch(waiter.leave)
        try:
            wait_s = min(body.max_wait_ms, self._max_wait_ms) / 1000
            await self._coordinator.claim(waiter, body.streams, body.types, wait_s)
        finally:
            watch.cancel()
        claims = waiter.future.result()
        if waiter.gone:
            self._coordinator.give_back(claims)
            raise ClientGone
        self._tell_outbox(claim.job for claim in claims)
        self._count_claims(claims)
        if body.max_jobs is not None:
            if not claims:
                return _NO_JOBS
            jobs = [ClaimedJob(**claimed_fields(claim)) for claim in claims]
            return Answer(200, msgspec.json.encode(ManyClaimed(claimed=True, jobs=jobs)))
        if not claims:
            return _NOTHING
        return Answer(200, msgspec.json.encode(OneClaimed(claimed=True, **claimed_fields(claims[0]))))

    async def heartbeat(self, _: Request, body: HeartbeatBody) -> Answer:
        version = None
        job_id = str(body.job_id)
        if body.attempt_id is not None:
            version = _claim_version(job_id, body.attempt_id)
        beat = TokenBeat(job_id, hash_token(body.lease_token), version)
        news = _news(body)
        if news is None:
            renewed = await self._beats.ask(beat)
        else:
            renewed = await self._tell(beat, news)
        if renewed is None:
            raise refused_lease(_STALE)
        answer = HeartbeatAnswer(True, rfc3339(renewed.expires_at) or "", renewed.cancel_requested)
        return Answer(200, msgspec.json.encode(answer))

    async def complete(self, _: Request, body: CompleteBody) -> Answer:
        result, spelled = None, b"null"
        if bytes(body.result) not in ABSENT:
            result, spelled = bytes(body.result), canonical_json(body.result, "/result")
            if len(result) > RESULT_LIMIT:
                detail = f"{len(result)} bytes; the limit is {RESULT_LIMIT}. Store it elsewhere and send a pointer"
                raise Refusal(413, "payload_too_large", detail, pointer="/result")
        await self._report(body, Success(result), b"complete" + spelled)
        return Answer(200, COMPLETED)

    async def fail(self, _: Request, body: FailBody) -> Answer:
        if body.released:
            outcome: Outcome = Released()
        elif body.error is None:
            raise Refusal(422, "invalid_input", "say what went wrong, or `released`", pointer="/error")
        else:
            outcome = _failed(body.error)
        said = b"fail" + msgspec.json.encode((body.released, body.error))
        state = await self._report(body, outcome, said)
        answer = FailAnswer(
            ok=True,
            ack=True,
            requeued=state in (State.RETRYING, State.SCHEDULED),
            dlq=state is State.DEAD_LETTER,
        )
        return Answer(200, msgspec.json.encode(answer))

    async def _report(self, body: CompleteBody | FailBody, outcome: Outcome, said: bytes) -> State:
        job_id = str(body.job_id)
        version = _claim_version(job_id, body.attempt_id)
        report = Report(job_id, version, hash_token(body.lease_token), outcome, hashlib.sha256(said).digest())
        reply = await self._reports.ask(report)
        if reply.state is None:
            raise refused_lease(_NOT_THE_SAME)
        return reply.state

    async def _finish(self, reports: Sequence[Report]) -> list[Reply]:
        replies = await self._claims.finish(reports)
        if any(reply.stirs for reply in replies):
            self._coordinator.wake_all()
        self._tell_outbox(reply.settled for reply in replies if reply.settled is not None)
        if self._telemetry is not None:
            _count_ends(self._telemetry, reports, replies)
        return replies

    async def _tell(self, beat: TokenBeat, news: News) -> Renewed | None:
        try:
            return await self._claims.beat_with_news(beat, news, self._lease_ttl_us)
        except IllegalTransition as error:
            raise Refusal(422, "illegal_transition", str(error), pointer="/stage") from None

    def _tell_outbox(self, jobs: Iterable[Job]) -> None:
        """Events were written beside these changes; their delivery need not wait for a poll."""
        if any(job.callback_url is not None for job in jobs):
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


def claimed_fields(claim: Claim) -> dict[str, Any]:
    """A claim as a worker sees it."""
    job, lease = claim.job, claim.lease
    ttl_s = (lease.expires_at - (job.started_at or 0)) / _SECOND_US
    fields: dict[str, Any] = {
        "job_id": job.id,
        "attempt_id": lease.attempt_id,
        "lease_token": lease.token,
        "stream": stream_of(claim),
        "payload": json_or_base64(job.payload, job.payload_format),
        "lease_ttl_seconds": ttl_s,
        "heartbeat_interval_seconds": ttl_s / 3,
        "type": job.type,
        "attempt": job.attempt_count,
        "max_attempts": job.max_attempts,
        "timeout_seconds": job.execution_timeout_us / _SECOND_US,
        "lease_expires_at": rfc3339(lease.expires_at),
        "priority": PRIORITY_NAMES[job.priority],
        "created_at": rfc3339(job.created_at),
        "previous_attempt_id": job.previous_attempt_id,
        "correlation_id": job.correlation_id,
    }
    if job.payload_format != "json":
        fields["payload_format"] = job.payload_format
    if job.tags_json:
        fields["tags"] = job.tags
    if job.stages_json:
        fields["stages"] = list(job.stages)
    if job.checkpoint:
        form = "bytes" if job.checkpoint[:1] == b"b" else "json"
        fields["checkpoint"] = json_or_base64(job.checkpoint[1:], form)
        fields["checkpoint_format"] = form
    return fields


def stream_of(claim: Claim) -> StreamRef:
    """Without a transport there is no message; the attempt's id stands in, stable and used once."""
    return StreamRef(claim.job.queue, claim.lease.attempt_id)


def json_or_base64(stored: bytes, form: str) -> msgspec.Raw | dict[str, bytes]:
    return msgspec.Raw(stored) if form == "json" else {"base64": stored}


def _claim_version(job_id: str, attempt_id: str) -> int:
    """The fence inside an attempt's id; an id that is not this job's is nobody's lease."""
    parsed = parse_attempt_id(attempt_id)
    if parsed is None or parsed[0].lower() != job_id or parsed[1] >= 2**63:
        raise refused_lease(_STALE)
    return parsed[1]


def _news(body: HeartbeatBody) -> News | None:
    has_checkpoint = bytes(body.checkpoint) not in ABSENT
    if body.stage is None and body.progress is None and not has_checkpoint:
        return None
    said = body.progress
    percent = said.percent if isinstance(said, ProgressSaid) else said
    checkpoint = None
    if has_checkpoint:
        mark = b"j" if body.checkpoint_format == "json" else b"b"
        checkpoint = mark + bytes_of(body.checkpoint, body.checkpoint_format, "/checkpoint")
        if len(checkpoint) > RESULT_LIMIT:
            detail = f"{len(checkpoint)} bytes; the limit is {RESULT_LIMIT}"
            raise Refusal(413, "payload_too_large", detail, pointer="/checkpoint")
    message = said.message if isinstance(said, ProgressSaid) else None
    return News(stage=body.stage, progress=percent, message=message, checkpoint=checkpoint)


def _failed(error: WorkerError) -> Outcome:
    """`retryable` true is temporary, false permanent, unless the category says it finer."""
    category = Category(error.category or ("temporary" if error.retryable else "permanent"))
    if category is Category.CANCELLED:
        return Cancelled(error.message)
    try:
        retry_after_us = None if error.retry_after is None else parse_duration_us(error.retry_after, "retry_after")
    except InvalidInput as wrong:
        pointer = "/error" + pointer_of(wrong.field)
        raise Refusal(422, "invalid_input", wrong.reason, pointer=pointer) from None
    return Failed(Failure(category, error.message, error.code, error.stack, retry_after_us, error.http_status))


def _count_ends(telemetry: Telemetry, reports: Sequence[Report], replies: Sequence[Reply]) -> None:
    now_us = time.time_ns() // 1000
    ended: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    stale = 0
    for report, reply in zip(reports, replies, strict=True):
        if reply.state is None:
            stale += 1
        elif reply.settled is not None:
            outcome = report.outcome
            reason = str(outcome.failure.category) if isinstance(outcome, Failed) else "other"
            duration_s = max(0, now_us - (reply.settled.started_at or now_us)) / _SECOND_US
            ended[(reply.settled.queue, str(reply.state), reason)].append(duration_s)
    for (queue, state, reason), durations_s in ended.items():
        telemetry.settled(queue, state, len(durations_s), durations_s, reason)
    if stale:
        telemetry.stale_write(stale)
