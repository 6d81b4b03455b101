"""Whether claims kept the order of 003, section 3: the more urgent first, and within a priority the older.

Claims that were under way at once are not compared: each takes what the other does not hold. But a claim that was
answered before another was asked must not have passed over what the later one found, if that was stored before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from euterpe.model.claims.exchange import ClaimRequest, HeartbeatReply, ProgressUpdate, Report, SettleResult
from euterpe.model.job import Claim, JobRow, Lease
from euterpe.ports import Claims


class Answer(NamedTuple):
    asked: int
    """When it was asked and answered, as places in the order of all that happened."""
    answered: int
    jobs: list[JobRow]


@dataclass
class ClaimOrder:
    """What happened, in order."""

    answers: list[Answer] = field(default_factory=list)
    stored: dict[str, int] = field(default_factory=dict)
    _moments: int = 0

    def moment(self) -> int:
        self._moments += 1
        return self._moments

    def note_stored(self, ids: Sequence[str]) -> None:
        """After the submit was acknowledged."""
        self.stored |= dict.fromkeys(ids, self.moment())

    def watching(self, store: Claims) -> WatchedClaims:
        return WatchedClaims(store, self)

    @property
    def claimed(self) -> list[str]:
        return [job.id for answer in self.answers for job in answer.jobs]

    def broken(self) -> list[str]:
        """A line for each pair of claims of which the first took a job that should have waited."""
        lines = []
        for first in self.answers:
            ranks = [rank_of(job) for job in first.jobs]
            there = [rank_of(job) for job in first.jobs if self._waited(job, first)]
            if there != sorted(there):
                lines.append(f"a claim answered in the order {there}")
            for second in self.answers:
                if not first.jobs or second.asked <= first.answered:
                    continue
                passed_over = [job for job in second.jobs if self._waited(job, first) and rank_of(job) < max(ranks)]
                if passed_over:
                    best = rank_of(min(passed_over, key=rank_of))
                    lines.append(f"{len(passed_over)} jobs from {best} on waited while {max(ranks)} was claimed")
        return lines

    def _waited(self, job: JobRow, answer: Answer) -> bool:
        """Whether it was stored before this claim was asked for: what comes meanwhile may be found or not."""
        return self.stored.get(job.id, answer.asked) < answer.asked


def rank_of(job: JobRow) -> tuple[int, int]:
    return job.priority, job.seq


class WatchedClaims:
    """A store's claims; every claim is noted."""

    def __init__(self, store: Claims, order: ClaimOrder) -> None:
        self._store = store
        self._order = order

    async def exchange(
        self, finished: Sequence[Report], request: ClaimRequest | None
    ) -> tuple[list[SettleResult], list[Claim]]:
        asked = self._order.moment()
        verdicts, claims = await self._store.exchange(finished, request)
        self._order.answers.append(Answer(asked, self._order.moment(), [claim.job for claim in claims]))
        return verdicts, claims

    async def claim(self, request: ClaimRequest) -> list[Claim]:
        return (await self.exchange((), request))[1]

    async def heartbeat(self, leases: Sequence[Lease], lease_ttl_us: int = 60_000_000) -> list[HeartbeatReply]:
        return await self._store.heartbeat(leases, lease_ttl_us)

    async def check_leases(self, leases: Sequence[Lease]) -> list[HeartbeatReply]:
        return await self._store.check_leases(leases)

    async def update_progress(self, updates: Sequence[ProgressUpdate]) -> list[bool]:
        return await self._store.update_progress(updates)

    async def settle(self, finished: Sequence[Report]) -> list[SettleResult]:
        return await self._store.settle(finished)
