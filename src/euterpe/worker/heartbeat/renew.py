"""Heartbeats for all leases of a worker, one statement at a time, wherever they are sent from."""

from __future__ import annotations

import asyncio
import math
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from euterpe.model.job import Lease
from euterpe.ports import Claims
from euterpe.worker.heartbeat.lease_table import Entry, LeaseTable

BEATS_PER_LEASE: Final = 3
SHORTEST_INTERVAL_S: Final = 1 / BEATS_PER_LEASE
"""Rows of older releases may ask for leases of microseconds; following them would be all that a keeper does."""
SHORTEST_BEAT_S: Final = 1.0
TABLE_CHECK_S: Final = 0.5
PROC: Final = Path("/proc")
PS: Final = ["ps", "-o", "state=", "-p"]
PS_PATIENCE_S: Final = 2.0
NEWS_LIMIT: Final = 200
"""Claims in one piece of news: a line of it stays far below what a pipe's reader takes at once."""

Name = tuple[str, int]
"""(job_id, claim_version)"""


class LeaseChanges(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the heartbeats found: claims that are lost, claims that are asked to stop, and the kind of error that keeps
    leases from being renewed at all."""

    lost: list[Name] = []
    cancelled: list[Name] = []
    trouble: str | None = None


ReportChanges = Callable[[LeaseChanges], bool]
"""Told what is new; says whether it took it."""


async def renew_forever(
    claims: Claims, table: LeaseTable, lease_ttl_us: int, report: ReportChanges, worker_pid: int | None = None
) -> None:
    """Renew all of them whenever a third of the shortest lease is over."""
    reported: set[Name] = set()
    in_trouble = False
    renewed_at = -math.inf  # Whatever was claimed while the keeper started has waited long enough.
    while True:
        entries = due(table, worker_pid)
        now = time.monotonic()
        shortest_us = min((entry.ttl_us for entry in entries), default=lease_ttl_us)
        interval_s = max(shortest_us / BEATS_PER_LEASE / 1_000_000, SHORTEST_INTERVAL_S)
        if not entries:
            renewed_at = now
        elif now - renewed_at >= interval_s - TABLE_CHECK_S / 2:
            try:
                # A beat that hangs in a dead network must not keep the next one from a network that is back.
                async with asyncio.timeout(max(interval_s, SHORTEST_BEAT_S)):
                    replies = await claims.heartbeat([entry.lease for entry in entries], lease_ttl_us)
            except Exception as error:  # noqa: BLE001  # whatever one beat meets, the next one must come
                in_trouble = in_trouble or report(LeaseChanges(trouble=type(error).__name__))
            else:
                in_trouble = False
                renewed_at = now
                lost = [name_of(b.lease) for b in replies if not b.alive]
                cancelled = [name_of(b.lease) for b in replies if b.cancel_requested]
                reported = _report_changes(lost, cancelled, reported, report)
        # The table is memory: looking often costs little, and finds a job with a short lease in time.
        await asyncio.sleep(min(TABLE_CHECK_S, interval_s / 2))


def _report_changes(lost: list[Name], cancelled: list[Name], reported: set[Name], report: ReportChanges) -> set[Name]:
    """Tell what was not told before; returns what has been told of what still holds."""
    now_told = reported & {*lost, *cancelled}
    fresh = [(name, True) for name in lost if name not in reported]
    fresh += [(name, False) for name in cancelled if name not in reported]
    for start in range(0, len(fresh), NEWS_LIMIT):
        part = fresh[start : start + NEWS_LIMIT]
        changes = LeaseChanges(
            [name for name, is_lost in part if is_lost], [name for name, is_lost in part if not is_lost]
        )
        if report(changes):
            now_told |= {name for name, _ in part}
    return now_told


def due(table: LeaseTable, worker_pid: int | None) -> list[Entry]:
    """What to renew now: nothing for a worker that is stopped or gone, nothing past its time."""
    now = time.monotonic()
    entries = [entry for entry in table.entries() if entry.keep_until > now]
    return [] if entries and worker_pid is not None and is_stopped(worker_pid) else entries


def is_stopped(pid: int) -> bool:
    """Stopped by a signal, a zombie or gone. Where the system does not tell, a worker counts as running."""
    if os.getppid() != pid:
        return True
    return (state_by_proc(pid) if PROC.exists() else state_by_ps(pid))[:1] in ("T", "t", "Z", "X")


def state_by_proc(pid: int) -> str:
    """Linux: the letter of the process's state. Empty when it cannot be read."""
    try:
        stat = (PROC / str(pid) / "stat").read_text()
    except OSError:
        return ""
    return stat.rpartition(")")[2].split()[0]


def state_by_ps(pid: int) -> str:
    """macOS and the BSDs have no /proc; every Unix has ps."""
    try:
        result = subprocess.run(  # noqa: S603  # a command of ours and a number
            [*PS, str(pid)], capture_output=True, text=True, timeout=PS_PATIENCE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return result.stdout.strip()


def name_of(lease: Lease) -> Name:
    return lease.job_id, lease.claim_version
