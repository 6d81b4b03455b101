"""What a worker claims next: for the slots that are free, and a moment ahead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from euterpe.model.claims.exchange import ClaimRequest
from euterpe.model.job import Claim
from euterpe.worker.attempt import AttemptRun
from euterpe.worker.attempts import RunningAttempts
from euterpe.worker.claiming.breaker import CircuitBreakers
from euterpe.worker.claiming.prefetch import FEW_AHEAD, SAMPLE, Pace
from euterpe.worker.claiming.requester_share import RequesterShare
from euterpe.worker.claiming.type_limits import TypeLimits
from euterpe.worker.handling.handlers import Handlers
from euterpe.worker.settings import WorkerSettings

LANES: Final = 2
"""Who take turns with the store. Each claims a half, so that one lane's jobs run while the other claims."""


class ClaimPlan:
    """Decides how much each lane asks for. `whole` is the request of a worker that has everything to ask for: its
    limit bounds one claim."""

    def __init__(
        self,
        whole: ClaimRequest,
        settings: WorkerSettings,
        handlers: Handlers,
        attempts: RunningAttempts,
        breakers: CircuitBreakers,
        pace: Pace,
    ) -> None:
        self._whole = whole
        self._concurrency = settings.concurrency
        self._attempts = attempts
        self._breakers = breakers
        self._pace = pace
        self._limits = TypeLimits(handlers, attempts)
        self._share = RequesterShare(settings.requester_share, settings.concurrency, handlers, attempts, self._limits)
        self._most = whole.limit
        self._circuits_seen = breakers.changes
        self._more_waits = False
        """Whether the last claim got all that it asked for, or jobs have come since."""
        self._brought_ahead = False
        """Whether some of what it got were jobs ahead."""

    def jobs_came(self) -> None:
        """One of them may be more urgent than what waits here."""
        self._more_waits = True
        self._limits.jobs_came()

    def attempts_ended(self, ended: Sequence[AttemptRun]) -> None:
        if not ended:
            return
        begun = [attempt for attempt in ended[:SAMPLE] if attempt.begun]
        self._pace.ended(len(ended), [(attempt.claim.job.type, attempt.took_s) for attempt in begun])
        if self._circuits_seen != self._breakers.changes:
            self._circuits_seen = self._breakers.changes
            self._attempts.refuse_ready(self._breakers.refusal_of)

    @property
    def lanes(self) -> int:
        """How many lanes are to be under way at once. One, where the halves would be small exchanges: many workers
        share a database, and both sides would spend their time on what every exchange costs. Only in a long line of
        short jobs: the buffer has work for as long as an exchange takes."""
        is_long = self._more_waits and self._brought_ahead
        return 1 if is_long and self._pace.ahead() <= FEW_AHEAD else LANES

    def next_request(self, types: tuple[str, ...], *, is_settling: bool) -> ClaimRequest | None:
        """Slots and places in the buffer are reserved for it until it is given back."""
        attempts = self._attempts
        if attempts.turns.holds_others:
            return None
        room = min(attempts.free_leases, self._most)
        limit = max(0, min(attempts.free_slots, -(-self._concurrency // self.lanes), room))
        prefetch = min(self._lacking(is_exchanging=is_settling or limit > 0), room - limit)
        if limit + prefetch <= 0:
            return None
        whole = msgspec.structs.replace(
            self._whole, limit=limit, prefetch=prefetch, prefetch_types=self._pace.short_types, types=types
        )
        wanted = self._share.narrowed(self._limits.narrowed(whole))
        request = self._breakers.narrowed(wanted) if wanted.is_answerable else None
        if request is not None:
            attempts.reserved += request.limit
            attempts.reserved_ahead += request.prefetch
            self._limits.reserve(request)
        return request

    def leaves_others(self, request: ClaimRequest) -> bool:
        """Whether there may be more to claim beside it: it is for limited types alone."""
        return self._limits.is_apart(request)

    def wait_s(self, poll_s: float) -> float:
        """How long to sleep at most."""
        return self._limits.wait_s(self._breakers.wait_s(poll_s))

    def _lacking(self, *, is_exchanging: bool) -> int:
        """How many jobs to claim ahead. Only while more may wait than the last claim asked for: a short line is shared
        with other workers; and an exchange for a few of them alone is not worth its price."""
        if not self._more_waits or len(self._whole.queues) > 1 or not self._pace.short_types:
            return 0
        ahead = self._pace.ahead()
        lacking = min(ahead - len(self._attempts.ready) - self._attempts.reserved_ahead, -(-ahead // self.lanes))
        return max(0, lacking) if is_exchanging or 4 * lacking >= ahead else 0

    def give_back(self, request: ClaimRequest) -> None:
        """What was reserved for it is filled, or free again."""
        self._attempts.reserved -= request.limit
        self._attempts.reserved_ahead -= request.prefetch
        self._limits.give_back(request)

    def got_no_answer(self, request: ClaimRequest) -> None:
        """Perhaps it was too large to come in time: payloads may have megabytes each. The next one asks for half, or
        they would be claimed, lost and given back for ever."""
        self._most = max(1, request.total // 2)

    def answered(self, request: ClaimRequest, count: int, took_s: float) -> None:
        """So many jobs came, after so long."""
        self._limits.answered(request, count, took_s)
        self._share.answered(request, count, took_s)

    def brought(self, request: ClaimRequest, claims: Sequence[Claim]) -> bool:
        """Whether there may be more for free slots. A store that gives nothing ahead (an older control plane) is asked
        for nothing ahead the next time."""
        count = len(claims)
        if count:
            self._most = min(2 * self._most, self._whole.limit)
        got_all = count >= request.total
        if request.other_than:
            return True  # The next claim is for all again, if nobody else waits.
        if self._limits.is_apart(request):
            return got_all
        self._brought_ahead = count > request.limit
        # One whose key was at its limit ends a claim. It is asked for again when something has ended.
        self._more_waits = got_all or (self._brought_ahead and claims[-1].job.concurrency_key is not None)
        return 0 < request.limit <= count or got_all

    def begin_at_once(self, claims: Sequence[Claim], request: ClaimRequest) -> tuple[Sequence[Claim], Sequence[Claim]]:
        """Which begin in the slots that are reserved for them, and which go into the buffer. If others wait there, the
        buffer decides whose turn it is, except for what cannot wait."""
        if not self._attempts.ready:
            return claims[: request.limit], claims[request.limit :]
        now = [claim for claim in claims if not request.can_wait(claim.job)]
        return now, [claim for claim in claims if request.can_wait(claim.job)] if now else claims
