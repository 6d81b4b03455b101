"""Decide whether living workers had time to renew their leases before a sweep takes expired ones back.

A lease that expires while no process can write (an outage, a held write lock, a suspended machine) says nothing about
its worker. After such a break a sweeper waits until the database has taken writes for half of that lease: a living
worker renews within a third of it. Only durations count here, and they only delay; the database's clock alone says
whether a lease has expired.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

RENEWED_WITHIN: Final = 2
"""A living worker renews within a lease divided by this."""
HARMLESS: Final = 3
"""A break shorter than a lease divided by this costs no living worker its lease."""
SHORTEST_LEASE_US: Final = 3_000_000
"""Shorter leases wait as long as this one: a busy machine delays every process for a moment."""
UNSETTLED_BREAKS: Final = 10
"""After so many breaks in a row, each soon after the one before, a sweeper no longer waits. Its own process is blocked
again and again then, and lost jobs must come back all the same."""
SETTLED_US: Final = 60_000_000
"""So much time without a break ends such a row."""
LONGEST_US: Final = 2**62


class HeartbeatTurns:
    """How long a sweeper has been able to write without a break. `clock_us` must not stand still in suspend."""

    def __init__(self, clock_us: Callable[[], int], gap_us: int, lease_us: int) -> None:
        """`gap_us`: a longer time without a write is a break. `lease_us`: the usual lease, for engines that cannot tell
        how long a lease is."""
        self._clock_us = clock_us
        self._gap_us = gap_us
        self._lease_us = lease_us
        self._since_us = self._wrote_us = clock_us()
        self._is_broken = True
        self._breaks = 0

    def wrote(self) -> None:
        """A write has just succeeded."""
        now_us = self._clock_us()
        if self._is_broken or now_us - self._wrote_us > self._gap_us:
            has_settled = self._wrote_us - self._since_us > SETTLED_US
            self._breaks = 1 if has_settled else self._breaks + 1
            self._since_us = now_us
            self._is_broken = False
        self._wrote_us = now_us

    def failed(self) -> None:
        """A write has just failed because the database was away or locked."""
        self._is_broken = True

    def longest_us(self) -> int:
        """The longest lease that a living worker would have renewed by now; -1 if there is none."""
        now_us = self._clock_us()
        if self._is_broken or now_us - self._wrote_us > self._gap_us:
            return -1
        if self._breaks > UNSETTLED_BREAKS:
            return LONGEST_US
        longest_us = RENEWED_WITHIN * (now_us - self._since_us)
        return longest_us if longest_us >= SHORTEST_LEASE_US else -1

    def had(self, lease_us: int | None = None) -> bool:
        """Whether a living worker with such a lease would have renewed it. Ask inside the transaction that looked for
        expired leases: it may have waited for a lock since the last write."""
        lease_us = max(self._lease_us if lease_us is None else lease_us, SHORTEST_LEASE_US)
        return HARMLESS * (self._clock_us() - self._wrote_us) <= lease_us <= self.longest_us()


def lease_length_us(expires_at: int | None, renewed_at: int | None) -> int:
    """How long a lease was when it was last renewed."""
    return 0 if expires_at is None or renewed_at is None else expires_at - renewed_at
