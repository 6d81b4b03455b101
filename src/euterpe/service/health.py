"""Health and metrics for roles without the API: three paths over the plainest HTTP there is.

One short request a connection, read with a limit and a deadline, answered and closed. Nothing here needs a framework,
and a worker's memory is better spent on jobs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec

from euterpe.model.errors import EuterpeError
from euterpe.model.urls.hosts import AllowedHosts

log: Final = logging.getLogger("euterpe.system")

REQUEST_LIMIT_BYTES: Final = 8_192
REQUEST_PATIENCE_S: Final = 5.0
CHECK_PATIENCE_S: Final = 2.0
CONNECTION_LIMIT: Final = 64
REASONS: Final = {
    200: "OK",
    404: "Not Found",
    405: "Method Not Allowed",
    421: "Misdirected Request",
    503: "Service Unavailable",
}

Check = Callable[[], Awaitable[object]]
Answer = tuple[int, str, bytes]


class Health:
    """`/healthz`, `/readyz` and `/metrics`. `draining` makes it not ready."""

    def __init__(
        self, render: Callable[[], tuple[str, bytes]], check: Check, draining: asyncio.Event, hosts: AllowedHosts
    ) -> None:
        self._render = render
        self._check = check
        self._draining = draining
        self._hosts = hosts
        self._open = 0

    @asynccontextmanager
    async def listening(self, host: str, port: int) -> AsyncIterator[int]:
        """Serve while this lasts; gives the port. Raises OSError when the address cannot be had."""
        server = await asyncio.start_server(self._serve, host, port, limit=REQUEST_LIMIT_BYTES)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()

    @asynccontextmanager
    async def listening_at(self, path: Path) -> AsyncIterator[None]:
        """The same on a socket of this machine, for the page that tells of several processes."""
        server = await asyncio.start_unix_server(self._serve, path, limit=REQUEST_LIMIT_BYTES)
        try:
            yield
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._open >= CONNECTION_LIMIT:
            writer.transport.abort()
            return
        self._open += 1
        try:
            async with asyncio.timeout(REQUEST_PATIENCE_S):
                head = await reader.readuntil(b"\r\n\r\n")
            status, media_type, body = await self._answer(head)
            method = head.split(b" ", 1)[0]
            writer.write(
                f"HTTP/1.1 {status} {REASONS[status]}\r\nContent-Type: {media_type}\r\n"
                f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
            )
            writer.write(b"" if method == b"HEAD" else body)
            async with asyncio.timeout(REQUEST_PATIENCE_S):
                await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
            return  # Whoever sent that gets no answer.
        finally:
            self._open -= 1
            writer.close()

    async def _answer(self, head: bytes) -> Answer:
        method, _, rest = head.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        hosts = [line.partition(b":")[2] for line in head.split(b"\r\n") if line[:5].lower() == b"host:"]
        if len(hosts) > 1 or not self._hosts.allow(hosts[0] if hosts else None):
            return 421, "text/plain", b"this server is not known by that name\n"
        if method not in (b"GET", b"HEAD"):
            return 405, "text/plain", b"only GET is here\n"
        match path:
            case b"/healthz":
                return 200, "application/json", b'{"status":"ok"}'
            case b"/readyz":
                return await self._readiness()
            case b"/metrics":
                media_type, body = self._render()
                return 200, media_type, body
        return 404, "text/plain", b"/healthz, /readyz and /metrics are here\n"

    async def _readiness(self) -> Answer:
        checks = {"store": await self._store_health(), "worker": "draining" if self._draining.is_set() else "ok"}
        failing = [name for name, outcome in checks.items() if outcome != "ok"]
        body = {"status": "unavailable" if failing else "ready", "checks": checks, "failing": failing}
        return 503 if failing else 200, "application/json", msgspec.json.encode(body)

    async def _store_health(self) -> str:
        try:
            async with asyncio.timeout(CHECK_PATIENCE_S):
                await self._check()
        except TimeoutError:
            return f"no answer in {CHECK_PATIENCE_S:g} s"
        except EuterpeError as error:
            log.warning("a readiness check failed", extra={"error_code": type(error).__name__})
            return type(error).__name__
        return "ok"
