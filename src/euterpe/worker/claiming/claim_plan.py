"""What a worker claims next: for the slots that are free, and a moment ahead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from euterpe.model.claims.exchange import ClaimRequest
from euterpe.model.job import Claim
from euterpe.worker.attempt import AttemptRun
from euterpe.worker.attempts import RunningAttempts
from euterpe.worker.claiming.breaker import QueueBreakers
from euterpe.worker.claiming.prefetch import FEW_AHEAD, SAMPLE, Pace

LANES: Final = 2
"""Who take turns with the store. Each claims a half, so that one lane's jobs run while the other claims."""


class ClaimPlan:
    """Decides how much each lane asks for. `whole` is the request of a worker that has everything to ask for: its
    limit bounds one claim."""

    def __init__(
        self, whole: ClaimRequest, concurrency: int, attempts: RunningAttempts, breakers: QueueBreakers, pace: Pace
    ) -> None:
        self._whole = whole
        self._concurrency = concurrency
        self._attempts = attempts
        self._breakers = breakers
        self._pace = pace
        self._more_waits = False
        """Whether the last claim got all that it asked for, or jobs have come since."""
        self._brought_ahead = False
        """Whether some of what it got were jobs ahead."""

    def jobs_came(self) -> None:
        """One of them may be more urgent than what waits here."""
        self._more_waits = True

    def attempts_ended(self, ended: Sequence[AttemptRun]) -> None:
        if not ended:
            return
        begun = [attempt for attempt in ended[:SAMPLE] if attempt.begun]
        self._pace.ended(len(ended), [(attempt.claim.job.type, attempt.took_s) for attempt in begun])
        if self._attempts.ready and not self._breakers.lets_through(self._whole.queues[0]):
            self._attempts.release_ready()  # Their circuit has opened.

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
        room = min(attempts.free_leases, self._whole.limit)
        limit = max(0, min(attempts.free_slots, -(-self._concurrency // self.lanes), room))
        prefetch = min(self._lacking(is_exchanging=is_settling or limit > 0), room - limit)
        if limit + prefetch <= 0:
            return None
        request = self._breakers.narrowed(
            msgspec.structs.replace(
                self._whole, limit=limit, prefetch=prefetch, prefetch_types=self._pace.short_types, types=types
            )
        )
        if request is not None:
            attempts.reserved += request.limit
            attempts.reserved_ahead += request.prefetch
        return request

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

    def brought(self, request: ClaimRequest, claims: Sequence[Claim]) -> bool:
        """Whether there may be more for free slots. A store that gives nothing ahead (an older control plane) is asked
        for nothing ahead the next time."""
        count = len(claims)
        got_all = count >= request.total
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
