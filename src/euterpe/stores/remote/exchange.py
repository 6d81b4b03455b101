"""A worker's side of the protocol: whatever it has to say goes out in one request, `turn`, and claims come back.

Every entry can be told again after a lost answer: the control plane answers as it did the first time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from euterpe.model.claims.exchange import COMPLETED, ClaimRequest, HeartbeatReply, ProgressUpdate, Report, SettleResult
from euterpe.model.claims.outcome import Cancelled, Failed, Outcome, Released, Success
from euterpe.model.errors import PayloadTooLarge
from euterpe.model.failures.failure import Category, Failure
from euterpe.model.job import Claim, Lease, attempt_id
from euterpe.model.state import State
from euterpe.stores.remote.documents import (
    Blank,
    ClaimedDocument,
    UniformDocument,
    claim_of,
    claims_of,
    error_body,
    microseconds,
    stored_to_wire,
)
from euterpe.stores.remote.session import ControlPlaneSession, illegal_move
from euterpe.wire.attempt_logs import AttemptLogBody, attempt_log_body
from euterpe.wire.worker import AHEAD_TYPES_LIMIT, HELD_LIMIT

EXCHANGE_ROUTE: Final = "/internal/worker/turn"
EXCHANGE_LIMIT: Final = 1_000
EXCHANGE_BYTES: Final = 1_000_000
"""How much of results and errors one request carries; a control plane may refuse bodies over its own limit."""
ANSWER_S: Final = 30.0
NAMELESS: Final = "lease-keeper"
NO_TOKEN: Final = "none"  # noqa: S105  # a lease without one is refused, which is the answer it deserves


class ExchangeEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One attempt of which something is told; only what is said is sent."""

    job_id: str
    attempt_id: str
    lease_token: str
    result: msgspec.Raw = Blank
    error: dict[str, Any] | None = None
    released: bool = False
    stage: str | None = None
    progress: dict[str, Any] | None = None
    checkpoint: Any = None
    checkpoint_format: str = "json"
    log: AttemptLogBody | None = None


class SettleReply(msgspec.Struct, frozen=True):
    """The answer to a completion or a failure."""

    ok: bool
    state: State = State.COMPLETED


class LeaseReply(msgspec.Struct, frozen=True):
    """The answer to a heartbeat."""

    ok: bool
    lease_expires_at: datetime | None = None
    cancel_requested: bool = False
    code: str = ""
    detail: str = ""


class ExchangeReply(msgspec.Struct, frozen=True):
    complete: list[SettleReply]
    fail: list[SettleReply]
    heartbeat: list[LeaseReply]
    jobs: list[ClaimedDocument]
    uniform: list[UniformDocument] = []


_ANSWER: Final = msgspec.json.Decoder(ExchangeReply)


class RemoteExchange:
    """The requests of a worker and of its lease keeper."""

    def __init__(self, session: ControlPlaneSession) -> None:
        self._session = session

    async def run(
        self, finished: Sequence[Report], request: ClaimRequest | None, wait_ms: int = 0
    ) -> tuple[list[SettleResult], list[Claim]]:
        """Not one transaction: what was reported stays reported when the claim fails, and can be reported again."""
        *earlier, last = _portions(finished) or [()]
        if request is not None and last and _name(last, None) != request.worker_id:
            earlier, last = [*earlier, last], ()  # A token is its worker's own.
        verdicts: list[SettleResult] = []
        for portion in earlier:
            verdicts += (await self._run(portion, None, 0))[0]
        rest, claims = await self._run(last, request, wait_ms)
        return verdicts + rest, claims

    async def _run(
        self, finished: Sequence[Report], request: ClaimRequest | None, wait_ms: int
    ) -> tuple[list[SettleResult], list[Claim]]:
        body = _reports_body(finished, _name(finished, request))
        if request is not None:
            body["claim"] = _criteria(request, wait_ms)
        try:
            answer = await self._ask(body, ANSWER_S + wait_ms / 1000)
        except PayloadTooLarge:
            if len(finished) < 2:
                raise
            half = len(finished) // 2
            verdicts, _ = await self._run(finished[:half], None, 0)
            rest, claims = await self._run(finished[half:], request, wait_ms)
            return verdicts + rest, claims
        worker_id = body["worker_id"]
        claims = [claim_of(job, worker_id) for job in answer.jobs]
        for group in answer.uniform:
            claims += claims_of(group, worker_id)
        return _verdicts(finished, answer), claims

    async def renew(self, leases: Sequence[Lease]) -> list[HeartbeatReply]:
        """A token is its worker's own, so each worker's leases are a request of their own. A process has one worker."""
        replies: dict[Lease, HeartbeatReply] = {}
        by_worker: dict[str, list[Lease]] = defaultdict(list)
        for lease in leases:
            by_worker[lease.worker_id or NAMELESS].append(lease)
        for worker_id, own in by_worker.items():
            for at in range(0, len(own), EXCHANGE_LIMIT):
                portion = own[at : at + EXCHANGE_LIMIT]
                answer = await self._ask({"worker_id": worker_id, "heartbeat": [_entry(lease) for lease in portion]})
                for lease, kept in zip(portion, answer.heartbeat, strict=True):
                    expires_at = microseconds(kept.lease_expires_at) or 0
                    replies[lease] = HeartbeatReply(lease, kept.ok, expires_at, kept.cancel_requested)
        return [replies[lease] for lease in leases]

    async def report_held(self, worker_id: str, claims: Collection[tuple[str, int]]) -> None:
        """What else is claimed under this name goes back, uncharged: the answers to those claims were lost. A worker
        with more than can be told waits for the end of their leases."""
        if len(claims) <= HELD_LIMIT:
            await self._ask({"worker_id": worker_id, "held": [attempt_id(*claim) for claim in claims]})

    async def update_progress(self, updates: Sequence[ProgressUpdate]) -> list[bool]:
        """Whether each of them still owned its job."""
        worker_id = updates[0].claim.job.worker_id or NAMELESS
        answer = await self._ask({"worker_id": worker_id, "heartbeat": [*map(_progress_entry, updates)]})
        for kept in answer.heartbeat:
            if kept.code == "illegal_transition":
                raise illegal_move(kept.detail)
        return [kept.ok for kept in answer.heartbeat]

    async def _ask(self, body: dict[str, Any], answer_s: float = ANSWER_S) -> ExchangeReply:
        return _ANSWER.decode((await self._session.post(EXCHANGE_ROUTE, body, answer_s=answer_s)).body)


def _reports_body(finished: Sequence[Report], worker_id: str) -> dict[str, Any]:
    return {
        "worker_id": worker_id,
        "complete": [_completed(f, f.outcome) for f in finished if isinstance(f.outcome, Success)],
        "fail": [_failed(f, f.outcome) for f in finished if not isinstance(f.outcome, Success)],
    }


def _portions(finished: Sequence[Report]) -> list[Sequence[Report]]:
    return list(_cut(finished))


def _cut(finished: Sequence[Report]) -> Iterator[Sequence[Report]]:
    start = size = 0
    for i, f in enumerate(finished):
        weight = _weight(f.outcome) + len(f.log or "")
        is_others = f.claim.job.worker_id != finished[start].claim.job.worker_id
        if i > start and (is_others or i - start >= EXCHANGE_LIMIT or size + weight > EXCHANGE_BYTES):
            yield finished[start:i]
            start, size = i, 0
        size += weight
    if start < len(finished):
        yield finished[start:]


def _weight(outcome: Outcome) -> int:
    match outcome:
        case Success(result):
            return len(result or b"")
        case Failed(failure):
            return len(failure.message) + len(failure.stack or "")
        case _:
            return 0


def _name(finished: Sequence[Report], request: ClaimRequest | None) -> str:
    if request is not None:
        return request.worker_id
    return (finished[0].claim.job.worker_id if finished else None) or NAMELESS


def _criteria(request: ClaimRequest, wait_ms: int) -> dict[str, Any]:
    wanted: dict[str, Any] = {
        "streams": request.queues,
        "max_jobs": min(request.limit, EXCHANGE_LIMIT),
        "max_wait_ms": wait_ms,
        "max_ahead": 0,
        "uniform": True,
    }
    if request.prefetch and request.prefetch_types:
        wanted["max_ahead"] = min(request.prefetch, EXCHANGE_LIMIT - wanted["max_jobs"])
        wanted["ahead_types"] = request.prefetch_types[:AHEAD_TYPES_LIMIT]
    if request.types is not None:
        wanted["types"] = request.types
    return wanted


def _entry(lease: Lease, **more: Any) -> ExchangeEntry:
    return ExchangeEntry(lease.job_id, lease.attempt_id, lease.token or NO_TOKEN, **more)


def _completed(finished: Report, outcome: Success) -> ExchangeEntry:
    lease = finished.claim.lease
    said = (lease.job_id, lease.attempt_id, lease.token or NO_TOKEN)
    result = Blank if outcome.result is None else msgspec.Raw(outcome.result)
    if finished.log is None:
        return ExchangeEntry(*said, result)
    return ExchangeEntry(*said, result, log=attempt_log_body(finished.log))


def _failed(finished: Report, outcome: Outcome) -> ExchangeEntry:
    lease, log = finished.claim.lease, None if finished.log is None else attempt_log_body(finished.log)
    match outcome:
        case Released():
            return _entry(lease, released=True, log=log)
        case Cancelled(reason):
            return _entry(lease, error=error_body(Failure(Category.CANCELLED, reason, code="cancelled")), log=log)
        case Failed(failure):
            return _entry(lease, error=error_body(failure), log=log)
        case _:
            raise TypeError(f"{outcome!r} is no failure")


def _progress_entry(updates: ProgressUpdate) -> ExchangeEntry:
    entry: dict[str, Any] = {"stage": updates.stage}
    if updates.progress is not None or updates.message is not None:
        entry["progress"] = {"percent": updates.progress or 0.0, "message": updates.message}
    if updates.checkpoint is not None:
        form = "json" if updates.checkpoint[:1] == b"j" else "bytes"
        entry["checkpoint"] = stored_to_wire(updates.checkpoint[1:], form)
        entry["checkpoint_format"] = form
    return _entry(updates.claim.lease, **entry)


def _verdicts(finished: Sequence[Report], answer: ExchangeReply) -> list[SettleResult]:
    completed, failed = iter(answer.complete), iter(answer.fail)
    verdicts = []
    for f in finished:
        if isinstance(f.outcome, Success):
            verdicts.append(COMPLETED if next(completed).ok else _STALE)
        else:
            ended = next(failed)
            verdicts.append(SettleResult(True, ended.state) if ended.ok else _STALE)
    return verdicts


_STALE: Final = SettleResult(False)
