"""What Huey's two adapters share: submitting and the consumer, on whichever storage they give."""

# mypy: disable-error-code="import-not-found"
# (the peer is installed only in its own environment)

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Mapping, Sequence

from huey.api import Huey

from bench.peers.adapter import Payload, Peer, Setting, seen


def noop(payload: Payload) -> None:
    seen(payload)


class HueyPeer(Peer):
    def __init__(self, url: str, settings: Mapping[str, Setting]) -> None:
        super().__init__(url, settings)
        logging.getLogger("huey").setLevel(logging.ERROR)  # an INFO line for every job would be measured too
        self.huey = self.make_huey()
        self.task = self.huey.task(name="noop")(noop)

    @abstractmethod
    def make_huey(self) -> Huey:
        """The Huey instance on this adapter's storage."""

    async def setup(self) -> None:
        """Redis needs no schema, SQLite's is made with the instance."""

    async def open(self) -> None:
        self.huey.pending_count()

    async def submit_one(self, payloads: Sequence[Payload]) -> None:
        for payload in payloads:
            self.task(payload)

    async def submit_bulk(self, payloads: Sequence[Payload]) -> None:
        await self.submit_one(payloads)

    async def unfinished(self) -> int:
        return int(self.huey.pending_count())

    async def work(self) -> None:
        poll_s = float(self.settings["poll_s"])
        self.huey.create_consumer(
            workers=int(self.settings["threads"]),
            periodic=False,
            initial_delay=poll_s,
            max_delay=poll_s,
            check_worker_health=False,
        ).run()
