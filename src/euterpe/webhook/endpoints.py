"""Receivers by origin: how many deliveries each has in flight, and which are not to be trusted with more.

A receiver that hangs must not hold up the others. One that has not proved itself, was slow or failed last time is a
suspect: it may have a single delivery in flight, and all suspects together at most half of the slots, with one more
for a requester who has none yet. A good one may have all slots but one. So may a requester, with all its receivers:
one slot is always there for somebody else. A breaker keeps us away from a receiver that fails again and again.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from euterpe.model.failures.circuit_breaker import BreakerPolicy, CircuitBreaker, Permit

SLOW_S: Final = 2.0
KNOWN_LIMIT: Final = 1_000
"""Origins that are remembered, the last used ones. One that was forgotten is a suspect again."""


@dataclass(slots=True)
class Endpoint:
    breaker: CircuitBreaker
    in_flight: int = 0
    suspect: bool = True


@dataclass(frozen=True, slots=True)
class Admission:
    """Leave to make one delivery; `done` takes it back."""

    origin: str
    requester_id: str
    permit: Permit
    suspect: bool


class Endpoints:
    """One loop owns this; it has no lock."""

    def __init__(self, slots: int, policy: BreakerPolicy, clock_us: Callable[[], int]) -> None:
        self._slots = slots
        self._policy = policy
        self._clock_us = clock_us
        self._known: OrderedDict[str, Endpoint] = OrderedDict()
        self._in_flight: Counter[str] = Counter()
        self._suspects: Counter[str] = Counter()
        """Deliveries to suspects in flight, by requester."""
        self._served_this_round: set[str] = set()

    def admit(self, origin: str, requester_id: str) -> Admission | None:
        """Leave to send to this origin now, or None: its breaker is open, or it or its requester has its share."""
        endpoint = self._endpoint(origin)
        if self._in_flight[requester_id] >= max(1, self._slots - 1) or self._has_its_share(endpoint, requester_id):
            return None
        permit = endpoint.breaker.try_acquire()
        if permit is None:
            return None
        endpoint.in_flight += 1
        self._in_flight[requester_id] += 1
        if endpoint.suspect:
            self._suspects[requester_id] += 1
            self._served_this_round.add(requester_id)
        return Admission(origin, requester_id, permit, endpoint.suspect)

    def done(self, admission: Admission, *, succeeded: bool, took_s: float) -> None:
        endpoint = self._endpoint(admission.origin)
        endpoint.in_flight = max(0, endpoint.in_flight - 1)
        endpoint.suspect = not succeeded or took_s > SLOW_S
        endpoint.breaker.record(admission.permit, succeeded=int(succeeded), failed=int(not succeeded))
        _take_one(self._in_flight, admission.requester_id)
        if admission.suspect:
            _take_one(self._suspects, admission.requester_id)
            if not endpoint.suspect and admission.requester_id not in self._suspects:
                self._served_this_round.discard(admission.requester_id)

    def takes_more(self, origin: str) -> bool:
        """Whether events for this origin are worth claiming now."""
        return not self._is_crowded(self._endpoint(origin))

    def may_be_waited_for(self, origin: str) -> bool:
        """Whether an event may be kept for the next free slot: a suspect might hang, an open breaker stays open."""
        endpoint = self._endpoint(origin)
        return not endpoint.suspect and endpoint.breaker.retry_in_us <= 0

    def crowded(self) -> list[str]:
        """Origins not to claim for: they could not be sent to at once."""
        return [origin for origin, endpoint in self._known.items() if self._is_crowded(endpoint)]

    def _is_crowded(self, endpoint: Endpoint) -> bool:
        return (
            (endpoint.suspect and (endpoint.in_flight > 0 or self._suspects.total() >= self._half))
            or endpoint.in_flight >= max(1, self._slots - 1)
            or endpoint.breaker.retry_in_us > 0
        )

    def after_others(self) -> set[str]:
        """Requesters whose events come after everybody else's: suspects of theirs were sent to in this round, or they
        have more than half of the slots."""
        return self._served_this_round | {name for name, count in self._in_flight.items() if count > self._half}

    def begin_round(self) -> None:
        """Nobody else waits: who had a turn may have another."""
        self._served_this_round = set(self._suspects)

    @property
    def takes_newcomers(self) -> bool:
        """Whether a requester without a suspect in flight would get one."""
        return self._suspects.total() < self._with_a_newcomer

    @property
    def _half(self) -> int:
        return max(1, self._slots // 2)

    @property
    def _with_a_newcomer(self) -> int:
        return max(self._half, min(self._half + 1, self._slots - 1))

    def _has_its_share(self, endpoint: Endpoint, requester_id: str) -> bool:
        if not endpoint.suspect:
            return endpoint.in_flight >= max(1, self._slots - 1)
        limit = self._half if requester_id in self._suspects else self._with_a_newcomer
        return endpoint.in_flight >= 1 or self._suspects.total() >= limit

    def _endpoint(self, origin: str) -> Endpoint:
        endpoint = self._known.get(origin)
        if endpoint is None:
            endpoint = self._known[origin] = Endpoint(CircuitBreaker(self._policy, self._clock_us))
            if len(self._known) > KNOWN_LIMIT:
                self._forget_the_oldest()
        self._known.move_to_end(origin)
        return endpoint

    def _forget_the_oldest(self) -> None:
        """Of those with nothing in flight, which are at most as many as there are slots."""
        oldest = next((origin for origin, endpoint in self._known.items() if not endpoint.in_flight), None)
        if oldest is not None:
            del self._known[oldest]


def _take_one(counts: Counter[str], name: str) -> None:
    counts[name] -= 1
    if counts[name] <= 0:
        del counts[name]
