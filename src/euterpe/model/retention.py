"""How long ended things are kept, what housekeeping removes, and what a pass of the sweeps did."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from euterpe.model.state import State
from euterpe.model.submitting.submission import DAY_US


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """How long ended jobs, events and tombstones are kept."""

    completed_us: int = 7 * DAY_US
    cancelled_us: int = 7 * DAY_US
    failed_us: int = 30 * DAY_US
    dead_letter_us: int = 90 * DAY_US
    events_us: int = 7 * DAY_US
    tombstones_us: int = 30 * DAY_US

    @property
    def jobs_us(self) -> dict[State, int]:
        """How long ended jobs are kept, by the state they ended in."""
        return {
            State.COMPLETED: self.completed_us,
            State.CANCELLED: self.cancelled_us,
            State.FAILED: self.failed_us,
            State.DEAD_LETTER: self.dead_letter_us,
        }


KEEP: Final = Retention()


class Chore(StrEnum):
    """A kind of rows that housekeeping removes. Keys come first: a pruned job holds its key for another day."""

    UNIQUE_KEYS = "unique_keys"
    IDEMPOTENCY_KEYS = "idempotency_keys"
    JOBS = "jobs"
    EVENTS = "events"
    TOMBSTONES = "tombstones"
    OPERATIONS = "operations"
    WORKERS = "workers"


TIDY_LIMIT: Final = 500
"""Rows of one transaction, at most."""


class Swept(msgspec.Struct, frozen=True):
    """What one pass over the urgent sweeps did."""

    promoted: list[str]
    reclaimed: int
    dead_lettered: int
    lifetimes: int
    unparked: int
    events_reclaimed: int
    failures: tuple[Exception, ...] = ()
    """Why some of its parts could not run."""
    adopted: int = 0
    """Jobs that were ready and in no line."""
