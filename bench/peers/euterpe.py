"""Euterpe itself, on the engine that the URL names: all features on, everything kept, metrics recorded.

The setting `shape` makes the jobs more than plain: one of `harness/shapes.py`, `callbacks` (an event each), `chains`
(of ten) or `keys` (a concurrency key each).
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Coroutine, Sequence
from typing import Any

import uvloop

import euterpe
from bench.peers.adapter import Payload, Peer, seen
from euterpe.observe.metrics import Metrics
from euterpe.queue.definition.options import Options
from euterpe.queue.queue import core_of
from euterpe.runtime.collector import relax_collector

CHAIN = 10
KEYS = 100
JOBS_A_KEY = 10
NOBODY = "http://receiver.invalid/"
PRIORITIES = ("high", "normal", "low")
TINY_BACKOFF = {"strategy": "constant", "initial": "1ms", "jitter": 0}


def tags_of(number: int) -> dict[str, str]:
    return {"order": str(number), "tenant": str(number % KEYS)}


def request_options(number: int) -> Options:
    """As a web application submits a job in a request."""
    return {"idempotency_key": f"request-{number}", "correlation_id": f"visit-{number}", "tags": tags_of(number)}


class Euterpe(Peer):
    queue: euterpe.Queue | None = None

    @staticmethod
    def run(main: Coroutine[Any, Any, None]) -> None:
        uvloop.run(main)

    token: str | None = None
    """The key for a control plane, where the URL names one."""

    @property
    def _shape(self) -> str:
        return str(self.settings.get("shape", "plain"))

    def _make_queue(self) -> euterpe.Queue:
        url, _, transport = self.url.partition("#")
        queue = euterpe.Queue(url, token=self.token, transport=transport or None)
        fails_first = self._shape == "retried"

        @queue.job("noop")
        async def noop(ctx: euterpe.Context, number: int, sent_ns: int, padding: str) -> None:
            seen({"number": number, "sent_ns": sent_ns, "padding": padding})
            if fails_first and ctx.attempt == 1:
                raise euterpe.TemporaryError("the first attempt fails")

        self.noop = noop
        return queue

    async def setup(self) -> None:
        async with self._make_queue():
            pass

    async def open(self) -> None:
        self.queue = await self._make_queue().__aenter__()

    async def submit_one(self, payloads: Sequence[Payload]) -> None:
        from_requests = self._shape == "web"
        for payload in payloads:
            if from_requests:
                await self.noop.options(**request_options(payload["number"])).submit(**payload)
            else:
                await self.noop.submit(**payload)

    async def submit_bulk(self, payloads: Sequence[Payload]) -> None:
        size = int(self.settings["submit_batch"])
        for at in range(0, len(payloads), size):
            await self._submit_batch(payloads[at : at + size])

    async def _submit_batch(self, payloads: Sequence[Payload]) -> None:
        assert self.queue is not None, "open comes before submitting"
        calls = [self.noop.with_args(**payload) for payload in payloads]
        pairs = list(zip(calls, payloads, strict=True))
        match self._shape:
            case "plain":
                await self.queue.submit_many(calls)
            case "tagged":
                tagged = [call.with_options(tags=tags_of(payload["number"])) for call, payload in pairs]
                await self.queue.submit_many(tagged)
            case "mixed":
                mixed = [call.with_options(priority=PRIORITIES[payload["number"] % 3]) for call, payload in pairs]
                await self.queue.submit_many(mixed)
            case "delayed":
                await self.queue.submit_many(calls, delay=self.settings["due_after_s"])
            case "retried":
                await self.queue.submit_many(calls, backoff=TINY_BACKOFF)
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
                raise ValueError(f"shape {unknown!r} has no bulk submit; use another one of harness/shapes.py")

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
        if self._shape == "retried":
            # A traceback for every failed attempt would be measured too.
            logging.getLogger("euterpe").setLevel(logging.ERROR)
        queue = self.queue or self._make_queue()
        await queue.work(
            concurrency=int(self.settings["concurrency"]),
            batch=int(self.settings["batch"]),
            # Nobody is there to be called: what a delivery costs is not what is measured.
            webhooks=self._shape != "callbacks",
            # Jobs that all fail once would open it, and nothing would run for 30 s.
            circuit_breaker=self._shape != "retried",
            signals=(signal.SIGTERM,),
            telemetry=Metrics({"default"}),
        )


PEER = Euterpe
