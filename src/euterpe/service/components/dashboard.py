"""The dashboard in a role that serves: over the queue's own database, with a way in for whoever started it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import BinaryIO

from euterpe.backends.accounts import api_keys
from euterpe.backends.dashboard import dashboard_reads, sessions
from euterpe.dashboard.dashboard import Dashboard
from euterpe.dashboard.pages.queues import CronEntry
from euterpe.queue.definition.cron import Cron
from euterpe.queue.queue import Queue, core_of
from euterpe.service.bootstrap import FirstKey


def dashboard_of(queue: Queue, draining: asyncio.Event, local_root: str | None) -> Dashboard:
    """`local_root`: where transcodes of this process put what stays here."""
    core = core_of(queue)
    return Dashboard(
        core.store,
        core.wakeups,
        api_keys(core.store),
        sessions(core.store),
        dashboard_reads(core.store),
        draining=draining,
        open_local=None if local_root is None else partial(open_local, Path(local_root)),
        crons=lambda: [_entry(cron) for cron in core.crons],
    )


@contextmanager
def open_local(root: Path, requester_id: str, key: str) -> Iterator[BinaryIO]:
    """A file in the part of this requester, to which no link leads; raises what that finds wrong with it."""
    from euterpe.transcode.storage.local_root import LocalRoot

    with LocalRoot(root).of(requester_id).reading(key) as descriptor, os.fdopen(os.dup(descriptor), "rb") as file:
        yield file


def _entry(cron: Cron) -> CronEntry:
    next_at = int(cron.next_after(datetime.now(UTC)).timestamp() * 1_000_000)
    return CronEntry(cron.jobtype.type, cron.expression, cron.in_words, cron.tz, next_at)


def one_time_link(dashboard: Dashboard, host: str, first_key: FirstKey) -> str | None:
    """Only on loopback, and only with the key that is this machine's own: the banner may end up in a log."""
    if first_key.prefix is None or not is_loopback(host):
        return None
    return dashboard.one_time_link(first_key.prefix)


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
