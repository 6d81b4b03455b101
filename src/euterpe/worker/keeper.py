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
from pathlib import Path
from typing import Final

import msgspec

from euterpe.model.errors import EuterpeError
from euterpe.model.job import Lease
from euterpe.ports import Claims
from euterpe.worker.leasetable import LeaseTable

log = logging.getLogger("euterpe.worker")

BEATS_PER_LEASE: Final = 3
PATIENCE_S: Final = 1.0


class KeeperOrders(msgspec.Struct, frozen=True):
    """What a keeper process is told at its start, over its standard input: no secret goes on a command line."""

    url: str
    descriptor: int
    slots: int
    lease_ttl_us: int
    parent: int


class KeeperNews(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line from the keeper: claims that are lost, claims that are asked to stop."""

    lost: list[tuple[str, int]] = []
    cancelled: list[tuple[str, int]] = []


class LeaseKeeper:
    """The worker's side: the table, the child, and what is done with its news."""

    def __init__(
        self, url: str, slots: int, lease_ttl_us: int, on_lost: Callable[[str, int], None],
        on_cancel: Callable[[str, int], None],
    ) -> None:  # fmt: skip
        self.table = LeaseTable(slots)
        self._url = url
        self._lease_ttl_us = lease_ttl_us
        self._on_lost = on_lost
        self._on_cancel = on_cancel
        self._child: asyncio.subprocess.Process | None = None
        self._listener: asyncio.Task[None] | None = None

    async def ensure_running(self) -> None:
        """Start the child, or start it again if it died."""
        if self._child is not None and self._child.returncode is None:
            return
        if self._child is not None:
            log.warning("the lease keeper ended with code %d and is started again", self._child.returncode or 0)
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

    async def _listen(self, child: asyncio.subprocess.Process) -> None:
        assert child.stdout is not None
        while line := await child.stdout.readline():
            news = msgspec.json.decode(line, type=KeeperNews)
            for job_id, version in news.lost:
                self._on_lost(job_id, version)
            for job_id, version in news.cancelled:
                self._on_cancel(job_id, version)
        await child.wait()

    async def close(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            assert child.stdin is not None
            child.stdin.close()  # The keeper ends when its orders' pipe does.
            try:
                await asyncio.wait_for(child.wait(), 5)
            except TimeoutError:
                child.kill()
                await child.wait()
        if self._listener is not None:
            self._listener.cancel()
        self.table.close()


async def keep(
    claims: Claims, table: LeaseTable, lease_ttl_us: int, parent: int, tell: Callable[[bytes], None]
) -> None:
    """The child's side: beat until cancelled."""
    interval_s = lease_ttl_us / BEATS_PER_LEASE / 1_000_000
    told: set[tuple[str, int]] = set()
    next_beat = time.monotonic() + interval_s
    while True:
        await asyncio.sleep(max(0.0, next_beat - time.monotonic()))
        next_beat = time.monotonic() + interval_s
        leases = due(table, parent)
        if not leases:
            continue
        try:
            beats = await claims.heartbeat(leases, lease_ttl_us)
        except EuterpeError as error:
            log.warning("leases could not be renewed, trying again", exc_info=error)
            next_beat = time.monotonic() + min(PATIENCE_S, interval_s)
            continue
        lost = [_name(b.lease) for b in beats if not b.alive]
        cancelled = [_name(b.lease) for b in beats if b.cancel_requested]
        fresh = [name for name in (*lost, *cancelled) if name not in told]
        if fresh:
            tell(msgspec.json.encode(KeeperNews(lost, cancelled)) + b"\n")
        told = {*lost, *cancelled}


def due(table: LeaseTable, parent: int) -> list[Lease]:
    """What to renew now: nothing for a worker that is stopped or gone, nothing past its time."""
    if is_stopped(parent):
        return []
    now = time.monotonic()
    return [entry.lease for entry in table.entries() if entry.keep_until > now]


def is_stopped(pid: int) -> bool:
    """Stopped by a signal, a zombie or gone. Where the system does not tell, a worker counts as running."""
    if os.getppid() != pid:
        return True
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] in ("T", "t", "Z", "X")


def _name(lease: Lease) -> tuple[str, int]:
    return lease.job_id, lease.claim_version
