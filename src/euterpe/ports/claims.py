"""All that a worker asks of a store: claims, heartbeats, progress, reports, completions in a handler's transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from euterpe.model.claims.exchange import (
    LEASE_TTL_US,
    ClaimRequest,
    HeartbeatReply,
    ProgressUpdate,
    Report,
    SettleResult,
)

if TYPE_CHECKING:  # A port is its signatures alone; whoever makes a value loads it.
    from euterpe.model.job import Claim, Lease


class Claims(Protocol):
    """Owning jobs. Every write is fenced by (job_id, claim_version): a stale writer changes nothing."""

    async def claim(self, request: ClaimRequest) -> list[Claim]:
        """Atomically take scheduled jobs: each goes to exactly one caller, with a new claim_version, and its attempt
        is charged in the same transaction. Most urgent first, submission order inside a priority."""
        ...

    async def heartbeat(self, leases: Sequence[Lease], lease_ttl_us: int = LEASE_TTL_US) -> list[HeartbeatReply]:
        """Renew leases, all in one statement, answers in the same order. A late heartbeat is accepted while its version
        is current. A row that somebody holds keeps no other lease waiting."""
        ...

    async def check_leases(self, leases: Sequence[Lease]) -> list[HeartbeatReply]:
        """What a heartbeat would answer, in the same order: which leases are gone, and which are asked to stop."""
        ...

    async def update_progress(self, updates: Sequence[ProgressUpdate]) -> list[bool]:
        """Write stage, progress and checkpoint. False: the claim was stale."""
        ...

    async def exchange(
        self, finished: Sequence[Report], request: ClaimRequest | None
    ) -> tuple[list[SettleResult], list[Claim]]:
        """Settle and claim in one go: one transaction where the engine can, so that a busy worker commits once. Waits
        for no row that somebody holds."""
        ...

    async def settle(self, finished: Sequence[Report]) -> list[SettleResult]:
        """End attempts. In one transaction: the fenced update, the closed attempt, what it releases or ends, events.
        Safe to repeat after a lost answer: what this outcome already closed is accepted again. Waits a moment for a
        row that somebody holds."""
        ...


class CallerCompletions(Protocol):
    """Completions that commit with the handler's own writes, or never were. Fenced as every other settle."""

    async def complete_on(self, finished: Report, connection: object) -> None:
        """Complete the job inside the open transaction of this connection, with all that follows from its end. Raises
        StaleLease when the claim no longer owns the job; that transaction cannot be committed any more."""
        ...

    def complete_on_sync(self, finished: Report, connection: object) -> None:
        """The same on a blocking connection, from code that cannot await."""
        ...

    async def completed(self, claims: Sequence[Claim]) -> list[bool]:
        """Which of these attempts have completed their jobs, as far as is committed."""
        ...
