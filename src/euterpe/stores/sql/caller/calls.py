"""One round trip of a visit, and a whole series of them."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from euterpe.stores.sql.program import Row

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DriverCall:
    """`params` are a list or a mapping, as the driver likes it."""

    sql: str
    params: Any = field(default_factory=list)
    whole: bool = False
    """It is never cut off: whether a savepoint was set or released must be known."""


Calls = Generator[DriverCall, list[Row], T]
