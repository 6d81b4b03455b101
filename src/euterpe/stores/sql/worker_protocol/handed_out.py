"""The claims that this control plane handed out, by which reports on them are settled without a look at their rows."""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from typing import Final

from euterpe.model.claims.worker_reports import ShownLease
from euterpe.model.job import Claim

AT_MOST: Final = 20_000
"""The oldest are forgotten: their reports went to another control plane, or take long."""
LARGE_BYTES: Final = 4_000
"""Jobs with larger payloads are not remembered: their rows are read when they end."""


class HandedOut:
    def __init__(self) -> None:
        self._claims: dict[tuple[str, int], Claim] = {}

    def add(self, claims: Iterable[Claim]) -> None:
        for claim in claims:
            if len(claim.job.payload) <= LARGE_BYTES:
                self._claims[claim.job.id, claim.job.claim_version] = claim
        while len(self._claims) > AT_MOST:
            del self._claims[next(iter(self._claims))]

    def find(self, lease: ShownLease) -> Claim | None:
        """The claim whose own token this is."""
        claim = self._claims.get(lease.claim)
        if claim is None or claim.lease.token is None or claim.job.worker_id != lease.worker_id:
            return None
        is_own = hmac.compare_digest(claim.lease.token.encode(), lease.token.encode(errors="replace"))
        return claim if is_own else None

    def knows(self, job_id: str, claim_version: int) -> bool:
        return (job_id, claim_version) in self._claims

    def forget(self, leases: Iterable[ShownLease]) -> None:
        for lease in leases:
            self._claims.pop(lease.claim, None)
