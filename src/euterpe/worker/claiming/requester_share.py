"""The share of one requester: while jobs of others wait, it gets no more than its share of a worker's slots.

A requester that holds its share of the slots, or of the places of a type with a `worker_limit`, is left out of the next
claim. If that claim comes short, nobody else waits, and the next one is for all again. So no slot stays empty, nothing
is given back, and what runs is never stopped: a slot that falls free goes to somebody else first.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from euterpe.model.claims.exchange import ClaimRequest
from euterpe.model.submitting.submission import LOCAL_REQUESTER
from euterpe.worker.attempt import AttemptRun
from euterpe.worker.attempts import RunningAttempts
from euterpe.worker.claiming.type_limits import TypeLimits
from euterpe.worker.handling.handlers import Handlers

LONG_S: Final = 1.0
"""Of the slots of all types, those count that a job has held for so long. Short jobs make room by themselves."""
COUNT_AGAIN_S: Final = 0.25
"""How often those are counted, while nobody holds too many."""
LOOK_AGAIN_S: Final = 1.0
"""The pause after a claim for others that came short."""
PAUSE_FACTOR: Final = 20
"""The pause in times of what such a claim took: it reads past the whole backlog of the requesters left out."""


class RequesterShare:
    """Leaves out of claims those who hold their share. The jobs of the application itself are not bounded."""

    def __init__(
        self,
        share: float,
        concurrency: int,
        handlers: Handlers,
        attempts: RunningAttempts,
        limits: TypeLimits,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._share = share
        self._concurrency = concurrency
        self._handlers = handlers
        self._attempts = attempts
        self._limits = limits
        self._clock = clock
        self._look_at = 0.0
        self._count_at = 0.0

    def narrowed(self, request: ClaimRequest) -> ClaimRequest:
        """The same request; or one for jobs of requesters that hold less than their share; or one for no more jobs than
        any of them may get, whosever they are, also none while claims that are under way may bring that many."""
        if self._share >= 1 or not request.limit or self._clock() < self._look_at:
            return request
        over, limit = self._crowding(), request.limit
        for name in request.types or ():
            if (places := self._handlers.limits.get(name)) is not None:
                held, most = self._held(a for a in self._attempts.running if a.handler.type == name), self._most(places)
                over |= {requester for requester, count in held.items() if count >= most}
                most_held = max((count for count in held.values() if count < most), default=0)
                limit = min(limit, most - most_held - self._limits.coming(name))
        if over:
            return msgspec.structs.replace(
                request, limit=max(0, limit), prefetch=0, prefetch_types=(), other_than=tuple(sorted(over))
            )
        return request if limit == request.limit else msgspec.structs.replace(request, limit=max(0, limit))

    def answered(self, request: ClaimRequest, count: int, took_s: float) -> None:
        if request.other_than and count < request.limit:
            self._look_at = self._clock() + max(LOOK_AGAIN_S, PAUSE_FACTOR * took_s)

    def _crowding(self) -> set[str]:
        """Those who have held their share of all slots for long."""
        now, most = self._clock(), self._most(self._concurrency)
        if now < self._count_at:
            return set()
        held = self._held(a for a in self._attempts.running if a.started < now - LONG_S)
        over = {requester for requester, count in held.items() if count >= most}
        if not over:
            self._count_at = now + COUNT_AGAIN_S
        return over

    def _held(self, running: Iterable[AttemptRun]) -> Counter[str]:
        held = Counter(attempt.claim.job.requester_id for attempt in running)
        del held[LOCAL_REQUESTER]
        return held

    def _most(self, places: int) -> int:
        return max(1, math.ceil(self._share * places))
