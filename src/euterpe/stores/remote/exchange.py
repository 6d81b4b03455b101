"""A worker's side of the protocol: whatever it has to say goes out in one request, `turn`, and claims come back.

Every entry can be told again after a lost answer: the control plane answers as it did the first time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from euterpe.model.claims.exchange import COMPLETED, ClaimRequest, HeartbeatReply, ProgressUpdate, Report, SettleResult
from euterpe.model.claims.outcome import Cancelled, Failed, Outcome, Released, Success
from euterpe.model.claims.worker_reports import RECEIPT_MARK
from euterpe.model.errors import EuterpeError, InvalidInput, PayloadTooLarge, StoreUnavailable
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
ASK_AGAIN_S: Final = (0.5, 0.5, 1.0, 1.0)
"""Before each time that a lease on a receipt is told of again. The control plane that claimed it puts it onto its row
after 0.3 s, where one of an older release finds it."""
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
    claims_ahead: bool = False
    receipts: bool = False
    uniform: list[UniformDocument] = []
    refused: list[int] | None = None


_ANSWER: Final = msgspec.json.Decoder(ExchangeReply)


class RemoteExchange:
    """The requests of a worker and of its lease keeper."""

    def __init__(self, session: ControlPlaneSession) -> None:
        self._session = session
        self._gives_ahead = False
        """Whether the control plane lets a worker claim ahead, as its last answer to a claim said."""
        self._takes_done = False
        """Whether it takes completions in their shorter form, as its last answer told."""

    def can_answer(self, request: ClaimRequest) -> bool:
        """An older control plane refuses a claim for no free slot."""
        return request.is_answerable and (request.limit > 0 or self._gives_ahead)

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
        is_short = self._takes_done
        body = _reports_body(finished, _name(finished, request), is_short=is_short)
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
        except InvalidInput:
            if request is None or request.limit > 0 or not self._gives_ahead:
                raise
            self._gives_ahead = False  # An older control plane answers beside the one that gave.
            return await self._run(finished, None, 0)
        if request is not None:
            self._gives_ahead = answer.claims_ahead
        verdicts = _verdicts(finished, answer, is_short=is_short)
        if not answer.receipts:
            await self._report_again(finished, verdicts)
        self._takes_done = answer.receipts
        worker_id = body["worker_id"]
        claims = [claim_of(job, worker_id) for job in answer.jobs]
        for group in answer.uniform:
            claims += claims_of(group, worker_id)
        return verdicts, claims

    async def _report_again(self, finished: Sequence[Report], verdicts: list[SettleResult]) -> None:
        """An older control plane, beside the one that claimed, refuses what it does not know, and does not read what is
        told in short. Fills in the verdicts."""
        for pause_s in (0.0, *ASK_AGAIN_S):
            refused = [
                i
                for i, (report, verdict) in enumerate(zip(finished, verdicts, strict=True))
                if verdict is _UNREAD or (pause_s and not verdict.accepted and _is_on_receipt(report.claim.lease))
            ]
            if not refused:
                if pause_s:
                    return
                continue
            await asyncio.sleep(pause_s)
            portion = [finished[i] for i in refused]
            try:
                answer = await self._ask(_reports_body(portion, _name(portion, None), is_short=False))
            except EuterpeError:
                told = [_UNREPORTED] * len(portion)  # What was claimed in the same answer must not be lost for it.
            else:
                told = _verdicts(portion, answer, is_short=False)
            for i, verdict in zip(refused, told, strict=True):
                verdicts[i] = verdict
            if told[0] is _UNREPORTED or answer.receipts:
                return

    async def renew(self, leases: Sequence[Lease]) -> list[HeartbeatReply]:
        replies: list[HeartbeatReply] = []
        for at in range(0, len(leases), EXCHANGE_LIMIT):
            portion = leases[at : at + EXCHANGE_LIMIT]
            body = {"worker_id": NAMELESS, "heartbeat": [_entry(lease) for lease in portion]}
            answer = await self._ask(body)
            replies += [
                HeartbeatReply(lease, k.ok, microseconds(k.lease_expires_at) or 0, k.cancel_requested)
                if k.ok or answer.receipts or not _is_on_receipt(lease)
                # An older control plane, beside the one that claimed, may not know it: it is as it was.
                else HeartbeatReply(lease, True, lease.expires_at, False, renewed=False)
                for lease, k in zip(portion, answer.heartbeat, strict=True)
            ]
        return replies

    async def report_held(self, worker_id: str, claims: Collection[tuple[str, int]]) -> None:
        """What else is claimed under this name goes back, uncharged: the answers to those claims were lost. A worker
        with more than can be told waits for the end of their leases."""
        if len(claims) <= HELD_LIMIT:
            await self._ask({"worker_id": worker_id, "held": [attempt_id(*claim) for claim in claims]})

    async def update_progress(self, updates: Sequence[ProgressUpdate]) -> list[bool]:
        """Whether each of them still owned its job."""
        worker_id = updates[0].claim.job.worker_id or NAMELESS
        answer = await self._ask({"worker_id": worker_id, "heartbeat": [*map(_progress_entry, updates)]})
        for update, kept in zip(updates, answer.heartbeat, strict=True):
            if kept.code == "illegal_transition":
                raise illegal_move(kept.detail)
            if not kept.ok and not answer.receipts and _is_on_receipt(update.claim.lease):
                raise StoreUnavailable("this control plane is of an older release, and does not know the lease yet")
        return [kept.ok for kept in answer.heartbeat]

    async def _ask(self, body: dict[str, Any], answer_s: float = ANSWER_S) -> ExchangeReply:
        body["receipts"] = True
        return _ANSWER.decode((await self._session.post(EXCHANGE_ROUTE, body, answer_s=answer_s)).body)


def _reports_body(finished: Sequence[Report], worker_id: str, *, is_short: bool) -> dict[str, Any]:
    body: dict[str, Any] = {"worker_id": worker_id}
    if is_short:
        body["done"] = [_done(f.claim.lease, f.outcome) for f in finished if _can_be_short(f)]
        finished = [f for f in finished if not _can_be_short(f)]
    body["complete"] = [_completed(f, f.outcome) for f in finished if isinstance(f.outcome, Success)]
    body["fail"] = [_failed(f, f.outcome) for f in finished if not isinstance(f.outcome, Success)]
    return body


def _can_be_short(finished: Report) -> bool:
    return type(finished.outcome) is Success and finished.log is None


def _done(lease: Lease, outcome: Outcome) -> tuple[str, str, msgspec.Raw]:
    result = outcome.result if isinstance(outcome, Success) else None
    return lease.attempt_id, lease.token or NO_TOKEN, Blank if result is None else msgspec.Raw(result)


def _is_on_receipt(lease: Lease) -> bool:
    return lease.token is not None and lease.token.startswith(RECEIPT_MARK)


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


def _verdicts(finished: Sequence[Report], answer: ExchangeReply, *, is_short: bool) -> list[SettleResult]:
    completed, failed = iter(answer.complete), iter(answer.fail)
    refused = set(answer.refused or ())
    verdicts = []
    place = 0
    for f in finished:
        if is_short and _can_be_short(f):
            if answer.refused is None:
                verdicts.append(_UNREAD)
            else:
                verdicts.append(_STALE if place in refused else COMPLETED)
            place += 1
            continue
        ended = next(completed if isinstance(f.outcome, Success) else failed)
        verdicts.append(SettleResult(True, ended.state) if ended.ok else _STALE)
    return verdicts


_STALE: Final = SettleResult(False)
_UNREPORTED: Final = SettleResult(False, locked=True)
"""To be settled again."""
_UNREAD: Final = SettleResult(False, locked=True)
"""An older control plane did not read it."""
