"""Euterpe over HTTP as a worker in any language may use it: many connections, one claim and one completion a request.

The client is a bare HTTP/1.1 one over asyncio streams, so that it is the control plane that is measured.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from bench.peers.adapter import seen
from bench.peers.control_plane import start_api, worker_key
from bench.peers.euterpe import Euterpe

CLAIM = "/internal/worker/claim"
COMPLETE = "/internal/worker/complete"


class Connection:
    """One keep-alive connection that sends a JSON POST and reads its answer."""

    def __init__(self, port: int, key: str) -> None:
        self._port = port
        self._head = f"Host: 127.0.0.1\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n".encode()

    async def open(self) -> None:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)

    async def post(self, path: str, document: dict[str, Any]) -> dict[str, Any]:
        body = json.dumps(document).encode()
        self._writer.write(
            b"POST %s HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n%s" % (path.encode(), self._head, len(body), body)
        )
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ", 1)[1].split(b"\r\n", 1)[0])
        answer: dict[str, Any] = json.loads(await self._reader.readexactly(length))
        if not head.startswith(b"HTTP/1.1 200 "):
            raise RuntimeError(f"{path} was answered {head[9:12].decode()}: {answer}")
        return answer


async def work_on(connection: Connection, name: str) -> None:
    """Claim one, complete one, for ever."""
    await connection.open()
    ask = {"worker_id": name, "streams": ["default"], "max_wait_ms": 2000}
    while True:
        job = await connection.post(CLAIM, ask)
        if not job["claimed"]:
            continue
        seen(job["payload"])
        lease = {key: job[key] for key in ("job_id", "attempt_id", "lease_token", "stream")}
        await connection.post(COMPLETE, lease | {"worker_id": name, "result": {"ok": True}})


class EuterpeHttpSingle(Euterpe):
    async def work(self) -> None:
        key = await worker_key(self.url)
        port = await asyncio.to_thread(start_api, self.url)
        connections = int(self.settings["connections"])
        await asyncio.gather(*(work_on(Connection(port, key), f"bench-{i}") for i in range(connections)))


PEER = EuterpeHttpSingle
