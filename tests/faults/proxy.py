"""A TCP proxy in front of Postgres that understands enough of the protocol to cut a connection at a chosen point.

`cut(text, ...)` waits for the statement whose SQL contains `text`. Cutting BEFORE, the server never sees it. Cutting
AFTER, the server has run it and answered, and the answer is thrown away: the client cannot know. Cutting AT_ONCE
passes it on and hangs up without waiting, so that the server runs it while the client already asks what became of it.
`freeze()` passes nothing on any more and closes nothing: a network that swallows packets.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import Enum
from urllib.parse import urlsplit, urlunsplit

STARTUP_VERSION = 196608


class Cut(Enum):
    BEFORE = "before"
    AFTER = "after"
    AT_ONCE = "at_once"


class Trap:
    """Springs once, at the first statement whose SQL contains the text, or at a later one."""

    def __init__(self, text: str, when: Cut, at: int) -> None:
        self.text = text
        self.when = when
        self.sprung = asyncio.Event()
        self._left = at

    def meets(self, sql: str) -> bool:
        if self.text in sql:
            self._left -= 1
        return not self._left


class Proxy:
    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._server: asyncio.Server | None = None
        self._trap: Trap | None = None
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._links: set[Link] = set()

    @property
    def port(self) -> int:
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def cut(self, text: str, when: Cut, at: int = 1) -> Trap:
        """`at`: which of the statements with this text, counted from now on."""
        self._trap = Trap(text, when, at)
        return self._trap

    def freeze(self) -> None:
        self._flowing.clear()

    def thaw(self) -> None:
        self._flowing.set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        self.thaw()
        for link in tuple(self._links):
            link.hang_up()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = Link(self, reader, writer)
        self._links.add(link)
        try:
            await link.run(self._target)
        except (OSError, asyncio.IncompleteReadError):
            pass  # One side went away: so does the other.
        finally:
            link.hang_up()
            self._links.discard(link)

    async def flowing(self) -> None:
        await self._flowing.wait()

    def spring(self, sql: str) -> Trap | None:
        trap = self._trap
        if trap is None or not trap.meets(sql):
            return None
        self._trap = None
        return trap


class Link:
    """One client's connection and ours to the server behind it."""

    def __init__(self, proxy: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._client = (reader, writer)
        self._server: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._statements: dict[bytes, str] = {}
        self._trap: Trap | None = None

    async def run(self, target: tuple[str, int]) -> None:
        self._server = await asyncio.open_connection(*target)
        answers = asyncio.create_task(self._answers())
        try:
            await self._greet()
            await self._questions()
        finally:
            answers.cancel()

    def hang_up(self) -> None:
        for side in (self._client, self._server):
            if side is not None:
                side[1].transport.abort()

    async def _greet(self) -> None:
        """The first messages have no type byte: perhaps a question for TLS, then the startup."""
        reader, _ = self._client
        while True:
            head = await reader.readexactly(8)
            length, code = struct.unpack("!II", head)
            await self._pass_on(head + await reader.readexactly(length - 8))
            if code == STARTUP_VERSION:
                return

    async def _questions(self) -> None:
        reader, _ = self._client
        while True:
            head = await reader.readexactly(5)
            body = await reader.readexactly(struct.unpack("!I", head[1:])[0] - 4)
            sql = self._sql_of(head[:1], body)
            if sql is not None and self._trap is None:
                self._trap = self._proxy.spring(sql)
                if self._trap is not None and self._trap.when is Cut.BEFORE:
                    self._trap.sprung.set()
                    return
            await self._pass_on(head + body)
            # A simple query, or the Sync that ends an extended one: now the server has all of it.
            if self._trap is not None and self._trap.when is Cut.AT_ONCE and head[:1] in b"QS":
                self._trap.sprung.set()
                return

    def _sql_of(self, kind: bytes, body: bytes) -> str | None:
        """The SQL that this message makes the server run, if any."""
        if kind == b"Q":
            return body[:-1].decode()
        if kind == b"P":
            name, _, rest = body.partition(b"\x00")
            self._statements[name] = rest.partition(b"\x00")[0].decode()
        if kind == b"B":
            _portal, _, rest = body.partition(b"\x00")
            return self._statements.get(rest.partition(b"\x00")[0])
        return None

    async def _pass_on(self, data: bytes) -> None:
        await self._proxy.flowing()
        assert self._server is not None
        self._server[1].write(data)
        await self._server[1].drain()

    async def _answers(self) -> None:
        assert self._server is not None
        reader, _ = self._server
        while data := await reader.read(65536):
            await self._proxy.flowing()
            if self._trap is not None:
                if self._trap.when is Cut.AFTER and _is_done(data):
                    self._trap.sprung.set()
                    break
                continue
            self._client[1].write(data)
            await self._client[1].drain()
        self.hang_up()


def _is_done(data: bytes) -> bool:
    """Ends with ReadyForQuery: whatever was asked is done."""
    return data[-6:-1] == b"Z\x00\x00\x00\x05"


@asynccontextmanager
async def proxied(url: str) -> AsyncIterator[tuple[Proxy, str]]:
    """A proxy in front of this URL's server, and the URL that leads through it."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    proxy = Proxy(parts.hostname, parts.port or 5432)
    await proxy.start()
    account = parts.netloc.rpartition("@")[0]
    try:
        yield proxy, urlunsplit(parts._replace(netloc=f"{account}@127.0.0.1:{proxy.port}"))
    finally:
        await proxy.close()
