"""Servers on loopback that the egress tests watch: what arrived, on how many connections, and how they
misbehave.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

OK = b"HTTP/1.1 204 No Content\r\n\r\n"
PATIENCE_S = 20.0


@dataclass
class Canary:
    """A server that remembers. `requests` holds the raw head of each request, `connections` counts them."""

    port: int = 0
    connections: int = 0
    requests: list[bytes] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    def url(self, path: str = "/hook", host: str = "127.0.0.1", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{path}"


async def read_request(canary: Canary, reader: asyncio.StreamReader) -> bool:
    """Read one whole request; False when the client has left instead."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return False
    length = 0
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    canary.requests.append(head)
    canary.bodies.append(await reader.readexactly(length))
    canary.asked.set()
    return True


@asynccontextmanager
async def serving(
    script: Callable[[Canary, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]] | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    ssl_context: ssl.SSLContext | None = None,
) -> AsyncIterator[Canary]:
    """Run a server; without a script it answers 204 to each request of a connection."""
    canary = Canary()
    tasks: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        canary.connections += 1
        try:
            await (script or answer_ok)(canary, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass
        finally:
            canary.gone.set()
            writer.transport.abort()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(handle(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(accept, host, port, ssl=ssl_context)
    canary.port = server.sockets[0].getsockname()[1]
    try:
        yield canary
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def answer_ok(canary: Canary, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while await read_request(canary, reader):
        writer.write(OK)
        await writer.drain()


def answering(
    answer: bytes,
) -> Callable[[Canary, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    """A script that gives the same bytes to each request."""

    async def script(canary: Canary, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await read_request(canary, reader):
            writer.write(answer)
            await writer.drain()

    return script


def flooding(
    start: bytes, then: bytes, pause_s: float = 0.0
) -> Callable[[Canary, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    """A script that begins an answer and then repeats itself until the client hangs up."""

    async def script(canary: Canary, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(canary, reader)
        writer.write(start)
        if not then:
            await reader.read()
            return
        while not writer.is_closing():
            writer.write(then)
            await writer.drain()
            await asyncio.sleep(pause_s)

    return script


class Names:
    """A resolver from a table: each name gives its answers one after another, the last one for ever."""

    def __init__(self, default: tuple[str, ...] = (), **answers: list[tuple[str, ...]]) -> None:
        self._default = default
        self._answers = {name.replace("_", "."): list(given) for name, given in answers.items()}
        self.asked: list[str] = []

    async def resolve(self, host: str, port: int) -> tuple[str, ...]:
        self.asked.append(host)
        given = self._answers.get(host)
        if given is None:
            return self._default
        return given.pop(0) if len(given) > 1 else given[0]

    async def close(self) -> None:
        return None
