"""The lease keeper at work: a store of its own, and heartbeats until the worker is gone."""

from __future__ import annotations

import asyncio
import sys

import msgspec

from euterpe.backends.engines import Backend, connect
from euterpe.model.errors import EuterpeError
from euterpe.worker.heartbeat.lease_table import KeeperOrders, LeaseTable
from euterpe.worker.heartbeat.renew import Hear, LeaseNews, beat_forever

UNREAD_LIMIT = 256 * 1024


def run(orders: KeeperOrders, table: LeaseTable) -> None:
    asyncio.run(keep_until_gone(orders, table))


async def keep_until_gone(orders: KeeperOrders, table: LeaseTable) -> None:
    """Beat until the worker closes our standard input, by intent or by dying."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    writer, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, sys.stdout.buffer)
    keeping = loop.create_task(keep(orders, table, writer))
    worker_gone = loop.create_task(reader.read())
    await asyncio.wait({keeping, worker_gone}, return_when=asyncio.FIRST_COMPLETED)
    keeping.cancel()
    await asyncio.wait({keeping})
    if not keeping.cancelled() and (error := keeping.exception()) is not None:
        raise error


async def keep(orders: KeeperOrders, table: LeaseTable, writer: asyncio.WriteTransport) -> None:
    backend = connect(orders.url)

    def hear(news: LeaseNews) -> bool:
        if writer.get_write_buffer_size() > UNREAD_LIMIT:
            return False  # The worker does not read just now; the next beat says it again.
        writer.write(msgspec.json.encode(news) + b"\n")
        return True

    await _open(backend, hear)
    try:
        hear(LeaseNews())  # Ready.
        await beat_forever(backend.store, table, orders.lease_ttl_us, hear, orders.parent)
    finally:
        await backend.store.close()


async def _open(backend: Backend, hear: Hear) -> None:
    """The store alone: no migrations, no wake-ups. A database that is away just now will be back."""
    told = False
    while True:
        try:
            await backend.store.open()
            return
        except EuterpeError as error:
            told = told or hear(LeaseNews(trouble=type(error).__name__))  # The worker logs, in its own format.
            await asyncio.sleep(1)
