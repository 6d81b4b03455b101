"""The worker protocol's side of the store. HTTP workers claim and settle by the same exchange as all others.

What they show for a claim is its token (`lease_tokens.py`); the fence is its version, as for everybody. A report that
comes again finds its closed attempt and gets the first answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

import msgspec

from euterpe.model.claims.exchange import ClaimRequest, HeartbeatReply, ProgressUpdate, Report
from euterpe.model.claims.outcome import Outcome, Success, lacks_outputs
from euterpe.model.claims.worker_reports import REFUSED, ProgressFields, Renewed, ShownLease, TokenReply, TokenReport
from euterpe.model.errors import CommitUnknown, StoreUnavailable, UnprocessableRow
from euterpe.model.job import Claim, JobRow, Lease
from euterpe.model.state import State, check_advance
from euterpe.stores.sql.engine import Engine
from euterpe.stores.sql.exchange.exchange import Exchange
from euterpe.stores.sql.exchange.simple_jobs import SettleBatch
from euterpe.stores.sql.exchange.turn import claims_of
from euterpe.stores.sql.jobs import heartbeat
from euterpe.stores.sql.jobs.ended_jobs import EndReporter
from euterpe.stores.sql.jobs.settle import LOCKED, SettledAs, first_answer
from euterpe.stores.sql.jobs.usable_claims import usable_claims
from euterpe.stores.sql.program import Program, one
from euterpe.stores.sql.rows import jobs_from
from euterpe.stores.sql.worker_protocol.handed_out import HandedOut
from euterpe.stores.sql.worker_protocol.lease_tokens import LeaseTokens
from euterpe.stores.sql.worker_protocol.lost_claims import LostClaim

CONFIRM_TRIES: Final = 3


class WorkerProtocolStore:
    """Claims, heartbeats and reports of HTTP workers, each in batches of one transaction."""

    def __init__(self, engine: Engine, rng: Random, end_reporter: EndReporter, exchange: Exchange) -> None:
        self._engine = engine
        self._rng = rng
        self._end_reporter = end_reporter
        self._exchange = exchange
        self._tokens = LeaseTokens(engine)
        self._handed_out = HandedOut()

    async def claim_for(self, request: ClaimRequest, worker_ids: Sequence[str]) -> list[Claim]:
        """At most one job for each of these workers (a worker may stand there several times), in their order. They are
        as many as the request has places, those for what must begin at once before those for what can wait."""
        await self._tokens.open()
        is_one_worker = worker_ids.count(worker_ids[0]) == len(worker_ids)
        asked = msgspec.structs.replace(
            request,
            worker_id=worker_ids[0],
            worker_ids=() if is_one_worker else tuple(worker_ids),
            overrun_us=0,
            number=self._rng.getrandbits(62),
        )
        if_lost = LostClaim(self._engine, self._exchange, self._handed_out, asked)
        try:
            _, claims = await self._exchange.run(SettleBatch((), self._rng), asked)
        except CommitUnknown:
            await if_lost.give_back()
            raise
        usable = await usable_claims(self._engine, self._end_reporter, claims, sent_as_json=True)
        signed = self._tokens.sign(usable)
        self._handed_out.add(signed)
        return signed

    async def check_lease(self, lease: ShownLease) -> bool:
        """Whether the token is that of this claim and worker. Whether the claim still holds, the fence tells."""
        return (await self._tokens.check([lease]))[0]

    async def renew_leases(self, shown: Sequence[ShownLease], lease_ttl_us: int) -> list[Renewed | None]:
        """None: the lease is gone."""
        valid = await self._tokens.check(shown)
        leases = [Lease(s.job_id, s.claim_version, 0) for s, is_valid in zip(shown, valid, strict=True) if is_valid]
        if not leases:
            return [None] * len(shown)
        beats = iter(await self._engine.write_one(lambda: heartbeat.heartbeat(leases, lease_ttl_us, overrun_us=0)))
        return [_renewed(next(beats)) if is_valid else None for is_valid in valid]

    async def renew_with_progress(self, shown: ShownLease, fields: ProgressFields, lease_ttl_us: int) -> Renewed | None:
        if not await self.check_lease(shown):
            return None
        lease = Lease(shown.job_id, shown.claim_version, 0)
        return await self._engine.write(lambda: renew_with_progress(lease, fields, lease_ttl_us))

    async def finish(self, reports: Sequence[TokenReport]) -> list[TokenReply]:
        """A commit whose answer was lost is simply reported again: it finds its own closed attempts."""
        for _ in range(CONFIRM_TRIES - 1):
            try:
                return await self._finish(reports)
            except CommitUnknown:
                continue
        return await self._finish(reports)

    async def _finish(self, reports: Sequence[TokenReport]) -> list[TokenReply]:
        """Of several reports on one claim the first is settled, and the others are compared with it."""
        claims, valid = await self._claims_of(reports)
        replies = [REFUSED] * len(reports)
        chosen: dict[tuple[str, int], int] = {}
        others: list[int] = []
        for i, (report, claim) in enumerate(zip(reports, claims, strict=True)):
            if not valid[i]:
                continue
            if claim is None or report.claim in chosen:
                others.append(i)
            elif why := _refusal(claim.job, report.outcome):
                replies[i] = TokenReply(why=why)
            else:
                chosen[report.claim] = i
        settled = [(i, claim) for i in chosen.values() if (claim := claims[i]) is not None]
        for i, reply in zip(chosen.values(), await self._settle([(reports[i], c) for i, c in settled]), strict=True):
            replies[i] = reply
        if others:
            found = await self._engine.read(lambda: first_answers([reports[i] for i in others]))
            for i, state in zip(others, found, strict=True):
                replies[i] = TokenReply(state)
        return replies

    async def _settle(self, ended: Sequence[tuple[TokenReport, Claim]]) -> list[TokenReply]:
        if not ended:
            return []
        batch = SettleBatch([Report(c, r.outcome, 0.0, r.log, r.outcome_hash) for r, c in ended], self._rng)
        states, _ = await self._exchange.run(batch, None)
        self._handed_out.forget(report for (report, _), state in zip(ended, states, strict=True) if state is not LOCKED)
        if LOCKED in states:
            held, _ = ended[states.index(LOCKED)]
            raise StoreUnavailable(f"job {held.job_id} is locked by another transaction; report again")
        return [
            _reply(batch, i, claim.job, state) for i, ((_, claim), state) in enumerate(zip(ended, states, strict=True))
        ]

    async def _claims_of(self, reports: Sequence[TokenReport]) -> tuple[list[Claim | None], list[bool]]:
        """The claims of these reports as far as they hold, and whether each was shown with its own token."""
        claims = [self._handed_out.find(report) for report in reports]
        valid = [claim is not None for claim in claims]
        unknown = [i for i, claim in enumerate(claims) if claim is None]
        if unknown:
            for i, is_valid in zip(unknown, await self._tokens.check([reports[i] for i in unknown]), strict=True):
                valid[i] = is_valid
        # In which stage a job is, its row knows.
        read = [i for i, c in enumerate(claims) if valid[i] and (c is None or c.job.stages_json is not None)]
        if read:
            rows = await self._engine.read(lambda: running_jobs(sorted({reports[i].job_id for i in read})))
            running = {(claim.job.id, claim.job.claim_version): claim for claim in claims_of(rows)}
            for i in read:
                claims[i] = running.get(reports[i].claim)
        return claims, valid


def _renewed(beat: HeartbeatReply) -> Renewed | None:
    return Renewed(beat.lease.claim_version, beat.expires_at, beat.cancel_requested) if beat.alive else None


def _reply(batch: SettleBatch, place: int, job: JobRow, state: SettledAs) -> TokenReply:
    if not isinstance(state, State):
        return REFUSED
    return TokenReply(state, job, batch.settlements[place].delay_us if state is State.RETRYING else 0)


def _refusal(job: JobRow, outcome: Outcome) -> str | None:
    """Why a job that runs cannot complete so; None: it can."""
    if not isinstance(outcome, Success):
        return None
    if why := lacks_outputs(job, outcome.result):
        return why
    try:
        last = None if job.stages_json is None else job.stages[-1]
    except UnprocessableRow:
        return None  # A row that was spoilt while the job ran makes no failure of a success.
    if last in (None, job.current_stage):
        return None
    return f"a job of this type completes from its stage {last!r} only; it is in {job.current_stage!r}"


def renew_with_progress(lease: Lease, fields: ProgressFields, lease_ttl_us: int) -> Program[Renewed | None]:
    """Renew the lease and tell how far the attempt got, both or neither."""
    (beat,) = yield from heartbeat.heartbeat([lease], lease_ttl_us, overrun_us=0)
    rows = yield from running_jobs([lease.job_id])
    if not beat.alive or not rows or rows[0].claim_version != lease.claim_version:
        return None  # It is over; or somebody was just ending it, and the heartbeat had not waited for them.
    (claim,) = claims_of(rows)
    ordinal = None
    if fields.stage is not None:
        ordinal = check_advance(claim.job.stages, claim.job.current_stage, fields.stage)
    update = ProgressUpdate(claim, fields.stage, fields.progress, fields.message, fields.checkpoint)
    yield from heartbeat.update_progress([update], [ordinal])
    return _renewed(beat)


def running_jobs(ids: Sequence[str]) -> Program[list[JobRow]]:
    return [job for job in jobs_from((yield one("get_jobs", ids=list(ids)))) if job.state is State.RUNNING]


def first_answers(reports: Sequence[TokenReport]) -> Program[list[State | None]]:
    """What each of these very reports was answered before; None: it never was."""
    states = []
    for report in reports:
        states.append((yield from first_answer(report.job_id, report.claim_version, report.outcome_hash)))
    return states
