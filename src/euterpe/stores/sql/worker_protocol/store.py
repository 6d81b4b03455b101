"""The worker protocol's side of the store: claims handed to waiting HTTP workers, leases known by their token alone.

A token is made for one claim version and never for another, so it fences as well as the version does. What a worker
reports is settled in batches; a report that comes again finds its closed attempt and gets the first answer.
"""

from __future__ import annotations

import logging
import secrets
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Final, NamedTuple

import msgspec

from euterpe.model.claims.exchange import ClaimRequest, ProgressUpdate
from euterpe.model.claims.outcome import Released, Settlement, Success, settle_logged
from euterpe.model.claims.worker_reports import (
    LOCKED,
    REFUSED,
    ProgressFields,
    Renewed,
    Settled,
    TokenHeartbeat,
    TokenReply,
    TokenReport,
    hash_token,
)
from euterpe.model.errors import CommitUnknown, EuterpeError, StoreUnavailable
from euterpe.model.job import Claim, JobRow, Lease
from euterpe.model.state import State, check_advance
from euterpe.stores.sql.engine import Engine
from euterpe.stores.sql.exchange.simple_jobs import is_simple
from euterpe.stores.sql.jobs import heartbeat, settle
from euterpe.stores.sql.jobs.claim import Claimed, ask_until_free, take_jobs
from euterpe.stores.sql.jobs.effects import insert_events
from euterpe.stores.sql.jobs.ended_jobs import EndedBy, EndReporter
from euterpe.stores.sql.jobs.usable_claims import usable_claims
from euterpe.stores.sql.program import Program, Row, each, one
from euterpe.stores.sql.rows import job_from
from euterpe.stores.sql.statements import Family
from euterpe.stores.sql.worker_protocol.fast_path import WorkerProtocolFastPath
from euterpe.stores.sql.worker_protocol.lost_claims import LostClaim, give_back_lost
from euterpe.stores.sql.worker_protocol.tokens import token_of

log = logging.getLogger("euterpe.api")

CONFIRM_TRIES: Final = 3


class WorkerProtocolStore:
    """Claims, heartbeats and reports of HTTP workers, each in batches of one transaction."""

    def __init__(self, engine: Engine, rng: Random, end_reporter: EndReporter | None = None) -> None:
        self._engine = engine
        self._rng = rng
        self._end_reporter = end_reporter or EndReporter(engine)
        self._fast_path = WorkerProtocolFastPath(engine)

    async def close(self) -> None:
        await self._fast_path.close()

    async def claim_for(self, request: ClaimRequest, worker_ids: Sequence[str]) -> list[Claim]:
        """At most one job for each of these workers (a worker may stand there several times), in their order. They are
        as many as the request has places, those for what must begin at once before those for what can wait."""
        if request.by_receipt and len(set(worker_ids)) > 1 and await self._fast_path.has_jobs_for_each(request):
            claims = await self._claim_apart(request, worker_ids)
        else:
            claims = await self._claim(request, worker_ids)
        return await usable_claims(self._engine, self._end_reporter, claims, sent_as_json=True)

    async def _claim_apart(self, request: ClaimRequest, worker_ids: Sequence[str]) -> list[Claim]:
        """For one worker after the other: a receipt names its owner. What is claimed is not lost for an error."""
        at_once, ahead = Counter(worker_ids[: request.limit]), Counter(worker_ids[request.limit :])
        claims: list[Claim] = []
        for worker_id in dict.fromkeys(worker_ids):
            own = msgspec.structs.replace(
                request, worker_id=worker_id, limit=at_once[worker_id], prefetch=ahead[worker_id]
            )
            try:
                claims += await self._claim(own, [worker_id] * own.total)
            except EuterpeError as error:
                if not claims:
                    raise
                log.warning("a claim failed behind others that did not; those are handed out", exc_info=error)
                break
        return claims

    async def _claim(self, request: ClaimRequest, worker_ids: Sequence[str]) -> list[Claim]:
        secret = secrets.token_bytes(32)
        try:
            claims = await self._fast_path.claim_for(request, worker_ids, secret)
            if claims is None:
                claims = await self._claim_in_full(request, worker_ids, secret)
                self._fast_path.observe_claims(request, claims)
        except CommitUnknown:
            lost = LostClaim(worker_ids, secret, request.total if request.by_receipt else 0)
            await give_back_lost(self._end_reporter, lost, self._engine.family, self._rng)
            raise
        return claims

    async def _claim_in_full(self, request: ClaimRequest, worker_ids: Sequence[str], secret: bytes) -> list[Claim]:
        family = self._engine.family
        claimed = await ask_until_free(
            lambda: self._engine.write(lambda: claim_for(request, worker_ids, secret, family)),
            lambda found: found.is_held_up,
        )
        return claimed.claims

    async def renew_leases(self, heartbeats: Sequence[TokenHeartbeat], lease_ttl_us: int) -> list[Renewed | None]:
        """None: the lease is gone."""
        return await self._engine.write_one(lambda: renew_leases(heartbeats, lease_ttl_us))

    async def renew_with_progress(
        self, token_heartbeat: TokenHeartbeat, fields: ProgressFields, lease_ttl_us: int
    ) -> Renewed | None:
        return await self._engine.write(lambda: renew_with_progress(token_heartbeat, fields, lease_ttl_us))

    async def finish(self, reports: Sequence[TokenReport]) -> list[TokenReply]:
        """A commit whose answer was lost is simply reported again: it finds its own closed attempts."""
        for _ in range(CONFIRM_TRIES - 1):
            try:
                return await self._finish(reports)
            except CommitUnknown:
                continue
        return await self._finish(reports)

    async def _finish(self, reports: Sequence[TokenReport]) -> list[TokenReply]:
        settled_fast = await self._fast_path.complete(reports)
        left = [report for place, report in enumerate(reports) if place not in settled_fast]
        rest: list[TokenReply] = []
        if left:
            rest = await self._end_reporter.write(lambda: finish(left, self._engine.family, self._rng), EndedBy.WORKER)
            for place, reply in enumerate(rest):
                if reply is LOCKED:
                    rest[place] = await self._finish_locked(left[place])
            self._fast_path.observe_replies(rest)
        replies = iter(rest)
        return [
            TokenReply(State.COMPLETED, settled_fast[place]) if place in settled_fast else next(replies)
            for place in range(len(reports))
        ]

    async def _finish_locked(self, report: TokenReport) -> TokenReply:
        """Wait a moment for a row that somebody holds. What cannot be written then may be reported again."""
        reply = await self._end_reporter.write(
            lambda: finish_locked(report, self._engine.family, self._rng), EndedBy.WORKER
        )
        if reply is LOCKED:
            raise StoreUnavailable(f"job {report.job_id} is locked by another transaction; report again")
        return reply


def claim_for(request: ClaimRequest, worker_ids: Sequence[str], secret: bytes, family: Family) -> Program[Claimed]:
    """Who runs which job is known after the claim alone, and an event names the worker: so they are written last."""
    jobs, is_held_up = yield from take_jobs(request, family)
    if not jobs:
        return Claimed([], is_held_up)
    owners = worker_ids[: len(jobs)]
    tokens = [token_of(secret, job) for job in jobs]
    yield each(
        "assign_claims",
        id=[job.id for job in jobs],
        claim_version=[job.claim_version for job in jobs],
        worker_id=list(owners),
        token_hash=[hash_token(token) for token in tokens],
    )
    owned = [_handed_over(job, owner, token) for job, owner, token in zip(jobs, owners, tokens, strict=True)]
    yield from insert_events(claim.job for claim in owned)
    return Claimed(owned, is_held_up=False)


def _handed_over(job: JobRow, owner: str, token: str) -> Claim:
    """As `assign_claims.sql` left it."""
    expires_at = min(job.lease_expires_at or 0, (job.started_at or 0) + job.execution_timeout_us)
    return Claim(
        msgspec.structs.replace(job, worker_id=owner, lease_expires_at=expires_at),
        Lease(job.id, job.claim_version, expires_at, token),
    )


def renew_leases(heartbeats: Sequence[TokenHeartbeat], lease_ttl_us: int) -> Program[list[Renewed | None]]:
    # In the order of ids, as every statement that locks many jobs: else two of them could wait for each other.
    ordered = sorted(heartbeats, key=lambda b: b.job_id)
    rows = yield each(
        "heartbeat_by_token",
        id=[b.job_id for b in ordered],
        token_hash=[b.token_hash for b in ordered],
        claim_version=[b.claim_version for b in ordered],
        lease_ttl_us=[lease_ttl_us] * len(ordered),
    )
    alive = {(row[0], bytes(row[4])): Renewed(row[1], row[2], bool(row[3])) for row in rows}
    renewed = [alive.get((b.job_id, b.token_hash)) for b in heartbeats]
    return [
        r if r is None or b.claim_version in (None, r.claim_version) else None
        for b, r in zip(heartbeats, renewed, strict=True)
    ]


def renew_with_progress(
    token_heartbeat: TokenHeartbeat, fields: ProgressFields, lease_ttl_us: int
) -> Program[Renewed | None]:
    """Renew the lease and tell how far the attempt got, both or neither."""
    renewed = (yield from renew_leases([token_heartbeat], lease_ttl_us))[0]
    if renewed is None:
        return None
    running = yield from _running([(token_heartbeat.job_id, token_heartbeat.token_hash)])
    held = running.get((token_heartbeat.job_id, token_heartbeat.token_hash))
    if held is None:
        return None  # Somebody was just ending it: the heartbeat had not waited for them.
    job = held.job
    ordinal = None if fields.stage is None else check_advance(job.stages, job.current_stage, fields.stage)
    claim = Claim(job, Lease(job.id, job.claim_version, renewed.expires_at))
    update = ProgressUpdate(claim, fields.stage, fields.progress, fields.message, fields.checkpoint)
    yield from heartbeat.update_progress([update], [ordinal])
    return renewed


def finish(reports: Sequence[TokenReport], family: Family, rng: Random) -> Program[list[TokenReply]]:
    """End attempts; an answer each, in order. Of several reports on one claim the first to match is the one."""
    running = yield from _running([(r.job_id, r.token_hash) for r in reports])
    chosen: dict[str, tuple[int, Settlement]] = {}
    replies: dict[int, TokenReply] = {}
    for i, report in enumerate(reports):
        held = running.get((report.job_id, report.token_hash))
        if held is None or held.job.claim_version != report.claim_version or held.job.id in chosen:
            continue
        if isinstance(report.outcome, Success | Released) and held.is_late:
            continue  # Past its deadline an attempt can only fail; the sweep ends it.
        settlement = settle_logged(held.job, report.outcome, rng, report.log)
        if settlement.last_stage not in (None, held.job.current_stage):
            why = f"a job of this type completes from its stage {settlement.last_stage!r} only"
            replies[i] = TokenReply(why=f"{why}; it is in {held.job.current_stage!r}")
            continue
        chosen[held.job.id] = (i, settlement)
    moved: list[Row] = []
    ordered = [chosen[job_id] for job_id in sorted(chosen)]
    yield from settle.settle(
        [settlement for _, settlement in ordered],
        family,
        [reports[i].outcome_hash for i, _ in ordered],
        moved,
    )
    for row in moved:
        i, settlement = chosen[row[0]]
        wakes_others = bool(row[2]) or row[5] is not None
        job = running[(reports[i].job_id, reports[i].token_hash)].job
        settled = Settled(
            queue=job.queue,
            type=job.type,
            started_at=job.started_at,
            has_callback=job.callback_url is not None,
            is_simple=is_simple(job) and not wakes_others,
            job=job,
            delay_us=settlement.delay_us,
        )
        replies[i] = TokenReply(State(row[1]), settled, wakes_others)
    locked = yield from _locked([s for i, s in ordered if i not in replies], family)
    for i, report in enumerate(reports):
        if i not in replies:
            is_locked = (report.job_id, report.claim_version) in locked
            replies[i] = LOCKED if is_locked else (yield from _first_answer(report))
    return [replies[i] for i in range(len(reports))]


def finish_locked(report: TokenReport, family: Family, rng: Random) -> Program[TokenReply]:
    yield from settle.await_row(report.job_id)
    (reply,) = yield from finish([report], family, rng)
    return reply


def _locked(refused: Sequence[Settlement], family: Family) -> Program[set[settle.ClaimKey]]:
    if not refused or family != "postgres":
        return set()
    return (yield from settle.claims_held(refused))


def _first_answer(report: TokenReport) -> Program[TokenReply]:
    """What this very report was answered before; anything else is refused."""
    closed = yield one("closed_attempt", id=report.job_id, claim_version=report.claim_version)
    if closed:
        _, state, token_hash, outcome_hash = closed[0]
        if token_hash is not None and outcome_hash is not None:
            same_token = secrets.compare_digest(bytes(token_hash), report.token_hash)
            if same_token and bytes(outcome_hash) == report.outcome_hash:
                return TokenReply(State(state))
    return REFUSED


class HeldLease(NamedTuple):
    """A running job, and whether its deadline is over."""

    job: JobRow
    is_late: bool


def _running(leases: Sequence[tuple[str, bytes]]) -> Program[dict[tuple[str, bytes], HeldLease]]:
    rows = yield each(
        "claim_by_token", id=[job_id for job_id, _ in leases], token_hash=[token_hash for _, token_hash in leases]
    )
    running = {}
    for row in rows:
        *columns, token_hash, is_late = row
        job = job_from(columns)
        running[(job.id, bytes(token_hash))] = HeldLease(job, bool(is_late))
    return running
