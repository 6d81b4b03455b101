"""A webhook receiver on loopback that remembers what it got and answers as the test tells it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tests.patience import PATIENCE_S

NO_CONTENT = b"HTTP/1.1 204 No Content\r\n\r\n"


def answer(status: int, headers: str = "", body: bytes = b"") -> bytes:
    return f"HTTP/1.1 {status} X\r\n{headers}content-length: {len(body)}\r\n\r\n".encode() + body


@dataclass
class Got:
    headers: dict[str, str]
    body: bytes

    @property
    def event_id(self) -> str:
        return self.headers["x-euterpe-event-id"]

    @property
    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = msgspec.json.decode(self.body)
        return document


@dataclass
class Receiver:
    """`reply` decides the answer; None means that the receiver hangs."""

    port: int = 0
    got: list[Got] = field(default_factory=list)
    reply: Callable[[Got], bytes | None] = lambda _got: NO_CONTENT
    gate: asyncio.Semaphore | None = None
    """Where there is one, each answer takes a permit and waits for it."""
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    async def wait_for(self, count: int, timeout_s: float = PATIENCE_S) -> None:
        async with asyncio.timeout(timeout_s), self._changed:
            await self._changed.wait_for(lambda: len(self.got) >= count)

    async def take(self, got: Got) -> bytes | None:
        async with self._changed:
            self.got.append(got)
            self._changed.notify_all()
        if self.gate is not None:
            await self.gate.acquire()
        return self.reply(got)


@asynccontextmanager
async def receiving(reply: Callable[[Got], bytes | None] | None = None) -> AsyncIterator[Receiver]:
    receiver = Receiver()
    if reply is not None:
        receiver.reply = reply
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                pairs = (line.split(":", 1) for line in head.split("\r\n")[1:] if ":" in line)
                headers = {name.strip().lower(): value.strip() for name, value in pairs}
                said = await receiver.take(Got(headers, await reader.readexactly(int(headers["content-length"]))))
                if said is None:
                    await asyncio.Event().wait()
                else:
                    writer.write(said)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
        for task in tasks:
            task.cancel()
