"""Waiting for the end of a job: told at once by a worker of this very queue, found by looking otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from euterpe.model.claims.exchange import SettleResult
from euterpe.model.state import TERMINAL


class ResultWaiters:
    """Who waits for which job. Waiters may live on other loops than the worker (`queue.sync` has its own)."""

    def __init__(self) -> None:
        self._waiters: dict[str, list[tuple[asyncio.AbstractEventLoop, asyncio.Event]]] = {}

    @contextmanager
    def watch(self, job_id: str) -> Iterator[asyncio.Event]:
        """An event that is set when a worker here has ended the job."""
        entry = (asyncio.get_running_loop(), asyncio.Event())
        self._waiters.setdefault(job_id, []).append(entry)
        try:
            yield entry[1]
        finally:
            left = [other for other in self._waiters[job_id] if other is not entry]
            if left:
                self._waiters[job_id] = left
            else:
                del self._waiters[job_id]

    def settled(self, job_ids: Sequence[str], verdict: SettleResult) -> None:
        """Attempts were written; most are nobody's concern."""
        if not self._waiters or verdict.state not in TERMINAL:
            return
        for job_id in job_ids:
            for loop, event in self._waiters.get(job_id, ()):
                if not loop.is_closed():
                    loop.call_soon_threadsafe(event.set)
