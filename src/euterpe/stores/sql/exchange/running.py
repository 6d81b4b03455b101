"""The claims of this store in `euterpe_running`, and which of them have ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import repeat
from typing import Final

from euterpe.model.job import Claim
from euterpe.stores.sql.jobs.settle import ClaimKey

REMEMBERED: Final = 200_000
"""Jobs; the oldest are forgotten."""


class RunningClaims:
    """Counts the jobs that are left of each claim. A claim without any is deleted with the next turn; what a process
    forgets, a sweep finds when its leases end."""

    def __init__(self) -> None:
        self._claim_of: dict[ClaimKey, int] = {}
        self._left: dict[int, int] = {}
        self._over: list[int] = []

    def add(self, claim: int | None, claims: Iterable[Claim]) -> None:
        if claim is None:
            return
        keys = [(c.job.id, c.job.claim_version) for c in claims]
        self._left[claim] = len(keys)
        self._claim_of.update(dict.fromkeys(keys, claim))
        while len(self._claim_of) > REMEMBERED:  # HTTP workers may report to another control plane.
            self._left.pop(self._claim_of.pop(next(iter(self._claim_of))), None)

    def settled(self, keys: Iterable[ClaimKey]) -> None:
        """By versions: a turn may claim again what it gave back."""
        for claim, count in Counter(map(self._claim_of.pop, keys, repeat(None))).items():
            if claim is not None and claim in self._left:
                self._left[claim] -= count
                if self._left[claim] <= 0:
                    del self._left[claim]
                    self._over.append(claim)

    def take_over(self) -> list[int]:
        over, self._over = self._over, []
        return over

    def keep_over(self, claims: Iterable[int]) -> None:
        """They could not be deleted."""
        self._over += claims
