"""How long to wait before the next attempt: four strategies, jitter, and the cap that holds after jitter."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Any, Final, assert_never

from euterpe.model.errors import InvalidInput

SECOND_US: Final = 1_000_000
HOUR_US: Final = 3600 * SECOND_US
LONGEST_DELAY_US: Final = 3650 * 24 * HOUR_US
"""Ten years. A time that no longer fits into a row or a calendar would make the settle itself fail."""

NAME_LIMIT: Final = 200
CustomDelay = Callable[[int, int, int], int]
"""delay(n, initial_us, max_us) -> microseconds"""

_custom: dict[str, CustomDelay] = {}


class UnusableDelay(Exception):
    """A custom backoff raised, or returned what is no time to wait."""


class Strategy(StrEnum):
    """How the waits between attempts grow: not at all, by a fixed step, by a factor, or by your own function."""

    CONSTANT = "constant"
    LINEAR = "linear"
    EXPONENTIAL = "exponential"
    CUSTOM = "custom"


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long to wait before the next attempt.

    `initial_us` and `max_us` are in microseconds. `multiplier` is the factor of the exponential strategy. `jitter` is
    the part of each wait by which it varies. `name` is the registered function of the custom strategy. You can also
    pass a name or a dict: `backoff="exponential"`.

    Example:
        @queue.job("mail.send", backoff={"strategy": "exponential", "initial": "1s", "max": "10m"})
    """

    strategy: Strategy = Strategy.EXPONENTIAL
    initial_us: int = SECOND_US
    max_us: int = HOUR_US
    multiplier: float = 2.0
    jitter: float = 0.1
    name: str | None = None

    def __post_init__(self) -> None:
        self._check_types()
        if self.initial_us < 0:
            raise InvalidInput("backoff.initial", "must not be negative")
        if self.max_us < self.initial_us:
            raise InvalidInput("backoff.max", "must not be shorter than backoff.initial")
        if self.max_us > LONGEST_DELAY_US:
            raise InvalidInput("backoff.max", "must not be longer than ten years")
        if not 1.0 <= self.multiplier <= 1000.0:
            raise InvalidInput("backoff.multiplier", f"{self.multiplier!r} is not between 1 and 1000")
        if not 0.0 <= self.jitter <= 1.0:
            raise InvalidInput("backoff.jitter", f"{self.jitter!r} is not between 0 and 1")
        if (self.strategy is Strategy.CUSTOM) != (self.name is not None):
            raise InvalidInput("backoff.name", "names the function of a custom backoff, and only of one")

    def _check_types(self) -> None:
        for field, value in (("initial", self.initial_us), ("max", self.max_us)):
            if type(value) is not int:
                raise InvalidInput(f"backoff.{field}", f"must be whole microseconds, not {type(value).__name__}")
        for field, number in (("multiplier", self.multiplier), ("jitter", self.jitter)):
            if type(number) not in (int, float):
                raise InvalidInput(f"backoff.{field}", f"must be a number, not {type(number).__name__}")
        if not isinstance(self.strategy, Strategy):
            raise InvalidInput("backoff.strategy", f"must be a Strategy, not {type(self.strategy).__name__}")
        if self.name is not None:
            if not isinstance(self.name, str) or not 1 <= len(self.name) <= NAME_LIMIT:
                raise InvalidInput("backoff.name", f"must be text of 1 to {NAME_LIMIT} characters")
            if "\x00" in self.name or any("\ud800" <= c <= "\udfff" for c in self.name):
                raise InvalidInput("backoff.name", "must not contain NUL or lone surrogates")

    def base_delay_us(self, n: int) -> int:
        """The wait before jitter. `n` counts attempts from 1. Raises UnusableDelay if a custom function fails."""
        raw: float
        match self.strategy:
            case Strategy.CONSTANT:
                raw = self.initial_us
            case Strategy.LINEAR:
                raw = self.initial_us * n
            case Strategy.EXPONENTIAL:
                # Beyond 2**64 the cap has long won; a bounded exponent keeps the float finite.
                raw = self.initial_us * self.multiplier ** min(n - 1, 64)
            case Strategy.CUSTOM:
                raw = _usable(custom_delay(self.name or ""), n, self.initial_us, self.max_us)
            case _:
                assert_never(self.strategy)
        return max(0, min(int(raw), self.max_us))

    def delay_us(self, n: int, rng: Random) -> int:
        """The wait with jitter. It is never longer than the limit."""
        base = self.base_delay_us(n)
        if not self.jitter:
            return base
        return min(int(base * (1 + rng.uniform(-self.jitter, self.jitter))), self.max_us)

    def stand_in(self) -> Backoff:
        """The exponential default with the same limits. It replaces a custom function that fails."""
        return Backoff(initial_us=self.initial_us, max_us=self.max_us, jitter=self.jitter)

    def full_jitter_us(self, n: int, rng: Random) -> int:
        """A random wait from 0 to delay(n), so that many deliveries do not reach a receiver at once."""
        return int(rng.uniform(0, self.base_delay_us(n)))


DEFAULT_BACKOFF: Final = Backoff()


def register_custom_delay(name: str, function: CustomDelay) -> None:
    """Makes `function` available to `Backoff(strategy=CUSTOM, name=name)` in this process."""
    _custom[name] = function


def custom_delay(name: str) -> CustomDelay:
    """The registered function; in a process that never registered it, the exponential default stands in."""
    return _custom.get(name, _exponential_stand_in)


def _exponential_stand_in(n: int, initial_us: int, max_us: int) -> int:
    # A sweep may run in a process that never imported the user's code; a lost job must still be retried.
    return Backoff(initial_us=initial_us, max_us=max_us).base_delay_us(n)


def _usable(function: CustomDelay, n: int, initial_us: int, max_us: int) -> float:
    try:
        delay = function(n, initial_us, max_us)
    except (Exception, SystemExit) as error:
        raise UnusableDelay(f"raised {type(error).__name__}") from error
    if isinstance(delay, bool) or not isinstance(delay, (int, float)):
        raise UnusableDelay(f"returned {type(delay).__name__}")
    # Too long is no error, the cap is there for it; infinity is, for nobody means it.
    if not 0 <= delay < math.inf:
        raise UnusableDelay("returned a number that is no time to wait")
    return delay


def backoff_to_wire(backoff: Backoff) -> dict[str, Any] | None:
    """Only what differs from the default is stored; None means the default."""
    stored = {
        field: getattr(backoff, field)
        for field in ("strategy", "initial_us", "max_us", "multiplier", "jitter", "name")
        if getattr(backoff, field) != getattr(DEFAULT_BACKOFF, field)
    }
    return stored or None


def backoff_from_wire(stored: dict[str, Any] | None) -> Backoff:
    if not stored:
        return DEFAULT_BACKOFF
    known = dict(stored)
    if "strategy" in known:
        known["strategy"] = Strategy(known["strategy"])
    return Backoff(**known)
