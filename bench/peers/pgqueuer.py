"""PgQueuer on Postgres: one asyncpg connection, large batches, uvloop. Finished jobs leave log rows."""

# mypy: disable-error-code="import-not-found"
# (the peer is installed only in its own environment)

from __future__ import annotations

import json
from collections.abc import Coroutine, Sequence
from typing import Any

import asyncpg
import uvloop
from pgqueuer import AsyncpgDriver, Queries, QueueManager

from bench.peers.adapter import Payload, Peer, seen


async def noop(job: Any) -> None:
    # Decoded here because PgQueuer hands over bytes, where the other peers hand over decoded arguments.
    seen(json.loads(job.payload))


class PgQueuer(Peer):
    @staticmethod
    def run(main: Coroutine[Any, Any, None]) -> None:
        uvloop.run(main)

    async def setup(self) -> None:
        await self.open()
        await self.queries.install()
        await self.connection.close()

    async def open(self) -> None:
        self.connection = await asyncpg.connect(self.url)
        self.queries = Queries(AsyncpgDriver(self.connection))

    async def submit_one(self, payloads: Sequence[Payload]) -> None:
        for payload in payloads:
            await self.queries.enqueue("noop", json.dumps(payload).encode())

    async def submit_bulk(self, payloads: Sequence[Payload]) -> None:
        size = int(self.settings["submit_batch"])
        for at in range(0, len(payloads), size):
            encoded = [json.dumps(payload).encode() for payload in payloads[at : at + size]]
            await self.queries.enqueue(["noop"] * len(encoded), encoded, [0] * len(encoded))

    async def unfinished(self) -> int:
        return int(await self.connection.fetchval("SELECT count(*) FROM pgqueuer"))

    async def work(self) -> None:
        await self.open()
        manager = QueueManager(self.queries)
        manager.entrypoint("noop")(noop)
        await manager.run(batch_size=int(self.settings["batch_size"]))


PEER = PgQueuer
