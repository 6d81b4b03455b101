"""What a control plane asks of its database beside the jobs themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # A port is its signatures alone; whoever makes a value loads it.
    from euterpe.model.claims.exchange import ClaimRequest
    from euterpe.model.claims.worker_reports import ProgressFields, Renewed, ShownLease, TokenReply, TokenReport
    from euterpe.model.job import Claim
    from euterpe.model.reading.views import Change, Usage
    from euterpe.model.submitting.batch import SubmitResult, Unit


class ControlPlaneStore(Protocol):
    """Leases known by their tokens, for workers over HTTP; changes and usage, for requesters."""

    async def claim_for(self, request: ClaimRequest, worker_ids: Sequence[str]) -> list[Claim]:
        """At most one job for each of these workers (a worker may stand there several times), in their order. They are
        as many as the request has places, those for what must begin at once before those for what can wait."""
        ...

    async def check_lease(self, lease: ShownLease) -> bool:
        """Whether the token is that of this claim and worker. Whether the claim still holds, the fence tells."""
        ...

    async def renew_leases(self, shown: Sequence[ShownLease], lease_ttl_us: int) -> list[Renewed | None]:
        """Renew leases; None: the lease is gone."""
        ...

    async def renew_with_progress(self, shown: ShownLease, fields: ProgressFields, lease_ttl_us: int) -> Renewed | None:
        """Renew one lease and write how far its attempt got, in one transaction."""
        ...

    async def finish(self, reports: Sequence[TokenReport]) -> list[TokenReply]:
        """End attempts. Safe to repeat: the same report again gets the same reply."""
        ...

    async def changes(self, requesters: Sequence[str], since: int, followed: Sequence[str]) -> list[Change]:
        """Jobs of these requesters that changed after `since`, and the followed ones; oldest first."""
        ...

    async def stored_answer(self, unit: Unit) -> list[SubmitResult] | None:
        """What this very unit was answered before under its idempotency keys; None: not all of it is stored."""
        ...

    async def usage(self, *, of_jobs: bool, of_keys: bool) -> dict[str, Usage]:
        """What each requester has waiting."""
        ...
