"""The lease keeper's process: `python -m euterpe.keep`, started by a worker, never by hand."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys

import msgspec

from euterpe.compose import connect
from euterpe.worker.keeper import KeeperOrders, keep
from euterpe.worker.leasetable import LeaseTable


async def main() -> None:
    """Beat until the worker closes our standard input, by intent or by dying."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(message)s")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # The worker decides when we end; it still needs us while it drains.
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    orders = msgspec.json.decode(await reader.readline(), type=KeeperOrders)
    backend = connect(orders.url)
    await backend.store.open()
    table = LeaseTable(orders.slots, orders.descriptor)
    os.set_blocking(sys.stdout.fileno(), False)

    def tell(line: bytes) -> None:
        try:
            os.write(sys.stdout.fileno(), line)
        except BlockingIOError:
            return  # The worker is busy and its pipe full; the next beat says it again.

    beating = loop.create_task(keep(backend.store, table, orders.lease_ttl_us, orders.parent, tell))
    worker_gone = loop.create_task(reader.read())
    await asyncio.wait({beating, worker_gone}, return_when=asyncio.FIRST_COMPLETED)
    beating.cancel()
    await backend.store.close()


if __name__ == "__main__":
    asyncio.run(main())
