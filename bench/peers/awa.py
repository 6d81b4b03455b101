"""awa-pg on Postgres: a Rust core with Python handlers, jobs submitted by COPY."""

# mypy: disable-error-code="import-not-found"
# (the peer is installed only in its own environment)

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import asyncpg
from awa import AsyncClient

from bench.peers.adapter import Payload, Peer, seen

QUEUE = "default"
COMPLETED = """
    SELECT coalesce((SELECT sum(completed_count) FROM awa.receipt_completion_batches), 0)
         + coalesce((SELECT sum(pruned_completed_count) FROM awa.queue_terminal_rollups), 0)
         + (SELECT count(*) FROM awa.done_entries)
"""


@dataclass
class Noop:
    number: int
    sent_ns: int
    padding: str


class Awa(Peer):
    async def setup(self) -> None:
        client = AsyncClient(self.url)
        await client.migrate()
        await client.install_queue_storage()
        await client.close()

    async def open(self) -> None:
        self.client = AsyncClient(self.url)
        self.connection = await asyncpg.connect(self.url)
        self.submitted = 0

    async def submit_one(self, payloads: Sequence[Payload]) -> None:
        for payload in payloads:
            await self.client.insert(Noop(**payload), queue=QUEUE)
        self.submitted += len(payloads)

    async def submit_bulk(self, payloads: Sequence[Payload]) -> None:
        size = int(self.settings["submit_batch"])
        for at in range(0, len(payloads), size):
            jobs = [Noop(**payload) for payload in payloads[at : at + size]]
            await self.client.enqueue_many_copy(jobs, queue=QUEUE)
        self.submitted += len(payloads)

    async def unfinished(self) -> int:
        # Its own queue_stats() takes half a minute on 10,000 jobs, so the completions are counted where it puts them.
        return self.submitted - int(await self.connection.fetchval(COMPLETED))

    async def work(self) -> None:
        client = AsyncClient(self.url, max_connections=int(self.settings["connections"]))

        async def noop(job: Any) -> None:
            args: Noop = job.args
            seen({"sent_ns": args.sent_ns})

        client.task(Noop, queue=QUEUE)(noop)
        await client.start(
            [
                {
                    "name": QUEUE,
                    "max_workers": int(self.settings["slots"]),
                    "claimers": int(self.settings["claimers"]),
                    "claim_batch_size": int(self.settings["claim_batch"]),
                }
            ]
        )
        await asyncio.Event().wait()


PEER = Awa
