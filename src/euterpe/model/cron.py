"""Crons as data: what the code declares, what operators made of it, and what becomes of missed ticks."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class MissedTicks(StrEnum):
    """What is submitted of the ticks that passed while no worker was up."""

    SKIP = "skip"
    """None, but those of the last minute."""
    ONCE = "once"
    """The latest."""
    ALL = "all"
    """Each of them, a thousand at most."""


class CronRow(msgspec.Struct, frozen=True, kw_only=True):
    """A cron as it is stored. Times are microseconds."""

    name: str
    type: str
    expression: str
    """In effect: the declared one, or what an operator put in its place."""
    tz: str
    declared_expression: str
    declared_tz: str
    missed: str
    paused: bool = False
    last_tick: int | None = None
    """The latest tick that was submitted."""
    seen_at: int = 0
    """When a worker last declared it."""
