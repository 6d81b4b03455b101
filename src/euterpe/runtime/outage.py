"""An outage of the database, or of Redis: logged when it begins and when it is over, with growing pauses between tries.

Every part of a process that must not die of it (the worker's loop, the sweeper, the dispatcher, the samples) has one.
"""

from __future__ import annotations

import logging
import random
import time
from typing import Final

from euterpe.model.errors import DatabaseLocked, EuterpeError

FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 2.0


class Outage:
    """Whether the server answers this part, as far as the part knows."""

    def __init__(
        self,
        log: logging.Logger,
        part: str,
        *,
        server: str = "database",
        expected: tuple[type[Exception], ...] = (EuterpeError,),
    ) -> None:
        """`expected`: errors of the server. Any other comes with its traceback: it is a bug, and no outage."""
        self._log = log
        self._part = part
        self._server = server
        self._expected = expected
        self._since: float | None = None
        self._pause_s = FIRST_PAUSE_S

    @property
    def is_on(self) -> bool:
        return self._since is not None

    def pause_after(self, error: Exception, kept: int | None = None) -> float:
        """How long to wait before the next try. `kept`: finished work that waits to be written."""
        if self._since is None:
            self._since = time.monotonic()
            self._pause_s = FIRST_PAUSE_S
            code = " ".join(filter(None, (type(error).__name__, getattr(error, "code", ""))))
            holder = error.holder if isinstance(error, DatabaseLocked) else ""
            message = f"{self._server} unavailable: {self._part} is retrying" + (
                "" if kept is None else ", %d finished are kept"
            )
            keys = {"error_code": code, **({"blocked_by": holder} if holder else {})}
            self._log.warning(message, *(() if kept is None else (kept,)), extra=keys)
            known = isinstance(error, self._expected)
            self._log.log(logging.DEBUG if known else logging.ERROR, "the first error of an outage", exc_info=error)
        self._pause_s = min(self._pause_s * 1.5, LONGEST_PAUSE_S)
        return self._pause_s * random.uniform(0.5, 1.0)

    def over(self) -> None:
        """The server has answered."""
        if self._since is not None:
            away_s, self._since = time.monotonic() - self._since, None
            self._log.warning(f"{self._server} available again: {self._part} goes on after %.1f s", away_s)
