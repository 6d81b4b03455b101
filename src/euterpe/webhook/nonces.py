"""Where a receiver remembers used nonces, so that a captured delivery cannot be played again.

A store of your own is any object with `seen`. With Redis: `not redis.set(nonce, 1, nx=True, exat=...)`. With
SQL: an INSERT that does nothing on conflict, and "no row inserted" as the answer. docs/webhooks.md has both.
"""

from __future__ import annotations

import heapq
import threading
from typing import Final, Protocol

_DEFAULT_MAX_NONCES: Final = 1_000_000


class NonceStore(Protocol):
    """Stores each nonce until `expires_at` (Unix seconds)."""

    def seen(self, nonce: str, *, now: float, expires_at: float) -> bool:
        """Record the nonce, and return whether it was already there. Both must be one atomic step.

        Raises OverflowError if the store is full. To forget a nonce early would let a replay through.
        """


class MemoryNonces:
    """A bounded store of nonces for one process. Threads may share it."""

    def __init__(self, max_nonces: int = _DEFAULT_MAX_NONCES) -> None:
        if max_nonces < 1:
            raise ValueError(f"max_nonces: must be at least 1, got {max_nonces}")
        self._max_nonces = max_nonces
        self._known: set[str] = set()
        self._by_expiry: list[tuple[float, str]] = []
        self._lock = threading.Lock()

    def seen(self, nonce: str, *, now: float, expires_at: float) -> bool:
        with self._lock:
            while self._by_expiry and self._by_expiry[0][0] < now:
                self._known.discard(heapq.heappop(self._by_expiry)[1])
            if nonce in self._known:
                return True
            if len(self._known) >= self._max_nonces:
                raise OverflowError(f"more than {self._max_nonces} nonces within the replay window")
            self._known.add(nonce)
            heapq.heappush(self._by_expiry, (expires_at, nonce))
            return False

    def __len__(self) -> int:
        return len(self._known)


class NoncesCheckedElsewhere:
    """For a receiver that checks `event.nonce` itself after `verify`, for example with an async Redis client."""

    def seen(self, nonce: str, *, now: float, expires_at: float) -> bool:  # noqa: ARG002 - the protocol
        return False
