"""The lease keeper's process: `python -m euterpe.lease_keeper.__main__`, started by a worker, never by hand.

Most jobs end long before their lease needs a renewal. So it only watches the table, with little code and memory, until
one lasts; a fleet of workers that starts then does not load a database driver twice for each.
"""

from __future__ import annotations

import select
import signal
import sys
import time
from importlib import import_module
from typing import Final

from euterpe.worker.heartbeat.lease_table import CLEAN_EXIT, SHORT_LEASE_US, LeaseTable

TABLE_CHECK_S: Final = 0.5
LASTING: Final = 1 / 6
"""A lease of which so much is over will have to be renewed: half of the time to the first renewal."""


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # The worker decides when we end; it still needs us while it drains.
    descriptor, slots, lease_ttl_us = map(int, sys.stdin.buffer.readline().split())
    config = sys.stdin.buffer.readline()
    table = LeaseTable(slots, descriptor)
    if lease_ttl_us < SHORT_LEASE_US or until_one_lasts(table) or CLEAN_EXIT not in sys.stdin.buffer.read():
        import_module("euterpe.lease_keeper.service").run(config, table)


def until_one_lasts(table: LeaseTable) -> bool:
    """False: the worker ended, by intent, which it says first, or by dying."""
    seen_at: dict[tuple[bytes, int], float] = {}
    while not select.select([sys.stdin], [], [], TABLE_CHECK_S)[0]:
        now = time.monotonic()
        held = {(job_id, version): ttl_us for _, job_id, version, _, ttl_us, _ in table.held()}
        seen_at = {name: seen_at.get(name, now) for name in held}
        if any(
            now - seen_at[name] + 2 * TABLE_CHECK_S >= LASTING * ttl_us / 1_000_000 for name, ttl_us in held.items()
        ):
            return True
    return False


if __name__ == "__main__":
    main()
