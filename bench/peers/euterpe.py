"""Euterpe itself, on the engine that the URL names: all features on, everything kept, metrics recorded.

The setting `shape` makes the jobs of a bulk submit more than plain: `callbacks` (an event each), `chains` (of ten) or
`keys` (a concurrency key each).
"""

from __future__ import annotations

import signal
from collections.abc import Coroutine, Sequence
from typing import Any

import uvloop

import euterpe
from bench.peers.adapter import Payload, Peer, seen
from euterpe.observe.metrics import Metrics
from euterpe.queue.queue import core_of
from euterpe.runtime.collector import relax_collector

CHAIN = 10
KEYS = 100
JOBS_A_KEY = 10
NOBODY = "http://receiver.invalid/"


class Euterpe(Peer):
    queue: euterpe.Queue | None = None

    @staticmethod
    def run(main: Coroutine[Any, Any, None]) -> None:
        uvloop.run(main)

    token: str | None = None
    """The key for a control plane, where the URL names one."""

    def _make_queue(self) -> euterpe.Queue:
        url, _, transport = self.url.partition("#")
        queue = euterpe.Queue(url, token=self.token, transport=transport or None)

        @queue.job("noop")
        async def noop(_ctx: euterpe.Context, number: int, sent_ns: int, padding: str) -> None:
            seen({"number": number, "sent_ns": sent_ns, "padding": padding})

        self.noop = noop
        return queue

    async def setup(self) -> None:
        async with self._make_queue():
            pass

    async def open(self) -> None:
        self.queue = await self._make_queue().__aenter__()

    async def submit_one(self, payloads: Sequence[Payload]) -> None:
        for payload in payloads:
            await self.noop.submit(**payload)

    async def submit_bulk(self, payloads: Sequence[Payload]) -> None:
        size = int(self.settings["submit_batch"])
        for at in range(0, len(payloads), size):
            await self._submit_batch(payloads[at : at + size])

    async def _submit_batch(self, payloads: Sequence[Payload]) -> None:
        assert self.queue is not None, "open comes before submitting"
        calls = [self.noop.with_args(**payload) for payload in payloads]
        match self.settings.get("shape", "plain"):
            case "plain":
                await self.queue.submit_many(calls)
            case "callbacks":
                await self.queue.submit_many(calls, callback_url=NOBODY, callback_events="terminal")
            case "chains":
                await self._submit_chains(self.queue, calls)
            case "keys":
                keyed = [
                    call.with_options(concurrency_key=f"tenant-{at % KEYS}", concurrency_limit=JOBS_A_KEY)
                    for at, call in enumerate(calls)
                ]
                await self.queue.submit_many(keyed)
            case unknown:
                raise ValueError(f"shape {unknown!r} is unknown; there are plain, callbacks, chains and keys")

    async def _submit_chains(self, queue: euterpe.Queue, calls: Sequence[Any]) -> None:
        async with queue.workflow() as flow:
            for at in range(0, len(calls), CHAIN):
                before = flow.add(calls[at])
                for call in calls[at + 1 : at + CHAIN]:
                    before = flow.add(call, after=[before], options={"dependency": "chain"})

    async def unfinished(self) -> int:
        assert self.queue is not None, "open comes before counting"
        return sum(depth.count for depth in await core_of(self.queue).store.depths())

    async def work(self) -> None:
        relax_collector()  # As `euterpe worker` does.
        queue = self.queue or self._make_queue()
        await queue.work(
            concurrency=int(self.settings["concurrency"]),
            batch=int(self.settings["batch"]),
            # Nobody is there to be called: what a delivery costs is not what is measured.
            webhooks=self.settings.get("shape") != "callbacks",
            signals=(signal.SIGTERM,),
            telemetry=Metrics({"default"}),
        )


PEER = Euterpe
