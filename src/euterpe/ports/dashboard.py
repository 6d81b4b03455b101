"""What a dashboard asks of a database: who is signed in, and looks whose cost does not grow with the history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # A port is its signatures alone; whoever makes a value loads it.
    from euterpe.model.accounts import StoredKey
    from euterpe.model.reading.overview import EventPage, Neighbours, Overview, Workers


class Sessions(Protocol):
    """Sign-ins, kept in the database so that every API process knows them. A session is as good as its key is now."""

    async def begin(self, token_hash: bytes, key_prefix: str, lifetime_us: int) -> None: ...

    async def find(self, token_hash: bytes) -> StoredKey | None:
        """The key of a session that is not over; None when there is no such session."""
        ...

    async def end(self, token_hash: bytes) -> None: ...


class DashboardReads(Protocol):
    """Looks for people. With a requester nothing in them tells of anybody else's jobs."""

    async def overview(self, requester_id: str | None) -> Overview: ...

    async def neighbours(self, job_id: str, requester_id: str | None) -> Neighbours:
        """Of a job that the caller has seen already."""
        ...

    async def events(
        self, requester_id: str | None, state: str | None = None, before: int | None = None, limit: int = 50
    ) -> EventPage:
        """Webhook events, newest first."""
        ...

    async def workers(self, requester_id: str | None) -> Workers: ...
