"""Five priority levels; a lower number goes first."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from euterpe.model.errors import InvalidInput


class Priority(IntEnum):
    """How urgent a job is. A lower number runs first. You can also pass a name: `priority="high"`."""

    CRITICAL = 0
    HIGH = 1
    NORMAL = 2
    LOW = 3
    BULK = 4


PRIORITY_NAMES = tuple(level.name.lower() for level in Priority)
_BY_NAME = dict(zip(PRIORITY_NAMES, Priority, strict=True))


def parse_priority(value: Priority | int | str) -> Priority:
    """Accepts `high`, `HIGH`, 1 or Priority.HIGH."""
    if isinstance(value, str):
        level = _BY_NAME.get(value.lower())
        if level is not None:
            return level
    elif isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 4:
        return Priority(value)
    raise InvalidInput("priority", f"{value!r} is not one of {', '.join(_BY_NAME)} (or 0 to 4)")


def inherit(own: int, dependencies: Iterable[int]) -> int:
    """A dependent is at least as urgent as the most urgent job it waits for; frozen at submission."""
    return min(own, *dependencies) if (dependencies := tuple(dependencies)) else own
