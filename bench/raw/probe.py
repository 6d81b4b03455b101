"""What a raw probe is: a name, the store it wants fresh, and a function that counts operations a second."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

ProbeStore = Literal["postgres", "redis", "sqlite", "disk"]


@dataclass(frozen=True, slots=True)
class Probe:
    name: str
    store: ProbeStore
    operations: int
    measure: Callable[[str, int], Awaitable[float]]
    """Gets the fresh store's URL (for `disk`: an empty folder) and a count; returns operations a second."""
