"""Acts on everything that matches a query."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # A port is its signatures alone; whoever makes a value loads it.
    from euterpe.model.bulk import BulkOperation, BulkOrder, JobCount
    from euterpe.model.reading.views import Search


class BulkOperations(Protocol):
    """Durable operations, worked off in batches by the sweeps of any process. Each job that matched when the operation
    was ordered is acted on once, whoever is killed on the way."""

    async def count(self, query: Search, *, dependents: bool = False) -> JobCount:
        """How many jobs match; bounded, and says so."""
        ...

    async def order(self, order: BulkOrder) -> tuple[BulkOperation, bool]:
        """(the operation, whether its idempotency key had ordered it before)."""
        ...

    async def get(self, operation_id: str, ordered_by: str | None = None) -> BulkOperation:
        """JobNotFound also for an operation that somebody else ordered."""
        ...

    async def list(self, ordered_by: str | None = None, limit: int = 50) -> list[BulkOperation]:
        """The newest first."""
        ...

    async def cancel(self, operation_id: str, ordered_by: str | None = None) -> BulkOperation:
        """What was done stays done; no further job is acted on."""
        ...
