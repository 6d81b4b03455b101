"""A worker's side of the protocol: whatever it has to say goes out in one request, `turn`, and claims come back.

Every entry can be told again after a lost answer: the control plane answers as it did the first time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from euterpe.model.claims.exchange import ClaimRequest, HeartbeatReply, ProgressUpdate, Report, SettleResult
from euterpe.model.claims.outcome import Cancelled, Failed, Outcome, Released, Success
from euterpe.model.errors import PayloadTooLarge
from euterpe.model.failures.failure import Category, Failure
from euterpe.model.job import Claim, Lease
from euterpe.model.state import State
from euterpe.stores.remote.documents import Blank, ClaimedDocument, claim_of, error_body, microseconds, stored_to_wire
from euterpe.stores.remote.session import ControlPlaneSession, illegal_move
from euterpe.wire.attempt_logs import AttemptLogBody, attempt_log_body

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
        verdicts: list[SettleResult] = []
        for portion in earlier:
            verdicts += (await self._run(portion, None, 0))[0]
        rest, claims = await self._run(last, request, wait_ms)
        return verdicts + rest, claims

    async def _run(
        self, finished: Sequence[Report], request: ClaimRequest | None, wait_ms: int
    ) -> tuple[list[SettleResult], list[Claim]]:
        body: dict[str, Any] = {"worker_id": _name(finished, request)}
        body["complete"] = [_completed(f, f.outcome) for f in finished if isinstance(f.outcome, Success)]
        body["fail"] = [_failed(f, f.outcome) for f in finished if not isinstance(f.outcome, Success)]
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
        verdicts = _verdicts(finished, answer)
        worker_id = body["worker_id"]
        return verdicts, [claim_of(job, worker_id) for job in answer.jobs]

    async def renew(self, leases: Sequence[Lease]) -> list[HeartbeatReply]:
        replies: list[HeartbeatReply] = []
        for at in range(0, len(leases), EXCHANGE_LIMIT):
            portion = leases[at : at + EXCHANGE_LIMIT]
            body = {"worker_id": NAMELESS, "heartbeat": [_entry(lease) for lease in portion]}
            kept = (await self._ask(body)).heartbeat
            replies += [
                HeartbeatReply(lease, k.ok, microseconds(k.lease_expires_at) or 0, k.cancel_requested)
                for lease, k in zip(portion, kept, strict=True)
            ]
        return replies

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


def _portions(finished: Sequence[Report]) -> list[Sequence[Report]]:
    return list(_cut(finished))


def _cut(finished: Sequence[Report]) -> Iterator[Sequence[Report]]:
    start = size = 0
    for i, f in enumerate(finished):
        weight = _weight(f.outcome) + len(f.log or "")
        if i > start and (i - start >= EXCHANGE_LIMIT or size + weight > EXCHANGE_BYTES):
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
    }
    if request.types is not None:
        wanted["types"] = request.types
    return wanted


def _entry(lease: Lease, **more: Any) -> ExchangeEntry:
    return ExchangeEntry(lease.job_id, lease.attempt_id, lease.token or NO_TOKEN, **more)


def _completed(finished: Report, outcome: Success) -> ExchangeEntry:
    lease = finished.claim.lease
    token = lease.token or NO_TOKEN
    if finished.log is not None:
        result = Blank if outcome.result is None else msgspec.Raw(outcome.result)
        return _entry(lease, result=result, log=attempt_log_body(finished.log))
    if outcome.result is None:
        return ExchangeEntry(lease.job_id, lease.attempt_id, token)
    return ExchangeEntry(lease.job_id, lease.attempt_id, token, msgspec.Raw(outcome.result))


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
        ended = next(completed if isinstance(f.outcome, Success) else failed)
        verdicts.append(SettleResult(True, ended.state) if ended.ok else _STALE)
    return verdicts


_STALE: Final = SettleResult(False)
