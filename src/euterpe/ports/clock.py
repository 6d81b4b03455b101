"""The time, as whoever decides by it asks for it."""

from __future__ import annotations

from collections.abc import Callable

Clock = Callable[[], int]
"""Microseconds since the epoch. Injected in tests; on Postgres the default is the database's own clock."""
