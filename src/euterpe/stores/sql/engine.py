"""What a driver must do: run programs, durably, and say honestly what it does not know."""

from __future__ import annotations

from typing import Protocol, TypeVar

from euterpe.model.errors import DatabaseLocked
from euterpe.ports import Clock
from euterpe.stores.sql.program import MakeProgram
from euterpe.stores.sql.statements import Family

T = TypeVar("T")


class LockTimeout(DatabaseLocked):
    """Somebody held a row for longer than the statement was to wait for it."""


class Engine(Protocol):
    """A database. A write is durable when its await returns; a program runs in one transaction, or not at all.

    Raises StoreUnavailable when nothing was committed (safe to run again), CommitUnknown when the answer to the
    commit was lost. `patience_s` is how long to keep trying while the database is away.
    """

    family: Family
    clock: Clock | None
    schema: str | None
    """The schema whose tables these are, where the database has schemas and one was named."""

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    def expect_leases_of(self, seconds: float) -> None:
        """A worker with leases of this length is at work here: should it freeze inside a transaction, the locks of that
        must not outlast them."""
        ...

    async def check_writable(self) -> None:
        """Raises DatabaseLocked, soon, if a lock of somebody else shuts out every writer."""
        ...

    async def write(self, make: MakeProgram[T], *, patience_s: float = 0, is_small: bool = False) -> T:
        """`is_small`: it touches a few rows, so that an engine in this process may run it where it stands."""
        ...

    async def write_one(self, make: MakeProgram[T], *, patience_s: float = 0, is_small: bool = False) -> T:
        """A program of exactly one statement: its own transaction, without a BEGIN around it."""
        ...

    async def read(self, make: MakeProgram[T], *, patience_s: float = 0) -> T: ...

    async def migrate(self) -> list[str]:
        """Apply what is missing, under a lock; returns the names applied. Safe from many processes at once."""
        ...
