"""An outage of the database: logged when it begins and when it is over, and waited out with growing pauses between.

Every part of a process that must not die of it (the worker's loop, the sweeper, the dispatcher, the samples) has one.
"""

from __future__ import annotations

import logging
import random
import time
from typing import Final

from euterpe.model.errors import EuterpeError

FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 2.0


class Outage:
    """Whether the database takes this part's statements, as far as the part knows."""

    def __init__(self, log: logging.Logger, part: str) -> None:
        self._log = log
        self._part = part
        self._since: float | None = None
        self._pause_s = FIRST_PAUSE_S

    @property
    def is_on(self) -> bool:
        return self._since is not None

    def pause_after(self, error: Exception, kept: int | None = None) -> float:
        """How long to wait before the next try. `kept`: finished work that waits to be written.

        An error that is not ours comes with its traceback, at the first time: it is a bug, and no outage."""
        if self._since is None:
            self._since = time.monotonic()
            self._pause_s = FIRST_PAUSE_S
            code = " ".join(filter(None, (type(error).__name__, getattr(error, "code", ""))))
            said = f"database unavailable: {self._part} is retrying" + (
                "" if kept is None else ", %d finished are kept"
            )
            self._log.warning(said, *(() if kept is None else (kept,)), extra={"error_code": code})
            known = isinstance(error, EuterpeError)
            self._log.log(logging.DEBUG if known else logging.ERROR, "the first error of an outage", exc_info=error)
        self._pause_s = min(self._pause_s * 1.5, LONGEST_PAUSE_S)
        return self._pause_s * random.uniform(0.5, 1.0)

    def over(self) -> None:
        """The database has taken a statement."""
        if self._since is not None:
            away_s, self._since = time.monotonic() - self._since, None
            self._log.warning(f"database available again: {self._part} goes on after %.1f s", away_s)
