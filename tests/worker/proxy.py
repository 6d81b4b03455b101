"""A TCP proxy on loopback that can fall silent, refuse, and come back: the network between a worker and a database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit, urlunsplit


class Proxy:
    """Forwards to one server. `swallow` loses every byte both ways without a word; `refuse` resets all links, and
    every new one; `narrow` resets a link on which so many bytes are sent before the server answers: a slow network, on
    which no more arrives in the time that a statement has."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._links: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self._silent = False
        self._refusing = False
        self._narrow: int | None = None
        self.cut = 0
        """How many links were too narrow."""
        self._serving: set[asyncio.Task[None]] = set()

    async def start(self) -> int:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def swallow(self) -> None:
        self._silent = True

    def refuse(self) -> None:
        self._refusing = True
        for writer in self._links:
            writer.transport.abort()

    def narrow(self, bytes_at_once: int) -> None:
        self._narrow = bytes_at_once

    def restore(self) -> None:
        """New links work again. What was swallowed stays lost, as after a router forgot its connections."""
        self._silent = self._refusing = False
        self._narrow = None

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self.refuse()
        if self._serving:
            await asyncio.wait(self._serving)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refusing:
            writer.transport.abort()
            return
        self._links.add(writer)
        try:
            there_reader, there_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        self._links.add(there_writer)
        link = Link()
        ends = ((reader, there_writer, True), (there_reader, writer, False))
        await asyncio.wait([asyncio.create_task(self._pump(*pair, link)) for pair in ends])
        self._links -= {writer, there_writer}

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_client: bool, link: Link
    ) -> None:
        try:
            while data := await reader.read(65536):
                link.unanswered = link.unanswered + len(data) if is_client else 0
                if self._narrow is not None and link.unanswered > self._narrow:
                    self.cut += 1
                    writer.transport.abort()
                    return
                if self._silent:
                    link.lost = True
                if not link.lost:
                    writer.write(data)
        except (ConnectionError, OSError):
            pass
        finally:
            if not link.lost:
                writer.close()


class Link:
    """One connection through the proxy. Once bytes were lost on it, it is of no use for ever."""

    lost = False
    unanswered = 0
    """Bytes of the client since the server last said anything."""


@asynccontextmanager
async def proxied(url: str) -> AsyncIterator[tuple[Proxy, str]]:
    """A proxy in front of the database that the URL names, and the URL that leads through it."""
    parts = urlsplit(url)
    proxy = Proxy(parts.hostname or "127.0.0.1", parts.port or 5432)
    port = await proxy.start()
    netloc = f"{parts.netloc.rpartition('@')[0]}@127.0.0.1:{port}"
    try:
        yield proxy, urlunsplit(parts._replace(netloc=netloc))
    finally:
        await proxy.close()
