"""The lease keeper at work: a store of its own, and heartbeats until the worker is gone.

It outlives a worker that is killed, and the table tells what that worker had begun. So it gives back the rest.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from typing import Final

import msgspec

from euterpe.backends.engines import Backend, connect
from euterpe.model.errors import EuterpeError
from euterpe.ports import Capability, Store
from euterpe.worker.heartbeat.keeper_config import KeeperConfig, read_config
from euterpe.worker.heartbeat.lease_table import CLEAN_EXIT, LeaseTable
from euterpe.worker.heartbeat.renew import LeaseChanges, Name, ReportChanges, renew_forever

UNREAD_LIMIT = 256 * 1024
GIVE_BACK_S: Final = 10.0
"""How long the database may take to be there; afterwards the leases run out, and a sweep has the jobs tried again."""
AGAIN_S: Final = 0.5
"""Before another try, while the database is away."""
LOOKS_S: Final = (0.0, 1.0)
"""A claim that was under way when the worker died may be committed after the first look."""


def run(config: bytes, table: LeaseTable) -> None:
    known = read_config(config)
    table.worker_id = known.worker_id
    asyncio.run(keep_until_gone(known, table))


async def keep_until_gone(config: KeeperConfig, table: LeaseTable) -> None:
    """Beat until the worker closes our standard input, by intent or by dying."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    writer, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, sys.stdout.buffer)
    keeping = loop.create_task(keep(config, table, writer))
    worker_gone = loop.create_task(reader.read())
    await asyncio.wait({keeping, worker_gone}, return_when=asyncio.FIRST_COMPLETED)
    keeping.cancel()
    await asyncio.wait({keeping})
    if worker_gone.done() and CLEAN_EXIT not in worker_gone.result():
        with suppress(TimeoutError):
            async with asyncio.timeout(GIVE_BACK_S):
                await give_back_unbegun(config, table)
    if not keeping.cancelled() and (error := keeping.exception()) is not None:
        raise error


async def give_back_unbegun(config: KeeperConfig, table: LeaseTable) -> None:
    """The worker died. What it had claimed and not begun has cost nothing."""
    begun = {(entry.lease.job_id, entry.lease.claim_version) for entry in table.entries() if entry.begun}
    backend = connect(config.url)
    await _open(backend, lambda _: True)
    try:
        with suppress(EuterpeError):  # It is silent soon anyway.
            if Capability.WORKERS in backend.store.capabilities:
                await backend.store.workers.unregister(config.worker_id)
        for pause_s in LOOKS_S:
            await asyncio.sleep(pause_s)
            await _release_unbegun(backend.store, config.worker_id, begun)
    finally:
        await backend.store.close()


async def _release_unbegun(store: Store, worker_id: str, begun: set[Name]) -> None:
    """What took the worker may have taken the database along for a moment."""
    while True:
        try:
            await store.sweeps.release_unbegun(worker_id, begun)
            return
        except EuterpeError:
            await asyncio.sleep(AGAIN_S)


async def keep(config: KeeperConfig, table: LeaseTable, writer: asyncio.WriteTransport) -> None:
    backend = connect(config.url)

    def report(changes: LeaseChanges) -> bool:
        if writer.get_write_buffer_size() > UNREAD_LIMIT:
            return False  # The worker does not read just now; the next beat says it again.
        writer.write(msgspec.json.encode(changes) + b"\n")
        return True

    await _open(backend, report)
    try:
        report(LeaseChanges())  # Ready.
        await renew_forever(backend.store, table, config.lease_ttl_us, report, config.parent)
    finally:
        await backend.store.close()


async def _open(backend: Backend, report: ReportChanges) -> None:
    """The store alone: no migrations, no wake-ups. A database that is away just now will be back."""
    reported = False
    while True:
        try:
            await backend.store.open()
            return
        except EuterpeError as error:
            reported = reported or report(
                LeaseChanges(trouble=type(error).__name__)
            )  # The worker logs, in its own format.
            await asyncio.sleep(AGAIN_S)
