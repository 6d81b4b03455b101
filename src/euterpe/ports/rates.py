"""Rates over all processes: of the jobs of a key, and of whoever shares a name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from euterpe.model.submitting.submission import LOCAL_REQUESTER

if TYPE_CHECKING:  # A port is its signatures alone; whoever makes a value loads it.
    from euterpe.model.rate import KeyRate, Rate


class KeyRates(Protocol):
    """How many jobs of a key may start in a time. A key is a requester's own `concurrency_key`."""

    async def set(self, key: str, rate: Rate, requester_id: str = LOCAL_REQUESTER) -> None:
        """From now on. A new rate of a known key begins where the old one stands."""
        ...

    async def remove(self, key: str, requester_id: str = LOCAL_REQUESTER) -> bool:
        """Whether there was one. What waits for it goes on."""
        ...

    async def list(self) -> list[KeyRate]:
        """All of them, by key."""
        ...

    async def charge(self, key: str, tokens: int, requester_id: str = LOCAL_REQUESTER) -> None:
        """Take so many tokens more; whoever comes next waits for them. Nothing happens to a key without a rate."""
        ...


class RateLimit(Protocol):
    """So many a second, over everyone who shares the same name."""

    async def take(self, count: int) -> float:
        """Reserve room for this many; returns the seconds to wait before using it."""
        ...

    async def give_back(self, count: int) -> None:
        """So many of the last reservation were not used."""
        ...
