"""Procrastinate on Postgres: psycopg 3 pool, async worker. Finished jobs stay in the table, as by default."""

# mypy: disable-error-code="import-not-found"
# (the peer is installed only in its own environment)

from __future__ import annotations

from collections.abc import Mapping, Sequence

from procrastinate import App, PsycopgConnector

from bench.peers.adapter import Payload, Peer, Setting, seen


async def noop(payload: Payload) -> None:
    seen(payload)


class Procrastinate(Peer):
    def __init__(self, url: str, settings: Mapping[str, Setting]) -> None:
        super().__init__(url, settings)
        self.app = App(connector=PsycopgConnector(conninfo=url))
        self.task = self.app.task(name="noop")(noop)

    async def setup(self) -> None:
        await self.app.open_async()
        await self.app.schema_manager.apply_schema_async()
        await self.app.close_async()

    async def open(self) -> None:
        await self.app.open_async()

    async def submit_one(self, payloads: Sequence[Payload]) -> None:
        for payload in payloads:
            await self.task.defer_async(payload=payload)

    async def submit_bulk(self, payloads: Sequence[Payload]) -> None:
        size = int(self.settings["submit_batch"])
        for at in range(0, len(payloads), size):
            await self.task.batch_defer_async(*({"payload": payload} for payload in payloads[at : at + size]))

    async def unfinished(self) -> int:
        row = await self.app.connector.execute_query_one_async(
            "SELECT count(*) AS left FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"
        )
        return int(row["left"])

    async def work(self) -> None:
        await self.app.open_async()
        await self.app.run_worker_async(
            concurrency=int(self.settings["concurrency"]), install_signal_handlers=False, listen_notify=True
        )


PEER = Procrastinate
