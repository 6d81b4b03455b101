"""One object into one file: streamed, hashed on the way, resumed by range where the connection breaks.

A resumed request demands the version that the first bytes came from (`If-Match`), so two versions never meet in one
file. Without a strong entity tag there is nothing to demand, and the download begins anew.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

import aiohttp

from euterpe.model.failures.failure import Category
from euterpe.transcode.storage.errors import Stage, StorageError
from euterpe.transcode.storage.http import Timing
from euterpe.transcode.storage.ports import Fetched, Progress, SourceInfo
from euterpe.transcode.storage.retrying import Retries
from euterpe.transcode.storage.threads import Digest, in_thread

_BATCH: Final = 1024 * 1024
_CONTENT_RANGE: Final = re.compile(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)", re.ASCII)

OPENED: Final = frozenset({200, 206, 416})
"""What a request for an object or a range of it may answer; everything else is an error of the opener's."""

Open = Callable[[Mapping[str, str]], AbstractAsyncContextManager[aiohttp.ClientResponse]]
"""Asks for the object with these headers more."""


@dataclass(slots=True)
class _Received:
    """What is in the file so far."""

    file: BinaryIO
    digest: Digest = field(default_factory=hashlib.sha256)
    size: int = 0
    total: int | None = None
    etag: str | None = None

    def begin_anew(self) -> None:
        self.file.seek(0)
        self.file.truncate()
        self.digest = hashlib.sha256()
        self.size, self.total, self.etag = 0, None, None

    def write(self, data: bytes) -> None:
        try:
            self.file.write(data)
        except OSError as error:
            raise StorageError(
                "worker.disk", Category.SYSTEM, Stage.FETCHING, f"the source cannot be kept here ({error.strerror})"
            ) from None
        self.digest.update(data)
        self.size += len(data)


class Download:
    """Fetches by an opener, which says how to ask: with a signature, or by a signed URL."""

    def __init__(
        self, open_: Open, place: str, *, etag: str | None, sha256: str | None, timing: Timing, retries: Retries
    ) -> None:
        self._open = open_
        self._place = place
        self._pinned_etag = None if etag is None else quoted(etag)
        self._sha256 = sha256
        self._timing = timing
        self._retries = retries

    async def stat(self) -> SourceInfo:
        """By asking for the first byte: a signed URL is good for GET alone."""
        return await self._retries.run(lambda _: self._stat())

    async def _stat(self) -> SourceInfo:
        async with self._open(self._pinned({"Range": "bytes=0-0"})) as response:
            self._check_version(response)
            if response.status != 416 or total_size(response) is not None:
                return _info(response)
        async with self._open(self._pinned({})) as response:  # An empty object has no first byte.
            return _info(response)

    async def fetch(self, path: Path, max_bytes: int, progress: Progress | None) -> Fetched:
        with await in_thread(path.open, "wb", buffering=0) as file:
            received = _Received(file)
            failures = 0
            while True:
                before = received.size
                try:
                    await self._receive(received, max_bytes, progress)
                    break
                except StorageError as error:
                    # What broke after some progress is a bad line; what brings nothing several times is down.
                    failures = 0 if received.size > before else failures + 1
                    if not error.is_transient or failures >= self._retries.tries:
                        raise
                    await self._retries.pause(failures, error)
            await in_thread(os.fsync, file.fileno())
        digest = received.digest.hexdigest()
        if self._sha256 is not None and digest != self._sha256:
            raise self._error("source.checksum_mismatch", "its SHA-256 is not the one that was asked for")
        return Fetched(received.size, digest, received.etag)

    async def _receive(self, received: _Received, max_bytes: int, progress: Progress | None) -> None:
        if received.size and not is_strong(received.etag):
            await in_thread(received.begin_anew)
        headers = {"Range": f"bytes={received.size}-", "If-Match": received.etag} if received.size else {}
        async with self._open(self._pinned({k: v for k, v in headers.items() if v is not None})) as response:
            self._check_version(response)
            await self._check_place(response, received)
            if received.total is not None and received.total > max_bytes:
                raise self._too_large(max_bytes)
            if response.status != 416:
                await self._drain(response, received, max_bytes, progress)
        if received.total is not None and received.size != received.total:
            raise StorageError(
                "storage.disconnected", Category.TEMPORARY, Stage.FETCHING, f"{self._place}: the answer was cut short"
            )

    async def _check_place(self, response: aiohttp.ClientResponse, received: _Received) -> None:
        """Whether this answer goes on where the file ends; one that begins anew begins the file anew."""
        etag = response.headers.get("ETag")
        if received.size and etag is not None and etag != received.etag:
            raise self._error("source.changed", "it changed while it was read", status=412)
        begins_at = _first_byte(response)
        if begins_at == 0 and received.size:
            await in_thread(received.begin_anew)
        if begins_at != received.size and response.status != 416:
            raise StorageError(
                "storage.protocol", Category.TEMPORARY, Stage.FETCHING, f"{self._place}: another range than asked for"
            )
        received.total, received.etag = total_size(response), etag

    async def _drain(
        self, response: aiohttp.ClientResponse, received: _Received, max_bytes: int, progress: Progress | None
    ) -> None:
        started_s, had = time.monotonic(), received.size
        batch = bytearray()
        try:
            async for chunk in response.content.iter_any():
                batch += chunk
                if received.size + len(batch) > max_bytes:
                    raise self._too_large(max_bytes)
                if len(batch) >= _BATCH:
                    await self._keep(batch, received, progress)
                    self._check_rate(received.size - had, time.monotonic() - started_s)
                elif time.monotonic() - started_s > self._timing.grace_s:
                    self._check_rate(received.size + len(batch) - had, time.monotonic() - started_s)
        except (aiohttp.ClientError, OSError) as error:
            # What came before the break counts: the next request goes on behind it.
            await self._keep(batch, received, progress)
            raise error from None
        await self._keep(batch, received, progress)

    async def _keep(self, batch: bytearray, received: _Received, progress: Progress | None) -> None:
        data = bytes(batch)
        batch.clear()
        if data:
            await in_thread(received.write, data)
            if progress is not None:
                progress(received.size)

    def _check_rate(self, size: int, elapsed_s: float) -> None:
        if elapsed_s > self._timing.for_bytes(size):
            raise StorageError("storage.timeout", Category.TIMEOUT, Stage.FETCHING, f"{self._place} was too slow")

    def _pinned(self, headers: dict[str, str]) -> dict[str, str]:
        return headers if self._pinned_etag is None else {"If-Match": self._pinned_etag, **headers}

    def _check_version(self, response: aiohttp.ClientResponse) -> None:
        """A store that ignores If-Match shall not pass for one that kept it."""
        etag = response.headers.get("ETag")
        if self._pinned_etag is not None and etag is not None and etag != self._pinned_etag:
            raise self._error("source.changed", "its entity tag is not the one that was asked for", status=412)

    def _too_large(self, max_bytes: int) -> StorageError:
        return self._error("source.too_large", f"it has more than the {max_bytes} bytes allowed")

    def _error(self, code: str, message: str, status: int | None = None) -> StorageError:
        return StorageError(code, Category.PERMANENT, Stage.FETCHING, f"{self._place}: {message}", http_status=status)


def quoted(etag: str) -> str:
    return etag if etag.startswith('"') else f'"{etag}"'


def is_strong(etag: str | None) -> bool:
    return etag is not None and etag.startswith('"')


def total_size(response: aiohttp.ClientResponse) -> int | None:
    content_range = _range_of(response)
    if content_range is not None:
        return int(content_range.group(3)) if content_range.group(3) != "*" else None
    return response.content_length if response.status == 200 else None


def _info(response: aiohttp.ClientResponse) -> SourceInfo:
    return SourceInfo(total_size(response), response.headers.get("ETag"), response.headers.get("Content-Type"))


def _first_byte(response: aiohttp.ClientResponse) -> int | None:
    content_range = _range_of(response)
    if content_range is None:
        return 0 if response.status == 200 else None
    return int(content_range.group(1)) if content_range.group(1) else None


def _range_of(response: aiohttp.ClientResponse) -> re.Match[str] | None:
    """By the header and not by the status: rclone's server answers 200 to a range, with just that range."""
    return _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
