"""A dashboard in a process of its own, that works on operations: `python -m tests.dashboard.mortal_site URL FD GATE`.

It serves on a socket that it inherits, so that whoever comes after it has the same address. With a gate, a file, it
stops in the middle of the transaction of the third batch until the file is there, and then kills itself.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

from euterpe.stores.sql.bulk import batches
from euterpe.stores.sql.bulk.operations import Operations
from euterpe.stores.sql.program import Program
from euterpe.worker.sweeper import sweep_forever
from tests.dashboard.site import running_site

BATCH = 5
BATCHES_DONE = 2
"""By the one that dies."""


def deadly(program: Program[Any], gate: Path) -> Program[Any]:
    """Everything is done but the last statement, which moves the operation's place."""
    statement = next(program)
    while statement.name != "advance_operation":
        statement = program.send((yield statement))
    while not gate.exists():
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)
    return None


def die_at(gate: Path) -> None:
    act, done = batches.act, [0]

    def mortal(*said: Any) -> Program[Any]:
        done[0] += 1
        return act(*said) if done[0] <= BATCHES_DONE else deadly(act(*said), gate)

    batches.act = mortal  # type: ignore[assignment]


async def main(url: str) -> None:
    async with running_site(url) as site:
        assert site.store.wakeups is not None
        print("serving", flush=True)
        await sweep_forever(site.store.sweeps, site.store.wakeups)


if __name__ == "__main__":
    Operations.batch = BATCH
    if sys.argv[3]:
        die_at(Path(sys.argv[3]))
    listener = socket.socket(fileno=int(sys.argv[2]))
    socket.create_server = lambda *_, **__: listener
    asyncio.run(main(sys.argv[1]))
