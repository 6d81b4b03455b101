"""The little of ASGI that we need: a request read within limits, an answer, and a stream that ends with its client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from euterpe.model.accounts import Scope
from euterpe.server.http.problems import Refusal

AsgiScope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Header = tuple[bytes, bytes]

JSON: Final = b"application/json"
PIECE: Final = 128 * 1024
"""A large answer is sent in pieces of this size."""
WHOLE_BODY: Final = "euterpe.whole_body"
"""In a scope: the body had arrived before the application was called, so that nobody need look at the clock."""
CLIENT: Final = "euterpe.client"
"""In a scope: the ClientPresence of whoever asks, where the server knows it: no task has to wait for the client to
leave."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who asks: the requester a key speaks for, and what the key may do."""

    requester_id: str
    scopes: frozenset[Scope]
    prefix: str

    def may(self, scope: Scope) -> bool:
        """Admin includes submit and read. It does not include worker, which runs everybody's jobs."""
        return scope in self.scopes or (scope is not Scope.WORKER and Scope.ADMIN in self.scopes)


NOBODY: Final = Identity("", frozenset(), "")


class Request:
    """One request. `identity` is NOBODY on the few open routes."""

    __slots__ = ("_receive", "_scope", "identity", "parameters")

    def __init__(self, scope: AsgiScope, receive: Receive, parameters: dict[str, str]) -> None:
        self._scope = scope
        self._receive = receive
        self.parameters = parameters
        self.identity = NOBODY

    @property
    def query_string(self) -> bytes:
        query: bytes = self._scope["query_string"]
        return query

    @property
    def is_head(self) -> bool:
        """Whether only the head of the answer is wanted: then nothing may come of it."""
        return bool(self._scope["method"] == "HEAD")

    @property
    def path(self) -> str:
        path: str = self._scope["path"]
        return path

    @property
    def came_by_tls(self) -> bool:
        """Here, or at a proxy that says so. Whoever lies about it only harms itself."""
        return self._scope.get("scheme") == "https" or self.header(b"x-forwarded-proto") == b"https"

    def header(self, name: bytes) -> bytes | None:
        """The value of a header, whose name is given in lower case."""
        for key, value in self._scope["headers"]:
            if key == name:
                found: bytes = value
                return found
        return None

    async def body(self, limit: int, timeout_s: float) -> bytes:
        """The whole body. One that is too long is refused before it is read, or as soon as that shows."""
        length = self.header(b"content-length")
        if length is not None and (not length.isdigit() or int(length) > limit):
            raise body_too_large(limit)
        if self.header(b"content-encoding") not in (None, b"identity"):
            raise Refusal(415, "unsupported_encoding", "send the body without a Content-Encoding", closes=True)
        if WHOLE_BODY in self._scope:
            return await self._chunks(limit)
        try:
            async with asyncio.timeout(timeout_s):
                return await self._chunks(limit)
        except TimeoutError:
            raise Refusal(408, "slow_body", f"the body did not arrive in {timeout_s:g} s", closes=True) from None

    async def _chunks(self, limit: int) -> bytes:
        chunks: list[bytes] = []
        size, more = 0, True
        while more:
            message = await self._receive()
            more = message.get("more_body", False)
            chunks.append(self._chunk(message, limit - size))
            size += len(chunks[-1])
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def _chunk(self, message: Message, left: int) -> bytes:
        if message["type"] == "http.disconnect":
            raise ClientGone
        chunk: bytes = message.get("body", b"")
        if len(chunk) > left:
            raise body_too_large(left)
        return chunk

    def watch(self, gone: Callable[[], object]) -> ClientWatch:
        """Calls `gone` if the client leaves before this is cancelled, or has left. Only once the body has been read."""
        client: ClientPresence | None = self._scope.get(CLIENT)
        if client is None:
            return asyncio.get_running_loop().create_task(_watch(self._receive, gone))
        return client.watch(gone)


class ClientWatch(Protocol):
    """Over when it is cancelled."""

    def cancel(self) -> object: ...


class ClientPresence:
    """Whether the client of a connection is still there, and whom to tell when it is not."""

    __slots__ = ("_is_gone", "_watches")

    def __init__(self) -> None:
        self._is_gone = False
        self._watches: dict[_PresenceWatch, Callable[[], object]] = {}

    def watch(self, gone: Callable[[], object]) -> ClientWatch:
        watch = _PresenceWatch(self._watches)
        if self._is_gone:
            gone()
        else:
            self._watches[watch] = gone
        return watch

    def ends(self) -> None:
        self._is_gone = True
        for gone in tuple(self._watches.values()):
            gone()


class _PresenceWatch:
    __slots__ = ("_watches",)

    def __init__(self, watches: dict[_PresenceWatch, Callable[[], object]]) -> None:
        self._watches = watches

    def cancel(self) -> None:
        self._watches.pop(self, None)


async def _watch(receive: Receive, gone: Callable[[], object]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    gone()


class ClientGone(Exception):
    """The client went away; nobody is left to answer."""


def body_too_large(limit: int) -> Refusal:
    return Refusal(413, "body_too_large", f"the body is over the limit of {limit} bytes", closes=True)


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer."""

    status: int
    body: bytes
    media_type: bytes = JSON
    headers: tuple[Header, ...] = ()

    @property
    def is_large(self) -> bool:
        return len(self.body) > PIECE

    async def send(self, send: Send) -> None:
        await self._send(send, self.body)

    async def send_head(self, send: Send) -> None:
        """The answer to HEAD: the same status and headers, the length of the body included."""
        await self._send(send, b"")

    async def _send(self, send: Send, body: bytes) -> None:
        headers = [
            (b"content-type", self.media_type),
            (b"content-length", b"%d" % len(self.body)),
            *self.headers,
        ]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        for start in range(
            0, len(body) - PIECE, PIECE
        ):  # The server's send waits until the client has read most of it.
            await send({"type": "http.response.body", "body": body[start : start + PIECE], "more_body": True})
        sent = max(0, (len(body) - 1) // PIECE * PIECE)
        await send({"type": "http.response.body", "body": body[sent:]})


@dataclass(frozen=True, slots=True)
class Stream:
    """An answer that goes on until its source ends or its client leaves."""

    chunks: AsyncIterator[bytes]
    media_type: bytes
    headers: tuple[Header, ...] = ((b"cache-control", b"no-store"), (b"x-accel-buffering", b"no"))
    on_end: Callable[[], object] = lambda: None
    """Called once the stream is over, also when it never began."""

    @property
    def _start(self) -> Message:
        headers = [(b"content-type", self.media_type), *self.headers]
        return {"type": "http.response.start", "status": 200, "headers": headers}

    async def send_head(self, send: Send) -> None:
        """The answer to HEAD; the stream never begins."""
        self.on_end()
        await send(self._start)
        await send({"type": "http.response.body", "body": b""})

    async def send_to(self, request: Request, send: Send) -> None:
        sender = asyncio.get_running_loop().create_task(self._send_chunks(send, self._start))
        watch = request.watch(sender.cancel)
        try:
            await asyncio.wait([sender])
        finally:
            watch.cancel()
            sender.cancel()
            self.on_end()
        if not sender.cancelled() and (error := sender.exception()) is not None:
            raise error

    async def _send_chunks(self, send: Send, start: Message) -> None:
        await send(start)
        async for chunk in self.chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
