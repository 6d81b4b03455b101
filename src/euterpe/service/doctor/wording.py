"""Ages and lists as the checks say them."""

from __future__ import annotations

from typing import Final

from euterpe.model.duration import format_duration

MINUTE_US: Final = 60_000_000
HOUR_US: Final = 60 * MINUTE_US
DAY_US: Final = 24 * HOUR_US


def age_text(age_us: int) -> str:
    """In whole minutes or seconds: `1h30m`."""
    unit = MINUTE_US if age_us >= MINUTE_US else 1_000_000
    return format_duration(age_us // unit * unit)


def listed(names: list[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
