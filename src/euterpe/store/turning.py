"""A busy worker's turn: settle what is over and claim the next, with one commit for both.

The common turn, plain jobs that completed, is one statement on Postgres: one round trip instead of four. Whatever it
leaves undone goes the general way, in a transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from euterpe.model.job import Claim, Job, Lease
from euterpe.model.outcome import Settlement
from euterpe.model.state import State
from euterpe.ports import ClaimRequest
from euterpe.store.claiming import claim
from euterpe.store.dialect import Family
from euterpe.store.engine import Engine
from euterpe.store.program import Program, one
from euterpe.store.rows import job_from
from euterpe.store.settling import settle_or_confirm

Turn = tuple[list[State | None], list[Claim]]
"""What each settlement made of its job (None: it was stale), and what was claimed."""
NOTHING: Final = ClaimRequest(worker_id="", limit=0)
FRONT: Final = 4
"""Columns of `turn.sql` in front of a job's."""


class Turns:
    """Takes turns on one engine; remembers which queues lately had jobs that need more than the one statement."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._not_plain: set[str] = set()

    async def take(self, settlements: Sequence[Settlement], jobs: Sequence[Job], request: ClaimRequest | None) -> Turn:
        """`jobs` are those of the settlements, as they were claimed."""
        if not self._may_be_brief(settlements, jobs, request):
            return await self._take_all(settlements, jobs, request)
        done = await self._engine.write_one(lambda: brief(settlements, request or NOTHING))
        if not done.left and done.line_was_plain:
            return [s.state for s in settlements], done.claims
        if request is not None:
            if not done.line_was_plain:
                self._not_plain.add(request.queues[0])
            # What is settled now may release what this worker can take at once.
            room = request.limit - len(done.claims)
            request = msgspec.structs.replace(request, limit=room) if room else None
        rest, claims = await self._take_all(done.left, jobs, request)
        states = dict(zip((id(s) for s in done.left), rest, strict=True))
        return [states.get(id(s), s.state) for s in settlements], done.claims + claims

    async def _take_all(
        self, settlements: Sequence[Settlement], jobs: Sequence[Job], request: ClaimRequest | None
    ) -> Turn:
        family = self._engine.family
        keyed = any(job.concurrency_key is not None for job in jobs)
        states, claims = await self._engine.write(lambda: general(settlements, request, family, keyed=keyed))
        if request is not None and all(is_plain(c.job) for c in claims):
            self._not_plain.difference_update(request.queues)
        return states, claims

    def _may_be_brief(
        self, settlements: Sequence[Settlement], jobs: Sequence[Job], request: ClaimRequest | None
    ) -> bool:
        return (
            self._engine.family == "postgres"
            and (request is None or self._may_claim_briefly(request))
            and all(s.state is State.COMPLETED for s in settlements)
            and all(is_plain(job) and not job.has_dependents for job in jobs)
        )

    def _may_claim_briefly(self, request: ClaimRequest) -> bool:
        return len(request.queues) == 1 and request.queues[0] not in self._not_plain and not request.with_tokens


class Brief(msgspec.Struct, frozen=True):
    """What the one statement did, and what it left."""

    claims: list[Claim]
    left: list[Settlement]
    line_was_plain: bool


def is_plain(job: Job) -> bool:
    return job.callback_url is None and job.concurrency_key is None


def brief(settlements: Sequence[Settlement], request: ClaimRequest) -> Program[Brief]:
    # In the order of ids, as heartbeats: two statements that lock the same rows in two orders wait for each other.
    ordered = sorted(settlements, key=lambda s: s.job_id)
    rows = yield one(
        "turn",
        id=[s.job_id for s in ordered],
        claim_version=[s.claim_version for s in ordered],
        result=[s.result for s in ordered],
        queue=request.queues[0],
        types=None if request.types is None else list(request.types),
        limit=request.limit,
        worker_id=request.worker_id,
        lease_ttl_us=request.lease_ttl_us,
    )
    settled, ids, versions, line_was_plain = rows[0][:FRONT]
    left: list[Settlement] = []
    if settled < len(settlements):
        done = set(zip(ids or (), versions or (), strict=True))
        left = [s for s in settlements if (s.job_id, s.claim_version) not in done]
    jobs = [job_from(row[FRONT:]) for row in rows if row[FRONT] is not None]
    jobs.sort(key=lambda job: (job.priority, job.seq))
    claims = [Claim(job, Lease(job.id, job.claim_version, job.lease_expires_at or 0)) for job in jobs]
    return Brief(claims, left, line_was_plain is not False)


def general(
    settlements: Sequence[Settlement], request: ClaimRequest | None, family: Family, *, keyed: bool
) -> Program[Turn]:
    """`keyed`: whether a settled job has a concurrency key, whose lock this transaction then holds."""
    states = yield from settle_or_confirm(settlements, family)
    claims = (yield from claim(request, family, may_wait=not keyed)) if request is not None else []
    return states, claims
