"""The one HTTP client for addresses that requesters choose: webhooks, refresh calls, source URLs.

A name is resolved once, every address in the answer is checked, and the connection goes to a checked address
and no other. No redirects, no proxies, no cookies, no decompression; time and size are bounded from the
outside.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self, TypeVar

from euterpe.egress.addresses import Reach, reach_of
from euterpe.egress.errors import EgressFailed, EgressFailure, EgressRefusal, EgressRefused
from euterpe.egress.http1 import Connection, Head
from euterpe.egress.pool import IdlePool, PoolKey
from euterpe.egress.resolution import CachingResolver, Resolver, SystemResolver
from euterpe.egress.target import EgressPolicy, Target, check_address, check_url

_T = TypeVar("_T")

DEFAULT_DEADLINE_S: Final = 15.0
MAX_ANSWER_BYTES: Final = 64 * 1024
MAX_HEAD_BYTES: Final = 32 * 1024

_MAX_ADDRESSES_TRIED: Final = 4
_MAX_IDLE_CONNECTIONS: Final = 512

_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_HEADER_VALUE: Final = re.compile(r"[\t -~]*", re.ASCII)
_OUR_HEADERS: Final = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "user-agent",
    }
)


@dataclass(frozen=True, slots=True)
class EgressLimits:
    """How long and how much. `idle_s` is under the 5 s after which many servers close an idle connection."""

    connect_timeout_s: float = 5.0
    idle_s: float = 4.0
    max_answer_bytes: int = MAX_ANSWER_BYTES
    max_head_bytes: int = MAX_HEAD_BYTES


@dataclass(frozen=True, slots=True)
class EgressReply:
    """What came back: any status at all, a redirect included, and the first part of the body."""

    status: int
    headers: dict[str, str]
    body_prefix: bytes = field(repr=False)
    elapsed_s: float
    truncated: bool
    from_public: bool
    """Whether it came from the public internet, and so is nothing that only we could reach."""


class Egress:
    """Calls what requesters point us at. Use as `async with Egress(policy) as egress`, or `close` it."""

    def __init__(
        self,
        policy: EgressPolicy,
        *,
        resolver: Resolver | None = None,
        ssl_context: ssl.SSLContext | None = None,
        limits: EgressLimits | None = None,
        user_agent: str = "euterpe",
    ) -> None:
        self._policy = policy
        self._limits = limits or EgressLimits()
        self._resolver = resolver or CachingResolver(SystemResolver())
        self._ssl_context = ssl_context or _default_ssl_context()
        self._user_agent = user_agent
        self._pool = IdlePool(idle_s=self._limits.idle_s, max_idle=_MAX_IDLE_CONNECTIONS)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._pool.close()
        await self._resolver.close()

    async def post(
        self,
        url: str,
        body: bytes,
        headers: Mapping[str, str] | None = None,
        *,
        deadline_s: float = DEFAULT_DEADLINE_S,
    ) -> EgressReply:
        """POST the body and read the answer, all of it within the deadline and the size limit."""
        target = check_url(url, self._policy)
        request = self._request("POST", target, headers or {}, body)
        return await _Deadline(deadline_s, deadline_s).bound(self._exchange(target, request), target)

    @asynccontextmanager
    async def get(
        self,
        url: str,
        headers: Mapping[str, str] | None = None,
        *,
        max_bytes: int,
        deadline_s: float,
        idle_timeout_s: float = DEFAULT_DEADLINE_S,
    ) -> AsyncIterator[EgressDownload]:
        """GET a body of any size up to `max_bytes`, piece by piece; memory stays flat."""
        deadline = _Deadline(deadline_s, idle_timeout_s)
        target = check_url(url, self._policy)
        request = self._request("GET", target, headers or {}, None)
        route, connection = await deadline.bound(self._open(target), target)
        try:
            head = await deadline.bound(connection.ask(request), target)
            yield EgressDownload(head, connection, target, deadline, max_bytes)
        finally:
            self._release(route, connection)

    async def addresses(self, target: Target) -> tuple[str, ...]:
        """The target's addresses, every one of them checked. One bad address spoils the whole answer: the
        next lookup might put it first.
        """
        if target.is_literal:
            found: tuple[str, ...] = (target.host,)
        else:
            found = await self._resolver.resolve(target.host, target.port)
        for address in found:
            check_address(target, address, self._policy)
        return found

    async def _exchange(self, target: Target, request: bytes) -> EgressReply:
        started = time.perf_counter()
        route, connection = await self._open(target)
        try:
            head = await connection.ask(request)
            prefix, truncated = await _read_prefix(connection, self._limits.max_answer_bytes)
        finally:
            self._release(route, connection)
        from_public = reach_of(route.address) is Reach.PUBLIC
        return EgressReply(head.status, head.headers, prefix, time.perf_counter() - started, truncated, from_public)

    def _release(self, route: PoolKey, connection: Connection) -> None:
        if connection.finish():
            self._pool.give(route, connection)

    async def _open(self, target: Target) -> tuple[PoolKey, Connection]:
        addresses = await self.addresses(target)
        routes = [PoolKey(address, target.port, target.is_tls, target.host) for address in addresses]
        for route in routes:
            pooled = self._pool.take(route)
            if pooled is not None:
                return route, pooled
        failed: EgressFailed | None = None
        for route in routes[:_MAX_ADDRESSES_TRIED]:
            try:
                return route, await self._connect(route)
            except EgressFailed as error:
                failed = error
        raise failed or EgressFailed(EgressFailure.NAME, f"{target.host} has no address")

    async def _connect(self, route: PoolKey) -> Connection:
        try:
            async with asyncio.timeout(self._limits.connect_timeout_s):
                sock = await _connected_socket(route.address, route.port)
                # From here on the event loop owns the socket and closes it if the handshake fails.
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: Connection(route.host, self._limits.max_head_bytes),
                    sock=sock,
                    ssl=self._ssl_context if route.is_tls else None,
                    server_hostname=route.host if route.is_tls else None,
                )
        except ssl.SSLError as error:
            raise EgressFailed(EgressFailure.TLS, f"{route.host}: TLS failed ({_tls_reason(error)})") from None
        except OSError as error:
            raise _unreachable(route, error) from None
        return connection

    def _request(self, method: str, target: Target, headers: Mapping[str, str], body: bytes | None) -> bytes:
        check_headers(headers)
        lines = [
            f"{method} {target.path_and_query} HTTP/1.1",
            f"host: {target.authority}",
            f"user-agent: {self._user_agent}",
            "accept-encoding: identity",
        ]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if body is None:
            return "\r\n".join((*lines, "", "")).encode("ascii")
        lines += [f"content-length: {len(body)}", "", ""]
        return "\r\n".join(lines).encode("ascii") + body


class EgressDownload:
    """An answer that is still arriving: iterate to receive its body."""

    def __init__(self, head: Head, connection: Connection, target: Target, deadline: _Deadline, max_bytes: int) -> None:
        self.status = head.status
        self.headers = head.headers
        self._connection = connection
        self._target = target
        self._deadline = deadline
        self._max_bytes = max_bytes
        self._received_bytes = 0
        length = head.headers.get("content-length", "")
        self.content_length = int(length) if length.isascii() and length.isdecimal() else None
        if self.content_length is not None and self.content_length > max_bytes:
            raise self._too_large()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while chunk := await self._deadline.bound(self._connection.read(), self._target):
            self._received_bytes += len(chunk)
            if self._received_bytes > self._max_bytes:
                raise self._too_large()
            yield chunk

    def _too_large(self) -> EgressRefused:
        return EgressRefused(
            EgressRefusal.ANSWER_TOO_LARGE,
            f"{self._target.host} offers more than the {self._max_bytes} bytes allowed",
        )


class _Deadline:
    """A total time that all steps share, and a time that no single step may take."""

    def __init__(self, total_s: float, step_s: float) -> None:
        self._ends_at = asyncio.get_running_loop().time() + total_s
        self._total_s = total_s
        self._step_s = step_s

    async def bound(self, step: Awaitable[_T], target: Target) -> _T:
        now = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout_at(min(self._ends_at, now + self._step_s)):
                return await step
        except TimeoutError:
            raise EgressFailed(
                EgressFailure.TIMEOUT,
                f"{target.host} was too slow (limits: {self._total_s:g} s, {self._step_s:g} s idle)",
            ) from None


def check_headers(headers: Mapping[str, str]) -> None:
    """Refuse headers that are ours to set, or that could end a line and begin another."""
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise EgressRefused(EgressRefusal.BAD_HEADER, f"header {name!r}: not a plain ASCII name and value")
        if name.lower() in _OUR_HEADERS:
            raise EgressRefused(EgressRefusal.BAD_HEADER, f"header {name!r}: set by Euterpe alone")


async def _connected_socket(address: str, port: int) -> socket.socket:
    # Opened by us, at the address that was checked: no layer below gets to look anything up or to find a
    # proxy.
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, (address, port))
    except BaseException:
        sock.close()
        raise
    return sock


async def _read_prefix(connection: Connection, limit_bytes: int) -> tuple[bytes, bool]:
    chunks: list[bytes] = []
    size_bytes = 0
    while size_bytes <= limit_bytes and (chunk := await connection.read()):
        chunks.append(chunk)
        size_bytes += len(chunk)
    return b"".join(chunks)[:limit_bytes], size_bytes > limit_bytes


def _default_ssl_context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    return context


def _unreachable(route: PoolKey, error: OSError) -> EgressFailed:
    # The error's own text may hold the address, so only its number is put into words.
    if error.errno:
        return EgressFailed(EgressFailure.CONNECT, f"{route.host} could not be reached ({os.strerror(error.errno)})")
    if isinstance(error, TimeoutError):
        return EgressFailed(EgressFailure.CONNECT, f"{route.host} could not be reached (no connection in time)")
    return EgressFailed(EgressFailure.TLS, f"{route.host}: TLS failed (closed during the handshake)")


def _tls_reason(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    return error.reason or type(error).__name__
