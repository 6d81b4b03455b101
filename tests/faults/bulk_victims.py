"""Ten processes work on one operation, one after the other; each is killed in the middle of a transaction.

Run as `python -m tests.faults.bulk_victims URL`. One interpreter forks them all, so that ten deaths are cheap.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

from euterpe.backends.engines import connect
from euterpe.stores.sql.bulk import batches
from euterpe.stores.sql.bulk.operations import Operations
from euterpe.stores.sql.program import Program

VICTIMS = 10
BATCH = 5
STATEMENTS = 9
"""One batch is done by then, and the next one has begun. Each victim dies one statement later than the one before."""


def deadly(program: Program[Any], left: list[int]) -> Program[Any]:
    try:
        statement = next(program)
        while True:
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
            statement = program.send((yield statement))
    except StopIteration as stop:
        return stop.value


def die_after(statements: int) -> None:
    left, act = [statements], batches.act
    batches.act = lambda *said: deadly(act(*said), left)


async def work(url: str) -> None:
    backend = connect(url)
    await backend.open()
    while (await backend.store.sweeps.work_operations()).more:
        pass
    await backend.close()


def main(url: str) -> None:
    Operations.batch = BATCH
    for victim in range(VICTIMS):
        pid = os.fork()
        if not pid:
            die_after(STATEMENTS + victim % 5)
            asyncio.run(work(url))
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        assert os.WIFSIGNALED(status), f"victim {victim} lived"
    asyncio.run(work(url))


if __name__ == "__main__":
    main(sys.argv[1])
