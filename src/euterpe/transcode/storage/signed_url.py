"""Sources and outputs by signed URL: the URL is the permission, and the only thing that is known of the store."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp

from euterpe.model.errors import Unsupported
from euterpe.model.failures.failure import Category
from euterpe.model.failures.http_error import retry_after_us
from euterpe.transcode.schema.locations import PutUrlDestination, SignedUrlSource
from euterpe.transcode.storage.download import OPENED, Download
from euterpe.transcode.storage.errors import Stage, StorageError, refused, store_code_of
from euterpe.transcode.storage.http import StorageHttp, StorageResponse, small_body
from euterpe.transcode.storage.ports import Credentials, Fence, Fetched, Progress, SourceInfo, Stored
from euterpe.transcode.storage.publishing import Condition, publish
from euterpe.transcode.storage.renewing import Refusals, Renewing
from euterpe.transcode.storage.retrying import Retries
from euterpe.transcode.storage.s3.objects import Connect
from euterpe.transcode.storage.s3.parts import Part, cut, stream

_PUT: frozenset[int] = frozenset({200, 201, 204})
_LARGEST_PUT = 5 * 1024**3


class SignedUrlReader:
    def __init__(
        self, location: SignedUrlSource, credentials: Credentials, connect: Connect, retries: Retries | None = None
    ) -> None:
        self._place = location.url
        self._credentials = credentials
        retries = retries or Retries()
        self._renewing = Renewing(credentials, "source", retries.sleep)
        self._http = connect(origin_of(location.url), Stage.FETCHING)
        self._download = Download(
            self._open,
            location.url,
            etag=location.etag,
            sha256=location.sha256,
            timing=self._http.timing,
            retries=retries,
        )

    async def stat(self) -> SourceInfo:
        return await self._download.stat()

    async def fetch(self, path: Path, *, max_bytes: int, progress: Progress | None = None) -> Fetched:
        return await self._download.fetch(path, max_bytes, progress)

    async def close(self) -> None:
        await self._http.close()

    @asynccontextmanager
    async def _open(self, headers: Mapping[str, str]) -> AsyncIterator[aiohttp.ClientResponse]:
        past = Refusals()
        while True:
            current = await self._credentials.url(None)
            sent = {**current.signed.headers, **headers}
            async with self._http.send("GET", target_of(current.signed.url), sent) as response:
                if response.status in OPENED:
                    yield response
                    return
                answer = StorageResponse(response.status, response.headers, await small_body(response))
            await self._renewing.after(_refusal(Stage.FETCHING, self._place, answer), current.version, past)


class StagedPut:
    """An output that is hashed and ready to be sent."""

    def __init__(self, key: str, send: Callable[[], Awaitable[Stored]]) -> None:
        self.key = key
        self._send = send

    async def publish(self) -> Stored:
        return await self._send()

    async def discard(self) -> None:
        """Nothing was sent."""


class PutUrlWriter:
    """Each output has one URL, good for one PUT of the whole: there is nothing to copy, to delete or to clean up, and
    no way back to what the URL held before."""

    def __init__(
        self,
        location: PutUrlDestination,
        credentials: Credentials,
        connect: Connect,
        retries: Retries | None = None,
    ) -> None:
        self._urls = location.urls
        self._credentials = credentials
        self._retries = retries or Retries()
        self._renewing = Renewing(credentials, "destination", self._retries.sleep)
        self._connect = connect
        self._https: dict[str, StorageHttp] = {}

    async def put(
        self, path: Path, name: str, *, content_type: str, fence: Fence, progress: Progress | None = None
    ) -> Stored:
        staged = await self.stage(path, name, content_type=content_type, fence=fence, progress=progress)
        return await staged.publish()

    async def stage(
        self, path: Path, name: str, *, content_type: str, fence: Fence, progress: Progress | None = None
    ) -> StagedPut:
        """`name` is the output's id. Nothing is sent yet: a signed URL has no place but the one that it shows."""
        place = self._urls[name]
        pieces = await cut(path, _LARGEST_PUT)
        if len(pieces.parts) > 1:
            raise StorageError(
                "output.too_large", Category.PERMANENT, Stage.UPLOADING, f"{place}: a signed PUT takes up to 5 GiB"
            )

        async def act(condition: Condition) -> str | None:
            return await self._retries.run(
                lambda number: self._put(path, name, pieces.parts[0], content_type, condition, wait=number > 0)
            )

        async def send() -> Stored:
            etag = await publish(act, self._no_current_etag, fence)
            if progress is not None:
                progress(pieces.size)
            return Stored(place, pieces.size, pieces.sha256, etag)

        return StagedPut(place, send)

    async def etag_at(self, key: str) -> str | None:  # noqa: ARG002  # the port's
        raise Unsupported("a signed URL to put shows nothing")

    async def copy(self, key: str, name: str, *, etag: str, fence: Fence) -> str | None:  # noqa: ARG002  # the port's
        raise Unsupported("a signed URL takes bytes, and copies nothing")

    async def delete(self, name: str, *, etag: str | None = None, fence: Fence | None = None) -> None:  # noqa: ARG002  # likewise
        raise Unsupported("a signed URL to put cannot delete")

    async def discard_leftovers(self) -> int:
        return 0

    async def remove_older_folders(self, name: str) -> None:
        """There are no folders: HLS cannot be put to a signed URL."""

    async def close(self) -> None:
        for http in self._https.values():
            await http.close()

    async def _put(
        self, path: Path, name: str, part: Part, content_type: str, condition: Condition, *, wait: bool
    ) -> str | None:
        past = Refusals()
        while True:
            current = await self._credentials.url(name)
            signed = current.signed
            given = {header.lower(): value for header, value in signed.headers.items()}
            answer = await self._http_of(signed.url).ask(
                "PUT",
                target_of(signed.url),
                {"content-type": content_type, "content-md5": part.md5, **condition, **given},
                body=lambda: stream(path, part),
                size=part.size,
                wait_for_go=wait,
            )
            if answer.status in _PUT:
                return answer.etag
            await self._renewing.after(_refusal(Stage.UPLOADING, signed.place, answer), current.version, past)

    @staticmethod
    async def _no_current_etag() -> str | None:
        raise StorageError("storage.refused", Category.PERMANENT, Stage.UPLOADING, "a signed URL to put shows nothing")

    def _http_of(self, url: str) -> StorageHttp:
        origin = origin_of(url)
        if origin not in self._https:
            self._https[origin] = self._connect(origin, Stage.UPLOADING)
        return self._https[origin]


def origin_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def target_of(url: str) -> str:
    return url[len(origin_of(url)) :] or "/"


def _refusal(stage: Stage, place: str, answer: StorageResponse) -> StorageError:
    wait_us = retry_after_us(answer.headers.get("Retry-After"), time.time())
    return refused(stage, place, answer.status, store_code_of(answer.body), wait_us)
