"""uvicorn inside a loop that is already there: our signals stay ours, and stopping waits for what is under way."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator
from typing import Final

import uvicorn

from euterpe.api.app import ControlPlane

GRACE_S: Final = 10
KEEP_ALIVE_S: Final = 75
BACKLOG: Final = 2048


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
    started: Callable[[int], object] = lambda _: None,
    grace_s: float = GRACE_S,
) -> None:
    """Serve until `stop` is set (or the task is cancelled), then drain. `started` is told the port, for port 0.

    Raises OSError when the address cannot be bound."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    # Connections inherit it. asyncio's own loop leaves it off for a socket made like this one, and then an answer's
    # body waits 40 ms for the client to acknowledge its head.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    config = uvicorn.Config(
        app,
        http="httptools",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=max(1, round(grace_s)),
    )
    server = _Server(config)
    stop = stop or asyncio.Event()
    stopping = asyncio.get_running_loop().create_task(_stop_when_told(stop, app, server))
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


async def _stop_when_told(stop: asyncio.Event, app: ControlPlane, server: uvicorn.Server) -> None:
    await stop.wait()
    app.drain()
    server.should_exit = True
