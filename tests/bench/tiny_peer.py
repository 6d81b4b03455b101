"""The smallest honest peer: a table in SQLite, a row a job, deleted when taken. It stands in for the real ones."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import apsw

from bench.peers.adapter import Payload, Peer, seen

POLL_S = 0.001
TAKE = "DELETE FROM job WHERE id = (SELECT min(id) FROM job) RETURNING payload"


class TinyPeer(Peer):
    async def setup(self) -> None:
        self.connect().execute("CREATE TABLE job (id INTEGER PRIMARY KEY, payload TEXT)")

    async def open(self) -> None:
        self.connection = self.connect()

    async def submit_one(self, payloads: Sequence[Payload]) -> None:
        for payload in payloads:
            self.connection.execute("INSERT INTO job (payload) VALUES (?)", (json.dumps(payload),))

    async def submit_bulk(self, payloads: Sequence[Payload]) -> None:
        with self.connection:
            await self.submit_one(payloads)

    async def unfinished(self) -> int:
        if self.settings["broken"]:
            raise RuntimeError("this peer was told to be broken")
        return sum(1 for _ in self.connection.execute("SELECT id FROM job"))

    async def work(self) -> None:
        connection = self.connect()
        while True:
            row = connection.execute(TAKE).fetchone()
            if row is None:
                await asyncio.sleep(POLL_S)
            else:
                seen(json.loads(row[0]))

    def connect(self) -> apsw.Connection:
        connection = apsw.Connection(self.url.removeprefix("sqlite://"))
        connection.set_busy_timeout(5000)
        connection.execute("PRAGMA journal_mode = WAL")
        return connection


PEER = TinyPeer
