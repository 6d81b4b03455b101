"""PgQueuer on Postgres: one asyncpg connection, large batches, uvloop. Finished jobs leave log rows."""

# mypy: disable-error-code="import-not-found"
# (the peer is installed only in its own environment)

from __future__ import annotations

import json
from collections.abc import Coroutine, Sequence
from datetime import timedelta
from typing import Any

import asyncpg
import uvloop
from pgqueuer import AsyncpgDriver, Queries, QueueManager, RetryRequested

from bench.peers.adapter import Payload, Peer, seen


async def noop(job: Any) -> None:
    # Decoded here because PgQueuer hands over bytes, where the other peers hand over decoded arguments.
    seen(json.loads(job.payload))


async def fail_first(job: Any) -> None:
    await noop(job)
    if job.attempts == 0:
        raise RetryRequested(delay=timedelta(milliseconds=1))


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
            await self.queries.enqueue("noop", json.dumps(payload).encode(), **self._shaped(payload["number"]))

    async def submit_bulk(self, payloads: Sequence[Payload]) -> None:
        size = int(self.settings["submit_batch"])
        for at in range(0, len(payloads), size):
            batch = payloads[at : at + size]
            encoded = [json.dumps(payload).encode() for payload in batch]
            shaped = [{"priority": 0, **self._shaped(payload["number"])} for payload in batch]
            options = {name: [each[name] for each in shaped] for name in shaped[0]}
            await self.queries.enqueue(["noop"] * len(encoded), encoded, **options)

    def _shaped(self, number: int) -> dict[str, Any]:
        """What PgQueuer has for the shape: headers are its tags."""
        headers = {"order": str(number), "tenant": str(number % 100)}
        match self.settings.get("shape"):
            case "web":
                return {"dedupe_key": f"request-{number}", "headers": {**headers, "visit": f"visit-{number}"}}
            case "tagged":
                return {"headers": headers}
            case "mixed":
                return {"priority": number % 3}
            case "delayed":
                return {"execute_after": timedelta(seconds=float(self.settings["due_after_s"]))}
            case _:
                return {}

    async def unfinished(self) -> int:
        return int(await self.connection.fetchval("SELECT count(*) FROM pgqueuer"))

    async def work(self) -> None:
        await self.open()
        manager = QueueManager(self.queries)
        manager.entrypoint("noop")(fail_first if self.settings.get("shape") == "retried" else noop)
        await manager.run(batch_size=int(self.settings["batch_size"]))


PEER = PgQueuer
