"""A rate that several processes keep together."""

from __future__ import annotations

from typing import Protocol


class RateLimit(Protocol):
    """So many a second, over everyone who shares the same name."""

    async def take(self, count: int) -> float:
        """Reserve room for this many; returns the seconds to wait before using it."""
        ...

    async def give_back(self, count: int) -> None:
        """So many of the last reservation were not used."""
        ...
