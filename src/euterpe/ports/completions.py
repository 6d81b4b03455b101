"""Ending a job inside the transaction that its handler has open on a connection of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from euterpe.model.claims.exchange import Report
from euterpe.model.job import Claim


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
