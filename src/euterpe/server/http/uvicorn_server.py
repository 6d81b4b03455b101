"""uvicorn inside a loop that is already there: our signals stay ours, and stopping waits for what is under way."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Iterator
from typing import Final

import uvicorn

from euterpe.model.urls.hosts import AllowedHosts
from euterpe.server.app import ControlPlane
from euterpe.server.http.asgi import AsgiScope, Receive, Send
from euterpe.server.http.connections import ConnectionLimits, OpenConnections, ServerConfig
from euterpe.server.http.problems import Refusal
from euterpe.server.http.router import problem_answer

GRACE_S: Final = 10
BACKLOG: Final = 2048
OPEN_FILES_WANTED: Final = 65_536
OPEN_FILES_KEPT: Final = 256
"""Of the open files that the process may have, for everything but clients: the database, webhooks, files."""

log: Final = logging.getLogger("euterpe.api")


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Whoever runs the loop decides what a signal means."""
        yield


async def serve(
    app: ControlPlane,
    host: str = "127.0.0.1",
    port: int = 8080,
    *,
    stop: asyncio.Event | None = None,
    at_once: asyncio.Event | None = None,
    started: Callable[[int], object] = lambda _: None,
    grace_s: float = GRACE_S,
    connections: OpenConnections | None = None,
    allowed_hosts: tuple[str, ...] = (),
) -> None:
    """Serve until `stop` is set (or the task is cancelled), then drain, until `at_once` is set. `started` is told the
    port, for port 0.

    `allowed_hosts`: names besides loopback's that a client may call this server by; without any, a server on loopback
    answers to loopback's names and every other server to all. Raises OSError when the address cannot be bound."""
    connections = OpenConnections(ConnectionLimits()) if connections is None else connections
    connections.fit(connections_that_fit(raise_open_files()))
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    # Connections inherit it. asyncio's own loop leaves it off for a socket made like this one, and then an answer's
    # body waits 40 ms for the client to acknowledge its head.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    config = ServerConfig(
        HostCheck(app, AllowedHosts(host, allowed_hosts)),
        connections,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=connections.limits.keep_alive_s,
        timeout_graceful_shutdown=max(1, round(grace_s)),
    )
    server = _Server(config)
    stop = stop or asyncio.Event()
    stopping = asyncio.get_running_loop().create_task(_stop_when_asked(stop, at_once, app, server))
    started(listener.getsockname()[1])
    serving = asyncio.get_running_loop().create_task(server.serve(sockets=[listener]))
    try:
        await asyncio.shield(serving)
    except asyncio.CancelledError:
        stop.set()
        await serving
        raise
    finally:
        stopping.cancel()
        listener.close()


async def _stop_when_asked(
    stop: asyncio.Event, at_once: asyncio.Event | None, app: ControlPlane, server: uvicorn.Server
) -> None:
    await stop.wait()
    app.drain()
    server.should_exit = True
    if at_once is not None:
        await at_once.wait()
        server.force_exit = True


class HostCheck:
    """Lets through what is meant for this server by name, and answers 421 to the rest."""

    def __init__(self, app: ControlPlane, allowed: AllowedHosts) -> None:
        self._app = app
        self._allowed = allowed
        self._last: bytes | None = None
        """The name that was let through last: most clients of a server call it by the same one."""

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self._is_meant(scope):
            detail = "this server is not known by that name; `api.allowed_hosts` adds names"
            await problem_answer(Refusal(421, "wrong_host", detail, closes=True)).send(send)
            return
        await self._app(scope, receive, send)

    def _is_meant(self, scope: AsgiScope) -> bool:
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        if len(hosts) != 1:
            return not hosts and self._allowed.allow(None)
        if hosts[0] != self._last:
            if not self._allowed.allow(hosts[0]):
                return False
            self._last = hosts[0]
        return True


def raise_open_files() -> int:
    """Take as many open files as the system lets a process have, within reason; returns how many that are."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return OPEN_FILES_WANTED
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        hard = OPEN_FILES_WANTED
    wanted = min(hard, OPEN_FILES_WANTED)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted if soft == resource.RLIM_INFINITY else soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    except (ValueError, OSError):  # macOS promises more than it gives
        log.warning("the limit of open files stays at %d", soft)
        return soft
    return wanted


def connections_that_fit(open_files: int) -> int:
    return max(open_files - OPEN_FILES_KEPT, open_files // 2)
