"""Client connections that cannot cost more than they should: in bytes before the first header is understood, in time
from the first moment, and in number.

uvicorn's protocol trusts its clients with all three: a head may be endless and is kept ten times over, a connection
that sends nothing stays, and at the process's limit of open files nobody is answered any more.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any, Final

import httptools
import msgspec
import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from euterpe.server.http.asgi import CLIENT, WHOLE_BODY, ClientPresence
from euterpe.server.http.problems import PROBLEM_JSON, Refusal

PIPELINE_LIMIT: Final = 32
"""Requests that a client may send ahead of their answers."""
FRAMING_PER_BODY_BYTE: Final = 8
"""A chunk of one byte costs six more; trailers and extensions of chunks are paid from the same budget."""
LINGER_S: Final = 1.0
"""How long a refused client is still listened to: closing at once would take the answer from one that is sending."""
COMPLAINT_EVERY_S: Final = 10.0

log: Final = logging.getLogger("euterpe.api")


class ConnectionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What one connection may cost, and how many there may be."""

    max_connections: int = 4_000
    max_head_bytes: int = 65_536
    """Request line and headers; more gets 431."""
    head_timeout_s: float = 10.0
    """From the connection, or from a further request's first byte, to the end of its head."""
    body_timeout_s: float = 35.0
    """From the end of the head to the end of the body. The application answers a slow body before that."""
    write_timeout_s: float = 60.0
    """How long a client may leave an answer unread."""
    keep_alive_s: float = 75.0
    """Between two requests."""


class OpenConnections:
    """All connections of one server. At the limit the oldest that asks for nothing makes room for the next one."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._open: set[ClientConnection] = set()
        self._silent: dict[ClientConnection, None] = {}
        """Never sent a whole request; they go first."""
        self._idle: dict[ClientConnection, None] = {}
        """Between two requests."""
        self._dropped = 0
        self._complained_at = -COMPLAINT_EVERY_S

    def fit(self, most: int) -> None:
        """The process cannot have more than this."""
        allowed = min(self.limits.max_connections, most)
        self.limits = msgspec.structs.replace(self.limits, max_connections=allowed)

    def __len__(self) -> int:
        return len(self._open)

    def enter(self, connection: ClientConnection) -> bool:
        """Whether there is room for it."""
        if len(self._open) >= self.limits.max_connections:
            self._complain()
            waiting = self._silent or self._idle
            if not waiting:
                return False
            oldest = next(iter(waiting))
            self.leave(oldest)
            oldest.transport.abort()
        self._open.add(connection)
        self._silent[connection] = None
        return True

    def works(self, connection: ClientConnection) -> None:
        self._silent.pop(connection, None)
        self._idle.pop(connection, None)

    def mark_idle(self, connection: ClientConnection) -> None:
        if connection in self._open:
            self._idle[connection] = None

    def leave(self, connection: ClientConnection) -> None:
        self._open.discard(connection)
        self.works(connection)

    def _complain(self) -> None:
        self._dropped += 1
        now = time.monotonic()
        if now - self._complained_at >= COMPLAINT_EVERY_S:
            log.warning(
                "all %d connections are taken: idle ones are closed for new ones",
                self.limits.max_connections,
                extra={"count": self._dropped},
            )
            self._complained_at, self._dropped = now, 0


class ServerConfig(uvicorn.Config):
    """uvicorn's configuration, which also carries what its connections share."""

    def __init__(self, app: Any, connections: OpenConnections, **settings: Any) -> None:
        super().__init__(app, http=ClientConnection, **settings)
        self.open_connections = connections


class ClientConnection(HttpToolsProtocol):
    """One client. Heads are counted before the parser sees them, and every wait for the client has an end."""

    config: ServerConfig

    def __init__(self, config: ServerConfig, **more: Any) -> None:
        super().__init__(config=config, **more)
        self._all = config.open_connections
        self._limits = self._all.limits
        self._in_head = True
        self._head_bytes = 0
        self._framing_bytes = 0
        self._refused = False
        self._waits_for = ""
        self._deadline: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self._presence = ClientPresence()

    # What the transport tells

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        super().connection_made(transport)
        if not self._all.enter(self):
            self._refused = True
            transport.abort()
            return
        self._wait_for("head", self._limits.head_timeout_s)

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.leave(self)
        for timer in (self._deadline, self._stalled):
            if timer is not None:
                timer.cancel()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)
        self._presence.ends()

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        limit = self._limits.max_head_bytes
        while data and not self._refused:
            size = min(len(data), limit - self._head_bytes if self._in_head else limit)
            piece, data = data[:size], data[size:]
            if self._in_head:
                self._head_bytes += size
            else:
                self._framing_bytes += size
            self._feed(piece)
            self._check_bounds()
        self._watch_the_clock()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._stalled is None:
            self._stalled = self.loop.call_later(self._limits.write_timeout_s, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    # What the parser tells

    def on_headers_complete(self) -> None:
        self._in_head, self._framing_bytes = False, 0
        if len(self.pipeline) >= PIPELINE_LIMIT:
            self._refused = True
            self.transport.abort()
            return
        self._all.works(self)
        self.scope[CLIENT] = self._presence  # type: ignore[typeddict-unknown-key]  # for our own application
        super().on_headers_complete()
        self.headers = []  # A trailer is no header: it comes after those who check headers have looked.

    def on_body(self, body: bytes) -> None:
        self._framing_bytes -= (1 + FRAMING_PER_BODY_BYTE) * len(body)
        if self.cycle is not None:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_head, self._head_bytes = True, 0
        self.scope[WHOLE_BODY] = True  # type: ignore[typeddict-unknown-key]  # for our own application
        if self.cycle is not None:
            super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.pipeline:
            self._all.mark_idle(self)

    # What follows from it

    def _feed(self, piece: bytes) -> None:
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserUpgrade:
            # Nothing here can be upgraded to: the request is answered as plain HTTP, and nothing after it is read.
            self._refused = True
            if self.cycle is not None:
                self.cycle.keep_alive = False
            self._wait_for("", 0)
        except httptools.HttpParserError:
            self._refuse(Refusal(400, "malformed_request", "this is not HTTP/1.1"))

    def _check_bounds(self) -> None:
        limit = self._limits.max_head_bytes
        if self._in_head and self._head_bytes >= limit:
            self._refuse(Refusal(431, "head_too_large", f"request line and headers are over {limit} bytes"))
        elif not self._in_head and self._framing_bytes > limit:
            self._refuse(Refusal(400, "malformed_request", "the body has far more framing than content"))

    def _watch_the_clock(self) -> None:
        if self._refused:
            return
        if not self._in_head:
            self._wait_for("body", self._limits.body_timeout_s)
        elif self._head_bytes:
            self._wait_for("head", self._limits.head_timeout_s)
        else:
            self._wait_for("", 0)
            if not self._answers_something():  # the rest of a body whose request was answered long ago
                self.timeout_keep_alive_task = self.loop.call_later(
                    self.timeout_keep_alive, self.timeout_keep_alive_handler
                )

    def _wait_for(self, what: str, timeout_s: float) -> None:
        """The clock goes on while the same thing is waited for: a byte now and then buys no time."""
        if what == self._waits_for:
            return
        if self._deadline is not None:
            self._deadline.cancel()
        self._waits_for = what
        self._deadline = self.loop.call_later(timeout_s, self._too_slow) if what else None

    def _too_slow(self) -> None:
        if self._waits_for == "head" and self._head_bytes and not self._answers_something():
            limit_s = self._limits.head_timeout_s
            self._refuse(Refusal(408, "slow_head", f"the head of the request did not arrive in {limit_s:g} s"))
        else:
            self.transport.abort()

    def _answers_something(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _refuse(self, refusal: Refusal) -> None:
        """Answer without the application, and hear no more. An answer that is under way is not talked into."""
        self._refused = True
        self._wait_for("", 0)
        if self._answers_something() or self.transport.is_closing():
            self.transport.abort()
            return
        head = b"content-type: %s\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
        body = refusal.body
        self.transport.write(STATUS_LINE[refusal.status] + head % (PROBLEM_JSON, len(body)) + body)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._deadline = self.loop.call_later(LINGER_S, self.transport.abort)
