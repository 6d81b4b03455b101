"""Durations as people write them (`500ms`, `30s`, `1h30m`, `7d`) and as the house keeps them: microseconds.

A number is seconds. Text always carries its unit, because `"30"` could mean thirty of anything.
"""

from __future__ import annotations

import math
import re
from datetime import timedelta
from functools import lru_cache
from typing import Final

from euterpe.model.errors import InvalidInput

SECOND_US: Final = 1_000_000
LONGEST_US: Final = 3650 * 86_400 * SECOND_US
"""Ten years: past that a number is a mistake in the unit, not a plan."""

_UNITS_US: Final = {
    "d": 86_400 * SECOND_US,
    "h": 3_600 * SECOND_US,
    "m": 60 * SECOND_US,
    "s": SECOND_US,
    "ms": 1_000,
    "us": 1,
}
_UNIT_ORDER: Final = {unit: place for place, unit in enumerate(_UNITS_US)}
_PART: Final = re.compile(r"([0-9]{1,18})(?:\.([0-9]{1,9}))?(d|h|ms|m|us|s)", re.ASCII)
_TEXT_LIMIT: Final = 64
_EXAMPLES: Final = "write it as 500ms, 30s, 5m, 1h30m or 7d"

DurationLike = str | int | float | timedelta
"""What the public API takes where it says `timeout=`, `delay=`, `retry_after=`."""


class InvalidDuration(InvalidInput):
    """The value cannot be read as a duration. `field` says whose value it was."""


def parse_duration_us(value: object, field: str = "duration") -> int:
    """Whole microseconds of `value`: text with units, seconds as int or float, or a timedelta."""
    duration_us, complaint = _read(value)
    if not complaint and duration_us < 0:
        complaint = "is negative; a duration is 0 or more"
    elif not complaint and duration_us > LONGEST_US:
        complaint = f"is longer than {format_duration(LONGEST_US)}; check its unit"
    if complaint:
        raise InvalidDuration(field, f"{_shown(value)} {complaint}")
    return duration_us


def _read(value: object) -> tuple[int, str]:
    """(microseconds, "") or (0, what is wrong with the value)."""
    if isinstance(value, str):
        if len(value) > _TEXT_LIMIT:  # before the cache, which would keep it
            return 0, f"is not a duration; {_EXAMPLES}"
        return _read_text(value)
    if isinstance(value, timedelta):
        return value // timedelta(microseconds=1), ""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0, f"is not a duration; {_EXAMPLES}, or as a number of seconds"
    if not math.isfinite(value):
        return 0, "is not a finite number of seconds"
    return round(value * SECOND_US), ""


def format_duration(duration_us: int) -> str:
    """The shortest text that `parse_duration_us` reads back to the same number: 5_400_000_000 -> `1h30m`."""
    if duration_us < 0:
        raise InvalidDuration("duration", f"{duration_us} microseconds is negative; a duration is 0 or more")
    if duration_us == 0:
        return "0s"
    parts = []
    for unit, unit_us in _UNITS_US.items():
        amount, duration_us = divmod(duration_us, unit_us)
        if amount:
            parts.append(f"{amount}{unit}")
    return "".join(parts)


@lru_cache(maxsize=256)  # the same few texts come with every submit
def _read_text(text: str) -> tuple[int, str]:
    """(microseconds, "") or (0, what is wrong with the text)."""
    text = text.strip()
    if text == "0":
        return 0, ""
    if re.fullmatch(r"[0-9.]+", text, re.ASCII):
        return 0, f"has no unit; did you mean {text[:20]}s?"
    if not text:
        return 0, f"is not a duration; {_EXAMPLES}"
    total_us, position, last_unit = 0, 0, -1
    while position < len(text):
        part = _PART.match(text, position)
        if part is None:
            return 0, f"is not a duration; {_EXAMPLES}"
        whole, fraction, unit = part.groups()
        if _UNIT_ORDER[unit] <= last_unit:
            return 0, "has its units out of order or twice; write the largest first, as in 1h30m"
        part_us, rest = divmod(int(whole + (fraction or "")) * _UNITS_US[unit], 10 ** len(fraction or ""))
        if rest:
            return 0, "is finer than a microsecond"
        total_us += part_us
        position, last_unit = part.end(), _UNIT_ORDER[unit]
    return total_us, ""


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _TEXT_LIMIT else text[: _TEXT_LIMIT - 1] + "…"
