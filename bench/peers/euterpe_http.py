"""Euterpe's worker over HTTP: it claims and settles in batches through one API process on Postgres.

Jobs are submitted, and what is left is counted, at the database: only the worker's side is measured.
"""

from __future__ import annotations

import asyncio

from bench.peers.control_plane import start_api, worker_key
from bench.peers.euterpe import Euterpe


class EuterpeHttp(Euterpe):
    async def work(self) -> None:
        self.token = await worker_key(self.url)
        port = await asyncio.to_thread(start_api, self.url)
        self.url = f"http://127.0.0.1:{port}"
        await super().work()


PEER = EuterpeHttp
