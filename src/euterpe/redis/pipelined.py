"""One connection to Redis on which many commands may be under way: what a hot path sends, at a tenth of a pool's cost.

A pool gives each command a connection, which costs redis-py 110 us; to write a command and to read its answer costs 15.
"""

from __future__ import annotations

import asyncio
import random
import ssl
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import hiredis
from redis.asyncio.connection import SSLConnection, parse_url
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
)
from redis.exceptions import (
    ConnectionError as Disconnected,
)
from redis.exceptions import (
    TimeoutError as AnswerTimeout,
)

from euterpe.redis.connection import CLIENT_NAME, RETRY_PAUSE_S
from euterpe.redis.settings import RedisTuning

Word = bytes | str | int
OnChange = Callable[[Sequence[bytes] | None], None]
"""Called with keys that somebody changed since they were last read on a connection; None stands for all of them."""
_ERRORS: Final[dict[str, type[ResponseError | Disconnected]]] = {
    "NOSCRIPT": NoScriptError,
    "LOADING": BusyLoadingError,
    "READONLY": ReadOnlyError,
    "OOM": OutOfMemoryError,
    "NOAUTH": AuthenticationError,
    "WRONGPASS": AuthenticationError,
    "NOPERM": AuthenticationError,
}


def error_of(text: str) -> Exception:
    """An error that Redis answered, as redis-py names it."""
    code = text.partition(" ")[0]
    return _ERRORS.get(code, ResponseError)(text)


class _Socket(asyncio.Protocol):
    """Answers come in the order of the commands."""

    def __init__(self, on_change: OnChange | None = None) -> None:
        self._on_change = on_change
        self._reader = hiredis.Reader(replyError=error_of)
        self._waiting: deque[asyncio.Future[object]] = deque()
        self._drained: asyncio.Future[None] | None = None
        self._transport: asyncio.WriteTransport | None = None

    @property
    def is_open(self) -> bool:
        return self._transport is not None

    @property
    def is_full(self) -> bool:
        """Whether the other side does not read what was sent."""
        return self._drained is not None

    def connection_made(self, transport: asyncio.WriteTransport) -> None:  # type: ignore[override]  # a socket's is one
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        try:
            while (answer := self._reader.gets()) is not False:
                if self._on_change is not None and isinstance(answer, hiredis.PushNotification):
                    self._on_change(answer[1])
                    continue
                future = self._waiting.popleft()
                if not future.done():
                    future.set_result(answer)
        except (hiredis.ProtocolError, IndexError) as error:
            self.close(Disconnected(f"Redis sent what is no answer: {error}"))

    def connection_lost(self, error: Exception | None) -> None:
        self.close(Disconnected(f"Connection closed by server: {error or 'end of stream'}"))

    def pause_writing(self) -> None:
        self._drained = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)

    def close(self, why: Exception) -> None:
        """Nobody waits any longer: an answer that is missing belongs to nobody."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()
        self.resume_writing()
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_exception(why)
                future.exception()  # Read once: asyncio logs an error that no caller is left to read.
        if transport is not None and self._on_change is not None:
            self._on_change(None)

    def send(self, *commands: tuple[Word, ...]) -> list[asyncio.Future[object]]:
        """The answers to come. What is sent together needs one call of the system."""
        if self._transport is None:
            raise Disconnected("Connection closed")
        packed = b"".join(map(hiredis.pack_command, commands))  # type: ignore[arg-type]  # its stub says one word
        self._transport.write(packed)
        loop = asyncio.get_running_loop()
        answers: list[asyncio.Future[object]] = [loop.create_future() for _ in commands]
        self._waiting += answers
        return answers

    def close_after(self, seconds: float) -> asyncio.TimerHandle:
        """Hang up unless the alarm is cancelled before: the answers behind a late one would be taken for those of other
        commands. `asyncio.timeout` is a dozen calls more, and a worker that waits begins its job behind them."""
        late = AnswerTimeout("Redis did not answer in time")
        return asyncio.get_running_loop().call_later(seconds, self.close, late)

    async def drain(self) -> None:
        if self._drained is not None:
            await asyncio.shield(self._drained)


def _encryption(options: Mapping[str, Any]) -> ssl.SSLContext | None:
    """For `rediss://`, with the options that redis-py knows in its URLs."""
    if options.get("connection_class") is not SSLConnection:
        return None
    context = ssl.create_default_context(cafile=options.get("ssl_ca_certs"))
    if options.get("ssl_cert_reqs") == "none":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate := options.get("ssl_certfile"):
        context.load_cert_chain(certificate, options.get("ssl_keyfile"))
    return context


class PipelinedRedis:
    """Connects when it is first needed, and again after a loss. `max_retries` tries are made for each command.

    `on_change`: called when a key changes that was read on this connection (CLIENT TRACKING), and when it is lost."""

    def __init__(self, url: str, tuning: RedisTuning, on_change: OnChange | None = None) -> None:
        self._on_change = on_change
        self._address = parse_url(url)
        self._tuning = tuning
        self._socket: _Socket | None = None
        self._connecting = asyncio.Lock()

    async def close(self) -> None:
        socket, self._socket = self._socket, None
        if socket is not None:
            socket.close(Disconnected("Connection closed"))

    async def execute(self, *command: Word, wait_s: float = 0.0) -> object:
        """The answer. `wait_s`: how long the command itself may wait at the server."""
        first_s, longest_s = RETRY_PAUSE_S
        for tries_left in range(self._tuning.max_retries, -1, -1):
            try:
                socket = self._socket
                if socket is None or not socket.is_open:
                    socket = await self._connect()
                answer = await self._ask(socket, command, wait_s)
                if isinstance(answer, Exception):
                    raise answer
                return answer
            except (Disconnected, AnswerTimeout, OSError) as error:
                if not tries_left or isinstance(error, (BusyLoadingError, AuthenticationError)):
                    raise
            await asyncio.sleep(first_s * random.uniform(0.5, 1.5))
            first_s = min(2 * first_s, longest_s)
        raise AssertionError("the last try returns or raises")

    async def execute_after(
        self, wait: tuple[Word, ...], command: tuple[Word, ...], wait_s: float
    ) -> tuple[object, object]:
        """The answers to both, errors among them. Redis runs the command as soon as the other has waited, without a way
        to us and back between them. Who is cancelled meanwhile takes both back, by hanging up."""
        socket = self._socket
        if socket is None or not socket.is_open:
            socket = await self._connect()
        answers = socket.send(wait, command)
        alarm = socket.close_after(wait_s + self._tuning.read_timeout_s)
        try:
            return await answers[0], await answers[1]
        finally:
            alarm.cancel()
            if not answers[1].done() or answers[1].cancelled():
                socket.close(Disconnected("Connection closed"))

    async def _ask(self, socket: _Socket, command: tuple[Word, ...], wait_s: float = 0.0) -> object:
        (answer,) = socket.send(command)
        if socket.is_full:
            alarm = socket.close_after(self._tuning.write_timeout_s)
            try:
                await socket.drain()
            finally:
                alarm.cancel()
        alarm = socket.close_after(wait_s + self._tuning.read_timeout_s)
        try:
            return await answer
        finally:
            alarm.cancel()

    async def _connect(self) -> _Socket:
        async with self._connecting:
            if self._socket is not None and self._socket.is_open:
                return self._socket
            address = self._address
            host, port = address.get("host", "127.0.0.1"), int(address.get("port", 6379))
            try:
                async with asyncio.timeout(self._tuning.dial_timeout_s):
                    _, socket = await asyncio.get_running_loop().create_connection(
                        lambda: _Socket(self._on_change), host, port, ssl=_encryption(address)
                    )
            except (OSError, TimeoutError) as error:
                raise Disconnected(f"Error connecting to {host}:{port}. {type(error).__name__}: {error}") from error
            await self._handshake(socket)
            self._socket = socket
            return socket

    async def _handshake(self, socket: _Socket) -> None:
        address = self._address
        steps: list[tuple[Word, ...]] = []
        if password := address.get("password"):
            steps.append(("AUTH", address["username"], password) if address.get("username") else ("AUTH", password))
        steps.append(("CLIENT", "SETNAME", CLIENT_NAME))
        if db := address.get("db"):
            steps.append(("SELECT", int(db)))
        if self._on_change is not None:
            steps += (("HELLO", 3), ("CLIENT", "TRACKING", "ON"))
        for step in steps:
            answer = await self._ask(socket, step)
            if isinstance(answer, Exception):
                socket.close(Disconnected("Connection closed"))
                raise answer
