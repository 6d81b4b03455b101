"""The numbers an operator may turn, and the token bucket that keeps one key from taking it all."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Final

import msgspec

from euterpe.model.claims.exchange import LEASE_TTL_US
from euterpe.server.http.problems import Refusal
from euterpe.server.quotas import Quota

BUCKETS_KEPT: Final = 10_000


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What one process allows. Times in seconds unless the name says otherwise."""

    max_body_bytes: int = 4_000_000
    body_timeout_s: float = 30.0
    """From the end of the head to the last byte of the body."""
    rate_per_s: float = 0
    """Requests a second for each key; 0 for no limit."""
    requester_rate_per_s: float = 0
    """Requests a second for all keys of a requester; 0 for no limit."""
    rate_burst: int = 100
    """How many requests a key, or a requester, that was quiet may send at once."""
    max_wait_ms: int = 60_000
    lease_ttl_us: int = LEASE_TTL_US
    poll_min_s: float = 0.1
    poll_max_s: float = 0.5
    key_ttl_s: float = 3.0
    """How long a verified key is believed without another look: a revoked one works at most this long."""
    max_listeners: int = 1_000
    """Open `/events` streams."""
    max_listeners_per_requester: int = 100
    unread_answers: int = 4
    """Reads of a requester at a time; a large answer counts until it is read."""
    read_turn_wait_s: float = 10.0
    """How long a read waits for its turn before it is refused."""
    ready_timeout_s: float = 2.0
    quota: Quota = Quota()


class RequestRate:
    """A token bucket for each key, in this process."""

    def __init__(self, rate_per_s: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate_per_s
        self._burst = max(1, burst)
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, key: str) -> None:
        """One request of this key; a Refusal says when to come again."""
        if self._rate <= 0:
            return
        now = self._clock()
        tokens, filled_at = self._buckets.get(key, (float(self._burst), now))
        tokens = min(float(self._burst), tokens + (now - filled_at) * self._rate)
        if tokens < 1:
            self._buckets[key] = (tokens, now)
            wait_s = max(1, math.ceil((1 - tokens) / self._rate))
            detail = f"more than {self._rate:g} requests a second; come again in {wait_s} s"
            raise Refusal(429, "rate_limited", detail, headers=((b"retry-after", b"%d" % wait_s),))
        if len(self._buckets) >= BUCKETS_KEPT:
            self._forget_full(now)
        self._buckets[key] = (tokens - 1, now)

    def _forget_full(self, now: float) -> None:
        """A bucket that has filled up again says nothing that a new one would not."""
        self._buckets = {
            key: (tokens, at)
            for key, (tokens, at) in self._buckets.items()
            if tokens + (now - at) * self._rate < self._burst
        }
