"""The registry of workers: who is alive, also of those that have nothing to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from euterpe.model.claims.presence import LISTED, LiveWorker, Presence


class WorkerRegistry(Protocol):
    """What workers tell of themselves. No job depends on it: it is for those who look."""

    async def register(self, workers: Sequence[Presence]) -> None:
        """These are alive, now. Said again and again; who falls silent is forgotten."""
        ...

    async def unregister(self, worker_id: str) -> None:
        """It has ended."""
        ...

    async def list(self, limit: int = LISTED) -> list[LiveWorker]:
        """Those that are alive, by their names."""
        ...
