"""One HTTP/1.1 connection to a server that may mean us harm: one exchange at a time, everything bounded.

Why not a ready-made client: seen with aiohttp 3.14, a server that goes on sending answers on an idle pooled
connection grows our memory by 50 MB/s and gets the next request answered by what it sent before. Here a byte
that nobody asked for ends the connection, and heads, informational answers and chunk framing share one small
budget.
"""

from __future__ import annotations

import asyncio
import select
from collections import deque
from dataclasses import dataclass
from typing import Final, cast

import httptools

from euterpe.egress.errors import EgressFailed, EgressFailure

_PAUSE_READING_ABOVE: Final = 256 * 1024
_RESUME_READING_BELOW: Final = 64 * 1024
_FREE_FRAMING_BYTES: Final = 64 * 1024
_FRAMING_PER_BODY_BYTE: Final = 8  # a chunk of one byte costs six more

_LOOKS_BEFORE_ASKING: Final = 4  # the loop reads in the second; with TLS there may be session tickets first

_SWITCHING_PROTOCOLS: Final = 101
_FIRST_FINAL_STATUS: Final = 200


@dataclass(frozen=True, slots=True)
class Head:
    """Status and headers of an answer. Names are in lower case; a repeated header is joined by commas."""

    status: int
    headers: dict[str, str]


class Connection(asyncio.Protocol):
    """A client connection. `ask`, then `read` until it gives nothing, then `finish`; `abort` at any time."""

    def __init__(self, host: str, max_head_bytes: int) -> None:
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._host = host
        self._max_head_bytes = max_head_bytes
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._asking = False
        self._begin()

    def _begin(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._head: Head | None = None
        self._fields: dict[str, str] = {}
        self._chunks: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._received_bytes = 0
        self._body_bytes = 0
        self._head_bytes = 0
        self._complete = False
        self._surplus = False
        self._keep_alive = False
        self._paused = False
        self._error: EgressFailed | None = None

    # What the owner of the connection does

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    async def ask(self, request: bytes) -> Head:
        """Send one whole request and wait for the head of its answer."""
        await self._read_unasked_bytes()
        transport = self._transport
        if self._asking or transport is None or transport.is_closing():
            raise EgressFailed(EgressFailure.DISCONNECTED, f"{self._host} closed the connection")
        self._begin()
        self._asking = True
        transport.write(request)
        while self._head is None:
            await self._progress()
        return self._head

    async def _read_unasked_bytes(self) -> None:
        """What has arrived and not been looked at was sent before we asked: it must not pass for the answer."""
        for _ in range(_LOOKS_BEFORE_ASKING):
            if self._asking or self._transport is None or not _has_something_to_read(self._transport):
                return
            await asyncio.sleep(0)

    async def read(self) -> bytes:
        """The next piece of the body as it came, or nothing at its end."""
        while not self._chunks:
            if self._complete:
                return b""
            await self._progress()
        chunk = self._chunks.popleft()
        self._waiting_bytes -= len(chunk)
        if self._paused and self._waiting_bytes < _RESUME_READING_BELOW and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        return chunk

    def finish(self) -> bool:
        """End the exchange and say whether the connection can serve another; if not, it is closed."""
        reusable = (
            self._complete
            and self._keep_alive
            and not self._surplus
            and not self._chunks
            and self._error is None
            and self._has_sent_everything()
        )
        self._asking = False
        if not reusable:
            self.abort()
        return reusable

    def _has_sent_everything(self) -> bool:
        # A server may answer before it has read all of a request, and may never read the rest.
        return (
            self._transport is not None
            and not self._transport.is_closing()
            and self._transport.get_write_buffer_size() == 0
        )

    def abort(self) -> None:
        """Close at once. Nothing is flushed: there is nobody here whom we owe a polite goodbye."""
        self._asking = False
        if self._transport is not None:
            self._transport.abort()

    async def _progress(self) -> None:
        if self._error is not None:
            raise self._error
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, reason: EgressFailure, why: str) -> None:
        if self._error is None and not self._complete:
            self._error = EgressFailed(reason, f"{self._host} {why}")
        self._surplus = True
        if self._transport is not None:
            self._transport.abort()

    # What the transport tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if not self._asking:
            self.abort()
            return
        self._received_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._fail(EgressFailure.PROTOCOL, "switched to another protocol")
        except httptools.HttpParserError as error:
            self._fail(EgressFailure.PROTOCOL, f"sent an answer that is not HTTP/1.1 ({type(error).__name__})")
        self._check_bounds()
        if self._waiting_bytes > _PAUSE_READING_ABOVE and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def _check_bounds(self) -> None:
        framing_bytes = self._received_bytes - self._body_bytes
        if self._head is None:
            if max(self._head_bytes, framing_bytes) > self._max_head_bytes:
                self._fail(EgressFailure.HEADERS_TOO_LARGE, f"sent more than {self._max_head_bytes} bytes of headers")
        elif framing_bytes > (self._max_head_bytes + _FREE_FRAMING_BYTES + _FRAMING_PER_BODY_BYTE * self._body_bytes):
            self._fail(EgressFailure.PROTOCOL, "sent far more framing than content")
        elif self._head_bytes > self._max_head_bytes:
            self._fail(EgressFailure.HEADERS_TOO_LARGE, f"sent more than {self._max_head_bytes} bytes of headers")

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._asking and not self._complete:
            ends_with_connection = self._head is not None and not (
                "content-length" in self._head.headers or "transfer-encoding" in self._head.headers
            )
            if exc is None and ends_with_connection and self._error is None:
                self._complete = True
            else:
                self._fail(EgressFailure.DISCONNECTED, "closed the connection before its answer was whole")
        if not self.closed.done():
            self.closed.set_result(None)
        self._wake()

    # What the parser tells

    def on_message_begin(self) -> None:
        if self._complete:
            self._surplus = True

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_bytes += len(name) + len(value) + 4
        if self._head is not None or self._head_bytes > self._max_head_bytes:
            return  # a trailer, or more than will be accepted
        key = name.decode("latin-1").lower()
        text = value.decode("latin-1")
        self._fields[key] = f"{self._fields[key]}, {text}" if key in self._fields else text

    def on_headers_complete(self) -> None:
        if self._head is not None:
            return
        status = self._parser.get_status_code()
        if status == _SWITCHING_PROTOCOLS:
            self._fail(EgressFailure.PROTOCOL, "switched to another protocol")
        if status >= _FIRST_FINAL_STATUS:
            self._keep_alive = self._parser.should_keep_alive()
            self._head = Head(status, self._fields)
        self._fields = {}

    def on_body(self, body: bytes) -> None:
        if self._complete or self._head is None:
            return
        self._body_bytes += len(body)
        self._waiting_bytes += len(body)
        self._chunks.append(body)

    def on_message_complete(self) -> None:
        if self._head is not None:
            self._complete = True


def _has_something_to_read(transport: asyncio.Transport) -> bool:
    sock = transport.get_extra_info("socket")
    if sock is None or sock.fileno() < 0:
        return False
    poll = select.poll()
    poll.register(sock.fileno(), select.POLLIN)
    return bool(poll.poll(0))
