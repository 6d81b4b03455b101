"""The database is away: said once, waited out with growing pauses, and said again when it is back."""

from __future__ import annotations

import logging
import random
import time
from typing import Final

from euterpe.model.errors import StoreUnavailable

log = logging.getLogger("euterpe.worker")

FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 2.0


class Absence:
    """Whether the database answers, as far as this worker knows."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._pause_s = FIRST_PAUSE_S

    @property
    def is_away(self) -> bool:
        return self._since is not None

    def begin_or_go_on(self, error: StoreUnavailable, kept: int) -> float:
        """How long to wait before the next try."""
        if self._since is None:
            self._since = time.monotonic()
            self._pause_s = FIRST_PAUSE_S
            log.warning("the database is away; %d ended jobs are kept until it is back", kept, exc_info=error)
        self._pause_s = min(self._pause_s * 1.5, LONGEST_PAUSE_S)
        return self._pause_s * random.uniform(0.5, 1.0)

    def over(self, settled: int) -> None:
        if self._since is not None:
            away_s, self._since = time.monotonic() - self._since, None
            log.warning("the database is back after %.1f s; %d ended jobs were settled", away_s, settled)
