"""What a Python peer's adapter has to provide, and how its handler reports that a job started.

Standard library only: this file is imported in every peer's own environment. All clock readings are
CLOCK_MONOTONIC in nanoseconds, which is one clock for all processes of a machine, Node's included.
"""

from __future__ import annotations

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

Payload = dict[str, Any]
Setting = str | int | float | bool
PADDING = "x" * 52
REPORT_EVERY_S = 0.02


def make_payload(number: int, sent_ns: int = 0) -> Payload:
    """About 100 bytes of JSON; `sent_ns` is set only where latency is measured."""
    return {"number": number, "sent_ns": sent_ns, "padding": PADDING}


class Seen:
    """Counts handler starts of this process; a handler's whole body is `seen(payload)`.

    A list append is the one cheap operation that loses nothing when handlers run in several threads.
    """

    def __init__(self) -> None:
        self.starts_ns: list[int] = []
        self.latencies_us: list[float] = []
        self._changed = threading.Event()
        self._announced = False

    def __call__(self, payload: Payload) -> None:
        now_ns = time.monotonic_ns()
        self.starts_ns.append(now_ns)
        sent_ns = payload["sent_ns"]
        if sent_ns:
            self.latencies_us.append((now_ns - sent_ns) / 1000)
        if not self._announced:
            self._announced = True
            self._changed.set()

    def report_forever(self, send: Callable[[dict[str, Any]], None]) -> None:
        """Runs in a thread, and sleeps while nothing happens: an idle worker is measured undisturbed."""
        reported = 0
        while True:
            self._changed.wait()
            time.sleep(REPORT_EVERY_S)
            self._changed.clear()
            self._announced = False
            fresh, reported = self.latencies_us[reported:], len(self.latencies_us)
            send({"started": len(self.starts_ns), "first_ns": self.starts_ns[0], "latencies_us": fresh})


seen = Seen()
"""The one counter of this process, for handlers that must be module-level functions."""


class Peer(ABC):
    """One process's hold on a peer: a submitting one or a worker. Made anew for every measurement."""

    @staticmethod
    def run(main: Coroutine[Any, Any, None]) -> None:
        """How to run the event loop; a peer that is faster with uvloop says so here."""
        asyncio.run(main)

    def __init__(self, url: str, settings: Mapping[str, Setting]) -> None:
        self.url = url
        self.settings = settings

    @abstractmethod
    async def setup(self) -> None:
        """Makes schema and queue in the fresh store. Called once a measurement, before anything else."""

    @abstractmethod
    async def open(self) -> None:
        """Connects for submitting; not part of any measured time."""

    @abstractmethod
    async def submit_one(self, payloads: Sequence[Payload]) -> None:
        """Submits them one after the other, each durable (as far as the peer goes) before the next begins."""

    @abstractmethod
    async def submit_bulk(self, payloads: Sequence[Payload]) -> None:
        """Submits them by the fastest documented bulk call; where a peer has none, one by one."""

    @abstractmethod
    async def unfinished(self) -> int:
        """How many jobs the peer's own store still holds as waiting or running."""

    @abstractmethod
    async def work(self) -> None:
        """Runs the peer's worker in this process until the process is killed."""
