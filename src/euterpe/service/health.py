"""Health and metrics for roles without the API: three paths over the plainest HTTP there is.

One short request a connection, read with a limit and a deadline, answered and closed. Nothing here needs a framework,
and a worker's memory is better spent on jobs.

It is served by a thread with an event loop of its own: a handler that blocks the loop of the process must not get the
process killed. A handler that holds the interpreter lock stops this thread, too.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from euterpe.model.errors import DatabaseLocked, EuterpeError
from euterpe.model.urls.hosts import AllowedHosts
from euterpe.worker.heartbeat.loop_watch import Block, LoopWatch

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
        self,
        render: Callable[[], tuple[str, bytes]],
        check: Check,
        draining: asyncio.Event,
        hosts: AllowedHosts,
        watch: LoopWatch | None = None,
    ) -> None:
        """Made on the loop on which `check` runs."""
        self._render = render
        self._check = check
        self._draining = draining
        self._hosts = hosts
        self._watch = watch
        self._loop = asyncio.get_running_loop()
        self._open = 0

    @asynccontextmanager
    async def listening(self, host: str, port: int) -> AsyncIterator[int]:
        """Serve while this lasts; gives the port. Raises OSError when the address cannot be had."""
        start = partial(asyncio.start_server, self._serve, host, port, limit=REQUEST_LIMIT_BYTES)
        async with _served_in_a_thread(start) as address:
            yield address[1]

    @asynccontextmanager
    async def listening_at(self, path: Path) -> AsyncIterator[None]:
        """The same on a socket of this machine, for the page that tells of several processes."""
        async with _served_in_a_thread(
            partial(asyncio.start_unix_server, self._serve, path, limit=REQUEST_LIMIT_BYTES)
        ):
            yield

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
                block = self._block()
                alive = {"status": "ok"} if block is None else {"status": "ok", "blocked": str(block)}
                return 200, "application/json", msgspec.json.encode(alive)
            case b"/readyz":
                return await self._readiness()
            case b"/metrics":
                media_type, body = self._render()
                return 200, media_type, body
        return 404, "text/plain", b"/healthz, /readyz and /metrics are here\n"

    async def _readiness(self) -> Answer:
        if (block := self._block()) is not None:
            checks = {"store": "not asked", "worker": str(block)}
        else:
            checks = {"store": await self._store_health(), "worker": "draining" if self._draining.is_set() else "ok"}
        failing = [name for name, outcome in checks.items() if outcome != "ok"]
        body = {"status": "unavailable" if failing else "ready", "checks": checks, "failing": failing}
        return 503 if failing else 200, "application/json", msgspec.json.encode(body)

    def _block(self) -> Block | None:
        return None if self._watch is None else self._watch.blocked()

    async def _store_health(self) -> str:
        async def check() -> None:
            await self._check()

        asked = asyncio.run_coroutine_threadsafe(check(), self._loop)
        try:
            async with asyncio.timeout(CHECK_PATIENCE_S):
                await asyncio.wrap_future(asked)
        except TimeoutError:
            return f"no answer in {CHECK_PATIENCE_S:g} s"
        except DatabaseLocked as error:
            log.warning("the database is locked", extra={"error_code": error.code, "blocked_by": error.holder})
            return error.holder
        except EuterpeError as error:
            log.warning("a readiness check failed", extra={"error_code": type(error).__name__})
            return type(error).__name__
        return "ok"


@asynccontextmanager
async def _served_in_a_thread(start: Callable[[], Awaitable[asyncio.Server]]) -> AsyncIterator[Any]:
    """Serve on a loop of a thread while this lasts; gives the address. Raises what `start` raises."""
    bound: concurrent.futures.Future[tuple[Any, asyncio.AbstractEventLoop, asyncio.Event]] = concurrent.futures.Future()
    ended: concurrent.futures.Future[None] = concurrent.futures.Future()

    async def serve() -> None:
        stop = asyncio.Event()
        server = await start()
        bound.set_result((server.sockets[0].getsockname(), asyncio.get_running_loop(), stop))
        await stop.wait()
        server.close()

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:  # noqa: BLE001  # whoever waits for the address is told
            if not bound.done():
                bound.set_exception(error)
        finally:
            ended.set_result(None)

    threading.Thread(target=run, name="euterpe-health", daemon=True).start()
    address, loop, stop = await asyncio.wrap_future(bound)
    try:
        yield address
    finally:
        with suppress(RuntimeError):  # It has ended by itself.
            loop.call_soon_threadsafe(stop.set)
        await asyncio.wrap_future(ended)
