"""The lease keeper: renews a worker's leases from a process of its own.

Handlers may block the event loop or hold the interpreter lock for as long as they like; the keeper does not share
either. It stops renewing when the worker is gone or stopped, so that a frozen worker does lose its jobs, and when
an attempt is past its time. What it learns (a lost lease, a cancel request) it tells the worker over a pipe.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections.abc import Callable
from typing import Final

import msgspec

from euterpe.ports import Claims
from euterpe.worker.beating import LeaseNews, beat_forever
from euterpe.worker.leasetable import KeeperOrders, LeaseTable

log = logging.getLogger("euterpe.worker")

RESTART_S: Final = 1.0
READY_PATIENCE_S: Final = 30.0
END_PATIENCE_S: Final = 5.0

Report = Callable[[str, int], None]
"""Called with (job_id, claim_version)."""


class Reports(msgspec.Struct, frozen=True):
    """What the worker does with a lost lease, and with a cancel request."""

    lost: Report
    cancel: Report

    def pass_on(self, news: LeaseNews) -> None:
        for job_id, version in news.lost:
            self.lost(job_id, version)
        for job_id, version in news.cancelled:
            self.cancel(job_id, version)
        if news.trouble is not None:
            log.warning("leases cannot be renewed just now", extra={"error_code": news.trouble})


class LeaseKeeper:
    """The worker's side: the table, the child, and what is done with its news."""

    def __init__(self, url: str, slots: int, lease_ttl_us: int, reports: Reports) -> None:
        self.table = LeaseTable(slots)
        self._url = url
        self._lease_ttl_us = lease_ttl_us
        self._reports = reports
        self._child: asyncio.subprocess.Process | None = None
        self._listener: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self._started_at = 0.0

    async def ensure_running(self) -> None:
        """Start the child, or start it again if it died."""
        if self._child is not None:
            if self._child.returncode is None:
                return
            if time.monotonic() - self._started_at < RESTART_S:
                return  # It dies as it starts; once a second is often enough.
            log.warning("the lease keeper ended with code %d and is started again", self._child.returncode)
        self._started_at = time.monotonic()
        self._ready.clear()
        self._child = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "euterpe.keep",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            pass_fds=(self.table.descriptor,),
            start_new_session=True,
        )  # fmt: skip
        orders = KeeperOrders(self._url, self.table.descriptor, self.table.slots, self._lease_ttl_us, os.getpid())
        assert self._child.stdin is not None
        self._child.stdin.write(msgspec.json.encode(orders) + b"\n")
        self._listener = asyncio.get_running_loop().create_task(self._listen(self._child))

    async def wait_until_ready(self) -> None:
        """Until it can renew: a lease that is shorter than a process takes to start must not begin before."""
        try:
            await asyncio.wait_for(self._ready.wait(), READY_PATIENCE_S)
        except TimeoutError:
            log.warning("the lease keeper is not ready after %d s; going on without waiting", int(READY_PATIENCE_S))

    async def _listen(self, child: asyncio.subprocess.Process) -> None:
        assert child.stdout is not None
        while line := await child.stdout.readline():
            self._ready.set()
            self._reports.pass_on(msgspec.json.decode(line, type=LeaseNews))
        await child.wait()

    async def close(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            assert child.stdin is not None
            child.stdin.close()  # The keeper ends when its orders' pipe does.
            try:
                await asyncio.wait_for(child.wait(), END_PATIENCE_S)
            except TimeoutError:
                child.kill()
                await child.wait()
        if self._listener is not None:
            self._listener.cancel()
        self.table.close()


class LoopKeeper:
    """Renews on the worker's own loop, where there is no second process: good for tests and for nothing that blocks."""

    def __init__(self, claims: Claims, slots: int, lease_ttl_us: int, reports: Reports) -> None:
        self.table = LeaseTable(slots)
        self._claims = claims
        self._lease_ttl_us = lease_ttl_us
        self._reports = reports
        self._task: asyncio.Task[None] | None = None

    async def ensure_running(self) -> None:
        if self._task is None or self._task.done():
            beating = beat_forever(self._claims, self.table, self._lease_ttl_us, self._hear)
            self._task = asyncio.get_running_loop().create_task(beating)

    async def wait_until_ready(self) -> None:
        return None

    def _hear(self, news: LeaseNews) -> bool:
        self._reports.pass_on(news)
        return True

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        self.table.close()
