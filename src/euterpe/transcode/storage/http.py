"""The HTTP of all stores: aiohttp behind the egress guard, streaming both ways, nothing followed, nothing kept.

One instance reaches one host. Addresses are resolved, checked and pinned by the guard; there are no redirects, no
proxies, no cookies and no decompression. A failure to talk becomes a StorageError here, an answer is the caller's.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final

import aiohttp
from yarl import URL

from euterpe.egress.aiohttp_guard import AiohttpGuard
from euterpe.egress.errors import EgressFailed, EgressRefused
from euterpe.egress.resolution import Resolver
from euterpe.egress.target import EgressPolicy
from euterpe.model.failures.failure import Category
from euterpe.model.failures.http_error import retry_after_us
from euterpe.transcode.storage.errors import Stage, StorageError, refused, store_code_of

_ERROR_BYTES: Final = 64 * 1024
_NOT_OURS: Final = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")

Body = Callable[[], AsyncIterator[bytes]]
"""Makes the body anew for each try."""


@dataclass(frozen=True, slots=True)
class Timing:
    """How long a store may take. What is slower than `min_rate` bytes a second over a whole transfer is given up."""

    connect_s: float = 10.0
    idle_s: float = 30.0
    grace_s: float = 60.0
    min_rate: int = 16 * 1024

    def for_bytes(self, size: int) -> float:
        return self.grace_s + size / self.min_rate


@dataclass(frozen=True, slots=True)
class StorageResponse:
    """A whole answer with a small body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def etag(self) -> str | None:
        return self.headers.get("ETag")


class StorageHttp:
    def __init__(
        self,
        origin: str,
        policy: EgressPolicy,
        *,
        stage: Stage,
        timing: Timing | None = None,
        resolver: Resolver | None = None,
    ) -> None:
        """Raises StorageError for an origin that the policy closes. A resolver that is given may be shared, and stays
        open; else threads that look up names end with `close`."""
        self.origin = origin
        self.stage = stage
        self.timing = timing or Timing()
        self.host = URL(origin).host_port_subcomponent or ""
        self._owns_resolver = resolver is None
        try:
            self._guard = AiohttpGuard(origin, policy, resolver=resolver)
        except EgressRefused as refusal:
            raise self._unreachable(refusal) from None
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()
        if self._owns_resolver:
            await self._guard.close()

    @asynccontextmanager
    async def send(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        *,
        body: bytes | Body | None = None,
        size: int = 0,
        wait_for_go: bool = False,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """`target` is path and query, encoded as they shall be sent. `size` is that of the body to send.

        With `wait_for_go` the body is held back until the store has looked at the headers.
        """
        session = self._opened()
        sent = {**headers, "Content-Length": str(size)} if body is not None else dict(headers)
        try:
            async with asyncio.timeout(self.timing.for_bytes(size) if body is not None else None) as limit:
                response = await session.request(
                    method,
                    URL(self.origin + target, encoded=True),
                    headers=sent,
                    data=self._watched(body(), limit) if callable(body) else body,
                    allow_redirects=False,
                    expect100=wait_for_go,
                )
            try:
                yield response
            finally:
                response.close()
        except EgressRefused as refusal:
            raise self._unreachable(refusal) from None
        except (EgressFailed, aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._failed(error) from None

    async def ask(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        *,
        body: bytes | Body | None = None,
        size: int = 0,
        wait_for_go: bool = False,
    ) -> StorageResponse:
        """A request with a small answer, of any status."""
        async with self.send(method, target, headers, body=body, size=size, wait_for_go=wait_for_go) as response:
            return StorageResponse(response.status, response.headers, await small_body(response))

    def refusal(self, place: str, answer: StorageResponse) -> StorageError:
        wait_us = retry_after_us(answer.headers.get("Retry-After"), time.time())
        return refused(self.stage, place, answer.status, store_code_of(answer.body), wait_us)

    async def _watched(self, body: AsyncIterator[bytes], limit: asyncio.Timeout) -> AsyncIterator[bytes]:
        """The body, for a store that may stop reading: each piece must be taken before long."""
        now = asyncio.get_running_loop().time
        ends_at = limit.when() or now()
        async for piece in body:
            yield piece
            with suppress(RuntimeError):  # The store has answered already, and the limit is over.
                limit.reschedule(min(ends_at, now() + self.timing.idle_s))
        with suppress(RuntimeError):
            limit.reschedule(ends_at)  # What it does with the whole may take its time.

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            timing = self.timing
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(**self._guard.connector_arguments),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=timing.connect_s, sock_read=timing.idle_s),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                trust_env=False,
                skip_auto_headers=_NOT_OURS,
            )
        return self._session

    def _unreachable(self, refusal: EgressRefused) -> StorageError:
        return StorageError("storage.forbidden_address", Category.PERMANENT, self.stage, str(refusal))

    def _failed(self, error: Exception) -> StorageError:
        """In words of our own: aiohttp likes to put the whole URL into its messages."""
        if isinstance(error, TimeoutError):
            return StorageError("storage.timeout", Category.TIMEOUT, self.stage, f"{self.host} was too slow")
        if isinstance(error, EgressFailed):
            return StorageError("storage.unreachable", Category.TEMPORARY, self.stage, str(error))
        if isinstance(error, aiohttp.ClientConnectorError):
            return StorageError("storage.unreachable", Category.TEMPORARY, self.stage, f"{self.host}: no connection")
        message = f"{self.host} cut the connection or spoke no HTTP ({type(error).__name__})"
        return StorageError("storage.disconnected", Category.TEMPORARY, self.stage, message)


async def small_body(response: aiohttp.ClientResponse) -> bytes:
    """The beginning of an answer, which is all that is ever needed of one that is no object."""
    kept = bytearray()
    async for chunk in response.content.iter_chunked(16 * 1024):
        kept += chunk
        if len(kept) >= _ERROR_BYTES:
            break
    return bytes(kept)
