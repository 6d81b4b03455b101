"""Receivers by origin: how many deliveries each has in flight, and which are not to be trusted with more.

A receiver that hangs must not hold up the others. One that has not proved itself, was slow or failed last time may have
a single delivery in flight, and all such together at most half of the slots; a good one may have all slots but one. A
breaker keeps us away from one that fails again and again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from euterpe.worker.breaker import BreakerPolicy, CircuitBreaker, Permit

SLOW_S: Final = 2.0
KNOWN_LIMIT: Final = 10_000


@dataclass(slots=True)
class Endpoint:
    breaker: CircuitBreaker
    in_flight: int = 0
    suspect: bool = True


class Endpoints:
    """One loop owns this; it has no lock."""

    def __init__(self, slots: int, policy: BreakerPolicy, clock_us: Callable[[], int]) -> None:
        self._slots = slots
        self._policy = policy
        self._clock_us = clock_us
        self._known: dict[str, Endpoint] = {}

    def admit(self, origin: str) -> Permit | None:
        """Leave to send to this origin now, or None: its breaker is open, or it has its share in flight."""
        endpoint = self._endpoint(origin)
        if self._has_its_share(endpoint, self._suspects_in_flight()):
            return None
        permit = endpoint.breaker.try_acquire()
        if permit is not None:
            endpoint.in_flight += 1
        return permit

    def done(self, origin: str, permit: Permit, *, succeeded: bool, took_s: float) -> None:
        endpoint = self._endpoint(origin)
        endpoint.in_flight -= 1
        endpoint.suspect = not succeeded or took_s > SLOW_S
        endpoint.breaker.record(permit, succeeded=int(succeeded), failed=int(not succeeded))

    def crowded(self) -> list[str]:
        """Origins not to claim for: they could not be sent to at once."""
        suspects = self._suspects_in_flight()
        return [o for o, e in self._known.items() if self._has_its_share(e, suspects) or e.breaker.retry_in_us > 0]

    def _has_its_share(self, endpoint: Endpoint, suspects_in_flight: int) -> bool:
        if endpoint.suspect:
            return endpoint.in_flight >= 1 or suspects_in_flight >= max(1, self._slots // 2)
        return endpoint.in_flight >= max(1, self._slots - 1)

    def _suspects_in_flight(self) -> int:
        return sum(e.in_flight for e in self._known.values() if e.suspect)

    def _endpoint(self, origin: str) -> Endpoint:
        endpoint = self._known.get(origin)
        if endpoint is None:
            if len(self._known) >= KNOWN_LIMIT:
                self._forget_idle()
            endpoint = self._known[origin] = Endpoint(CircuitBreaker(self._policy, self._clock_us))
        return endpoint

    def _forget_idle(self) -> None:
        self._known = {o: e for o, e in self._known.items() if e.in_flight or e.suspect or e.breaker.retry_in_us > 0}
