"""The sweeps of a store: promote due jobs, recover lost ones, prune old ones."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # A port is its signatures alone; whoever makes a value loads it.
    from euterpe.model.bulk import BulkProgress
    from euterpe.model.claims.heartbeat_turns import HeartbeatTurns
    from euterpe.model.retention import Chore, Retention, Swept


class Sweeps(Protocol):
    """Sweeps. Any process may run any of them at any time: each is a compare-and-set, so two at once do no harm."""

    retention: Retention
    """How long `tidy` keeps what has ended."""

    async def promote(self) -> list[str]:
        """Schedule what is due; returns the queues, one entry a job."""
        ...

    async def recover(self, turns: HeartbeatTurns | None = None) -> Swept:
        """Take back what lost workers held, end what is over its lifetime or budget, unpark what may go on.

        With `turns`, a lease is only taken back if a living worker would have renewed it. A part that fails stops no
        other part."""
        ...

    async def release_unbegun(self, worker_id: str, begun: Collection[tuple[str, int]]) -> int:
        """Give back, with their attempts, the jobs of a worker that is gone, except those that it had begun, named by
        job_id and claim_version; returns how many."""
        ...

    async def urgent(self) -> Swept:
        """Both: promote, then recover."""
        ...

    async def work_operations(self) -> BulkProgress:
        """Act on the next jobs of every operation that is under way, for a bounded time."""
        ...

    async def next_due_in_us(self) -> int | None:
        """When the next delayed or retrying job is due; None if there is none."""
        ...

    async def tidy(self, chore: Chore, limit: int) -> int:
        """Remove up to `limit` rows that retention no longer keeps; returns how many. Fewer: none is left."""
        ...

    async def overdue_us(self) -> int:
        """How long ago the oldest ended job should have been removed; 0 if housekeeping has nothing to do, or where
        there is no cheap answer."""
        ...
