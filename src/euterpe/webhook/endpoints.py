"""Receivers by requester and origin: how many deliveries each has in flight, and which may not have more.

A receiver that hangs must not hold up the others. One that has not proved itself, was slow or failed last time is a
suspect: it may have a single delivery in flight, and all suspects together at most half of the slots, with one more
for a requester who has none yet. A requester that is alone may have all slots; while another one has events, all but
one. A breaker keeps us away from a receiver that fails again and again. It is the requester's own: what one requester
asks for at an address says nothing of another's there.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Final

from euterpe.model.failures.circuit_breaker import BreakerPolicy, CircuitBreaker, Permit

SLOW_S: Final = 2.0
KNOWN_LIMIT: Final = 1_000
"""Receivers that are remembered, the last used ones. One that was forgotten is a suspect again."""
ALONE_US: Final = 10_000_000
"""A requester is alone when nobody else had an event for so long."""
FORBIDDEN_US: Final = 10_000_000
"""So long a receiver that our egress rules forbid is left to other processes."""
Receiver = tuple[str, str]
"""A requester and the origin that it is called at."""


@dataclass(slots=True)
class Endpoint:
    breaker: CircuitBreaker
    in_flight: int = 0
    suspect: bool = True
    forbidden_until_us: int = 0


@dataclass(frozen=True, slots=True)
class Admission:
    """Leave to make one delivery; `done` takes it back."""

    receiver: Receiver
    permit: Permit
    suspect: bool

    @property
    def requester_id(self) -> str:
        return self.receiver[0]


class Endpoints:
    """One loop owns this; it has no lock."""

    def __init__(self, slots: int, policy: BreakerPolicy, clock_us: Callable[[], int]) -> None:
        self._slots = slots
        self._policy = policy
        self._clock_us = clock_us
        self._known: OrderedDict[Receiver, Endpoint] = OrderedDict()
        self._in_flight: Counter[str] = Counter()
        self._suspects: Counter[str] = Counter()
        """Deliveries to suspects in flight, by requester."""
        self._served_this_round: set[str] = set()
        self._seen_us: OrderedDict[str, int] = OrderedDict()
        """When each requester last had an event, the last one at the end."""

    def saw(self, requesters: Iterable[str]) -> None:
        """These have events, sent or waiting."""
        now_us = self._clock_us()
        for name in requesters:
            self._seen_us[name] = now_us
            self._seen_us.move_to_end(name)
        while len(self._seen_us) > KNOWN_LIMIT:
            self._seen_us.popitem(last=False)

    def admit(self, receiver: Receiver) -> Admission | None:
        """Leave to send to this receiver now, or None: its breaker is open, or it or its requester has its share."""
        requester_id = receiver[0]
        self.saw([requester_id])
        endpoint = self._endpoint(receiver)
        if self._in_flight[requester_id] >= self._most(requester_id) or self._has_its_share(endpoint, requester_id):
            return None
        if endpoint.forbidden_until_us > self._clock_us():
            return None
        permit = endpoint.breaker.try_acquire()
        if permit is None:
            return None
        endpoint.in_flight += 1
        self._in_flight[requester_id] += 1
        if endpoint.suspect:
            self._suspects[requester_id] += 1
            self._served_this_round.add(requester_id)
        return Admission(receiver, permit, endpoint.suspect)

    def done(self, admission: Admission, *, succeeded: bool, took_s: float) -> None:
        endpoint = self._endpoint(admission.receiver)
        endpoint.in_flight = max(0, endpoint.in_flight - 1)
        endpoint.suspect = not succeeded or took_s > SLOW_S
        endpoint.breaker.record(admission.permit, succeeded=int(succeeded), failed=int(not succeeded))
        _take_one(self._in_flight, admission.requester_id)
        if admission.suspect:
            _take_one(self._suspects, admission.requester_id)
            if not endpoint.suspect and admission.requester_id not in self._suspects:
                self._served_this_round.discard(admission.requester_id)

    def forbid(self, receiver: Receiver) -> None:
        """Our egress rules forbid it: leave its events to other processes for a while."""
        self._endpoint(receiver).forbidden_until_us = self._clock_us() + FORBIDDEN_US

    def takes_more(self, receiver: Receiver) -> bool:
        """Whether events for this receiver are worth claiming now."""
        return not self._is_crowded(receiver, self._endpoint(receiver))

    def may_be_waited_for(self, receiver: Receiver) -> bool:
        """Whether an event may be kept for the next free slot: a suspect might hang, an open breaker stays open."""
        endpoint = self._endpoint(receiver)
        return not endpoint.suspect and not self._rests(endpoint)

    def crowded(self) -> list[Receiver]:
        """Receivers not to claim for: they could not be sent to at once."""
        return [receiver for receiver, endpoint in self._known.items() if self._is_crowded(receiver, endpoint)]

    def _is_crowded(self, receiver: Receiver, endpoint: Endpoint) -> bool:
        return (
            (endpoint.suspect and (endpoint.in_flight > 0 or self._suspects.total() >= self._half))
            or endpoint.in_flight >= self._most(receiver[0])
            or self._rests(endpoint)
        )

    def _rests(self, endpoint: Endpoint) -> bool:
        return endpoint.breaker.retry_in_us > 0 or endpoint.forbidden_until_us > self._clock_us()

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

    def _most(self, requester_id: str) -> int:
        """So many deliveries a requester may have in flight: one slot is left for others, where there are any."""
        since_us = self._clock_us() - ALONE_US
        last_two = islice(reversed(self._seen_us.items()), 2)
        is_alone = all(name == requester_id or seen_us < since_us for name, seen_us in last_two)
        return self._slots if is_alone else max(1, self._slots - 1)

    @property
    def _half(self) -> int:
        return max(1, self._slots // 2)

    @property
    def _with_a_newcomer(self) -> int:
        return max(self._half, min(self._half + 1, self._slots - 1))

    def _has_its_share(self, endpoint: Endpoint, requester_id: str) -> bool:
        if not endpoint.suspect:
            return False
        limit = self._half if requester_id in self._suspects else self._with_a_newcomer
        return endpoint.in_flight >= 1 or self._suspects.total() >= limit

    def _endpoint(self, receiver: Receiver) -> Endpoint:
        endpoint = self._known.get(receiver)
        if endpoint is None:
            endpoint = self._known[receiver] = Endpoint(CircuitBreaker(self._policy, self._clock_us))
            if len(self._known) > KNOWN_LIMIT:
                self._forget_the_oldest()
        self._known.move_to_end(receiver)
        return endpoint

    def _forget_the_oldest(self) -> None:
        """Of those with nothing in flight, which are at most as many as there are slots."""
        oldest = next((receiver for receiver, endpoint in self._known.items() if not endpoint.in_flight), None)
        if oldest is not None:
            del self._known[oldest]


def _take_one(counts: Counter[str], name: str) -> None:
    counts[name] -= 1
    if counts[name] <= 0:
        del counts[name]
