"""What a queue's engine asks of a connection that wants to write into its tables."""

from __future__ import annotations

from dataclasses import dataclass

from euterpe.ports import Clock
from euterpe.stores.sql.engine import Engine
from euterpe.stores.sql.sqlite.library import system_clock
from euterpe.stores.sql.sqlite.writer import GroupCommitEngine
from euterpe.stores.sql.statements import Family


@dataclass(frozen=True, slots=True)
class Target:
    """Where the queue lives. `clock` None: the database's own clock decides."""

    family: Family
    schema: str | None = None
    clock: Clock | None = None
    engine: GroupCommitEngine | None = None
    """The engine of a SQLite file."""

    def now(self) -> int | None:
        return self.clock() if self.clock is not None else None

    @property
    def file(self) -> str | None:
        return None if self.engine is None else self.engine.path

    @property
    def open_library(self) -> str | None:
        """The SQLite library by which this process has the file open right now; it may change as callers connect."""
        return self.engine.library.name if self.engine is not None and self.engine.is_open else None


def target_of(engine: Engine) -> Target:
    if isinstance(engine, GroupCommitEngine):
        return Target(engine.family, clock=engine.clock or system_clock, engine=engine)
    return Target(engine.family, schema=engine.schema, clock=engine.clock)
