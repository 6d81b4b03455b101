"""Signed requests to one bucket. A refusal of the credentials leads to a refresh, and the same request goes on.

Bodies are signed with their SHA-256 and say their MD5, so that a store takes nothing that was changed on the way.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final, TypeVar

import aiohttp

from euterpe.transcode.storage.http import Body, StorageHttp, StorageResponse, small_body
from euterpe.transcode.storage.ports import Credentials, Scope, Versioned
from euterpe.transcode.storage.renewing import Refusals, Renewing
from euterpe.transcode.storage.retrying import Sleep
from euterpe.transcode.storage.s3.sigv4 import EMPTY_SHA256, SignableRequest, encoded, query_string, signed_headers

T = TypeVar("T")
Query = Sequence[tuple[str, str]]
NOTHING: Final[Mapping[str, str]] = {}


class S3Client:
    def __init__(
        self,
        http: StorageHttp,
        bucket: str,
        region: str,
        credentials: Credentials,
        scope: Scope,
        clock: Callable[[], float] = time.time,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.http = http
        self.bucket = bucket
        self._region = region
        self._credentials = credentials
        self._scope: Scope = scope
        self._clock = clock
        self._renewing = Renewing(credentials, scope, sleep)

    def place(self, key: str) -> str:
        """How messages name an object."""
        return f"{self.http.host}/{self.bucket}/{key}"

    async def close(self) -> None:
        await self.http.close()

    async def ask(
        self,
        method: str,
        key: str,
        *,
        query: Query = (),
        headers: Mapping[str, str] = NOTHING,
        body: bytes | Body | None = None,
        size: int | None = None,
        sha256: str | None = None,
        wait_for_go: bool = False,
        expect: frozenset[int] = frozenset({200, 204}),
        may_renew: bool = True,
    ) -> StorageResponse:
        """One request; raises StorageError for a status that is not expected."""
        if isinstance(body, bytes):
            size, sha256 = len(body), hashlib.sha256(body).hexdigest()
        past = Refusals()
        while True:
            current = await self._credentials.keys(self._scope)
            request = self._request(method, key, query, headers, sha256 or EMPTY_SHA256)
            answer = await self.http.ask(
                method,
                self._target(request),
                self._sign(request, current),
                body=body,
                size=size or 0,
                wait_for_go=wait_for_go,
            )
            if answer.status in expect:
                return answer
            error = self.http.refusal(self.place(key), answer)
            if not may_renew:
                raise error
            await self._renewing.after(error, current.version, past)

    @asynccontextmanager
    async def stream(
        self, method: str, key: str, headers: Mapping[str, str], expect: frozenset[int]
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """A request whose answer is read piece by piece. Raises StorageError for a status that is not expected."""
        past = Refusals()
        while True:
            current = await self._credentials.keys(self._scope)
            request = self._request(method, key, (), headers, EMPTY_SHA256)
            async with self.http.send(method, self._target(request), self._sign(request, current)) as response:
                if response.status in expect:
                    yield response
                    return
                answer = StorageResponse(response.status, response.headers, await small_body(response))
            error = self.http.refusal(self.place(key), answer)
            await self._renewing.after(error, current.version, past)

    def _request(self, method: str, key: str, query: Query, headers: Mapping[str, str], sha256: str) -> SignableRequest:
        path = f"/{encoded(self.bucket)}/{encoded(key, keep='/')}"
        return SignableRequest(method, self.http.host, path, query, headers, sha256)

    def _sign(self, request: SignableRequest, current: Versioned) -> dict[str, str]:
        return signed_headers(request, current.keys, self._region, "s3", self._clock())

    @staticmethod
    def _target(request: SignableRequest) -> str:
        query = query_string(request.query)
        return f"{request.path}?{query}" if query else request.path
