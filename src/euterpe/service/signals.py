"""How a process is told to stop: once to finish what it has in hand, twice to let go of it at once."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from euterpe.runtime.signals import on_signals

log: Final = logging.getLogger("euterpe.system")
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class Stop:
    """Two events, set in this order by as many calls of `tell`."""

    def __init__(self) -> None:
        self.draining = asyncio.Event()
        self.at_once = asyncio.Event()

    def request(self) -> None:
        if self.draining.is_set():
            log.info("second stop signal: giving running jobs back")
            self.at_once.set()
        else:
            log.info("stop signal: running jobs may finish; a second signal gives them back at once")
            self.draining.set()

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """SIGTERM and SIGINT (Ctrl-C) tell us while this lasts."""
        with on_signals(SIGNALS, self.request):
            yield
