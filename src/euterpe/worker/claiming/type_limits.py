"""Limits per job type in one worker: a type with `worker_limit` is claimed only as far as this worker can start it.

Jobs of a full type stay in the queue: in order, uncharged, counted as waiting, and free for other workers. A claim
cannot ask for "any of these, but two of that type at most", so a limited type with little room is claimed apart.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import msgspec

from euterpe.model.claims.exchange import ClaimRequest
from euterpe.worker.attempts import RunningAttempts
from euterpe.worker.handling.handlers import Handlers

LOOK_AGAIN_S: Final = 0.05
"""The pause after a claim apart that came short. A busy worker would make every second claim in vain."""
PAUSE_FACTOR: Final = 20
"""The pause in times of what such a claim took: it reads past the whole backlog of other types, and gets 5 % of the
time at most, however long that is."""


class TypeLimits:
    """Narrows claims to the types that have room."""

    def __init__(
        self, handlers: Handlers, attempts: RunningAttempts, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._handlers = handlers
        self._limits = handlers.limits
        self._attempts = attempts
        self._clock = clock
        self._look_at = 0.0
        self._has_news = False
        self._under_way: list[ClaimRequest] = []
        """Claims that may bring limited types."""

    def narrowed(self, request: ClaimRequest) -> ClaimRequest:
        """The request for the types that it may bring. While slots are fewer than the room of every limited type, one
        claim is for all of them, so that priority and age decide. Else a claim for the limited types alone takes turns
        with one for all others."""
        if not self._limits or request.types is None:
            return request
        room = self.room()
        others = tuple(name for name in request.types if name not in room)
        limited = tuple(name for name in request.types if room.get(name, 0) > 0)
        prefetch_types = tuple(name for name in request.prefetch_types if name not in room)
        limit, prefetch, types = request.limit, request.prefetch, others
        if limited:
            least = min(room[name] for name in limited)
            if limit <= least or not others:
                limit, types = min(limit, least), (*others, *limited)
            elif self._clock() >= self._look_at:
                limit, prefetch, types = least, 0, limited
        return msgspec.structs.replace(
            request, limit=limit, prefetch=prefetch, types=types, prefetch_types=prefetch_types
        )

    def room(self) -> dict[str, int]:
        """How many more of each limited type may begin, next to those that claims under way may bring."""
        running = self._attempts.count_by_type()
        return {name: limit - running[name] - self.coming(name) for name, limit in self._limits.items()}

    def coming(self, name: str) -> int:
        """How many jobs of this type the claims that are under way may bring."""
        return sum(request.limit for request in self._under_way if name in (request.types or ()))

    def reserve(self, request: ClaimRequest) -> None:
        if self._limits and any(name in self._limits for name in request.types or ()):
            self._under_way.append(request)
            self._has_news = False

    def give_back(self, request: ClaimRequest) -> None:
        self._under_way = [each for each in self._under_way if each is not request]

    def is_apart(self, request: ClaimRequest) -> bool:
        """Whether it asks for limited types alone, and there are others: what it brings says nothing about those."""
        if not self._limits or len(self._limits) == len(self._handlers.types):
            return False
        return all(name in self._limits for name in request.types or ())

    def answered(self, request: ClaimRequest, count: int, took_s: float) -> None:
        if count < request.limit and not request.other_than and any(each is request for each in self._under_way):
            self._look_at = self._clock() + max(LOOK_AGAIN_S, PAUSE_FACTOR * took_s)

    def jobs_came(self) -> None:
        self._has_news = True

    def wait_s(self, poll_s: float) -> float:
        """How long to sleep at most: jobs that came during the pause are looked for when it is over."""
        if not (self._limits and self._has_news):
            return poll_s
        return min(poll_s, max(0.001, self._look_at - self._clock()))
