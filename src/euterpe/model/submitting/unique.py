"""One job a key at a time: what a submission does when a job with its unique key is there already."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from euterpe.model.errors import InvalidInput
from euterpe.model.state import WAITING, State


class Unique(StrEnum):
    """What a submit with a `unique_key` does if there is such a job. `waiting` and `active` keep it; `replace` and
    `debounce` change it while it waits."""

    WAITING = "waiting"
    """One waits, beside one that runs."""
    ACTIVE = "active"
    """One in all, waiting or running."""
    REPLACE = "replace"
    """The one that waits gets the new arguments."""
    DEBOUNCE = "debounce"
    """The one that waits gets the new arguments, and its delay begins anew."""

    @property
    def replaces(self) -> bool:
        return self in (Unique.REPLACE, Unique.DEBOUNCE)

    def is_taken_by(self, state: State) -> bool:
        """Whether a job in this state keeps another of its key from being stored."""
        return state in WAITING or (self is Unique.ACTIVE and state is State.RUNNING)


def parse_unique(value: Any) -> Unique:
    try:
        return Unique(value)
    except ValueError:
        known = ", ".join(Unique)
        raise InvalidInput("unique", f"{value!r} is not one of {known}") from None
