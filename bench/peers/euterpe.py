"""Euterpe itself, on the engine that the URL names: all features on, everything kept, metrics recorded."""

from __future__ import annotations

import signal
from collections.abc import Coroutine, Sequence
from typing import Any

import uvloop

import euterpe
from bench.peers.adapter import Payload, Peer, seen
from euterpe.observe.metrics import Metrics


class Euterpe(Peer):
    @staticmethod
    def run(main: Coroutine[Any, Any, None]) -> None:
        uvloop.run(main)

    token: str | None = None
    """The key for a control plane, where the URL names one."""

    def _make_queue(self) -> None:
        self.queue = euterpe.Queue(self.url, token=self.token)

        @self.queue.job("noop")
        async def noop(_ctx: euterpe.Context, number: int, sent_ns: int, padding: str) -> None:
            seen({"number": number, "sent_ns": sent_ns, "padding": padding})

        self.noop = noop

    async def setup(self) -> None:
        self._make_queue()
        async with self.queue:
            pass

    async def open(self) -> None:
        self._make_queue()
        await self.queue.__aenter__()

    async def submit_one(self, payloads: Sequence[Payload]) -> None:
        for payload in payloads:
            await self.noop.submit(**payload)

    async def submit_bulk(self, payloads: Sequence[Payload]) -> None:
        size = int(self.settings["submit_batch"])
        for at in range(0, len(payloads), size):
            await self.queue.submit_many([self.noop.with_args(**payload) for payload in payloads[at : at + size]])

    async def unfinished(self) -> int:
        return sum(depth.count for depth in await self.queue.store.depths())

    async def work(self) -> None:
        self._make_queue()
        await self.queue.work(
            concurrency=int(self.settings["concurrency"]),
            batch=int(self.settings["batch"]),
            signals=(signal.SIGTERM,),
            telemetry=Metrics({"default"}),
        )


PEER = Euterpe
