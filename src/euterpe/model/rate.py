"""The rate of a key: how many of its jobs may start in a time, and how many at once after a quiet while.

One number holds the whole state: the time at which the bucket is full again if nothing more is taken. It is compared
with the database's clock alone, so the rate is exact over any number of workers.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from euterpe.model.duration import format_duration, parse_duration_us
from euterpe.model.errors import InvalidInput

LARGEST_BURST: Final = 1_000_000
_TEXT: Final = re.compile(r"([1-9]\d{0,8})/(.+)")
_UNITS: Final = frozenset({"s", "m", "h", "d"})


class Rate(msgspec.Struct, frozen=True):
    """A token every `interval_us`; at most `burst` of them wait to be used."""

    interval_us: int
    burst: int = 1

    def tokens(self, full_at: int, now: int) -> int:
        """How many may be taken at once."""
        missing_us = max(0, full_at - now)
        return max(0, (self.burst * self.interval_us - missing_us) // self.interval_us)

    def taken(self, full_at: int, now: int, count: int) -> int:
        """When it is full again after so many were taken."""
        return max(full_at, now) + count * self.interval_us

    def changed(self, to: Rate, full_at: int, held_until: int, now: int) -> int:
        """When it is full under another rate. The tokens that are there stay. A pause that was asked for keeps its
        time, and tokens are counted from its end."""
        since = max(now, held_until)
        missing_us = max(0, full_at - since) + (to.burst - self.burst) * self.interval_us
        return since + max(0, -(-missing_us * to.interval_us // self.interval_us))


class KeyRate(msgspec.Struct, frozen=True):
    """A rate as it is stored, and how it stands."""

    key: str
    requester_id: str
    rate: Rate
    tokens: int
    """What may start right now."""
    next_in_us: int
    """Until the next may start; 0 while there are tokens."""


def format_rate(rate: Rate) -> str:
    """A text that `parse_rate` reads as the same rate: `10/s`, `100/m`."""
    for unit in ("s", "m", "h", "d"):
        span_us = parse_duration_us(f"1{unit}")
        count = round(span_us / rate.interval_us)
        if 0 < count < 10**9 and span_us // count == rate.interval_us:
            return f"{count}/{unit}"
    return f"1/{format_duration(rate.interval_us)}"


def parse_rate(text: str, burst: int = 1) -> Rate:
    """`10/s`, `100/m`, `5000/h`, `1/15s`; InvalidInput says what is wrong."""
    found = _TEXT.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise InvalidInput("rate", f"{text!r} is not a rate; write it as 10/s, 100/m, 5000/h or 1/15s")
    count, span = int(found.group(1)), found.group(2)
    interval_us = parse_duration_us(f"1{span}" if span in _UNITS else span, "rate") // count
    if interval_us < 1:
        raise InvalidInput("rate", f"{text} is more than one a microsecond")
    if isinstance(burst, bool) or not isinstance(burst, int) or not 1 <= burst <= LARGEST_BURST:
        raise InvalidInput("burst", f"{burst!r} is not a whole number from 1 to {LARGEST_BURST}")
    return Rate(interval_us, burst)
