"""Objects of an S3 store: a source by key, outputs below a prefix."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from euterpe.egress.resolution import Resolver
from euterpe.egress.target import EgressPolicy
from euterpe.model.failures.failure import Category
from euterpe.transcode.schema.locations import S3Destination, S3Source, endpoint_of
from euterpe.transcode.storage.cleanup import Cleanup
from euterpe.transcode.storage.download import OPENED, Download
from euterpe.transcode.storage.errors import Stage, StorageError, is_error_document, late_failure
from euterpe.transcode.storage.http import StorageHttp, Timing
from euterpe.transcode.storage.ports import (
    Credentials,
    Fence,
    Fetched,
    OpenUpload,
    Progress,
    SourceInfo,
    Stored,
    UploadAttempt,
    UploadLedger,
)
from euterpe.transcode.storage.publishing import Condition, CurrentEtag, etag_in, keys_in, publish
from euterpe.transcode.storage.retrying import Retries, gathered
from euterpe.transcode.storage.s3.client import S3Client
from euterpe.transcode.storage.s3.multipart import UPLOAD_LOST, MultipartUpload
from euterpe.transcode.storage.s3.parts import MAX_OBJECT, PART_SIZE, SINGLE_PUT_LIMIT, Cut, cut, part_size_for, stream
from euterpe.transcode.storage.s3.sigv4 import encoded

Connect = Callable[[str, Stage], StorageHttp]

_DELETED: Final = frozenset({200, 204, 404})
_LISTED_AT_ONCE: Final = 40
"""So many keys are sure to fit into the part of an answer that is read."""


def connecting(policy: EgressPolicy, *, timing: Timing | None = None, resolver: Resolver | None = None) -> Connect:
    """How stores of a process are reached: all of them under one policy."""
    return lambda origin, stage: StorageHttp(origin, policy, stage=stage, timing=timing, resolver=resolver)


class S3SourceReader:
    def __init__(
        self, location: S3Source, credentials: Credentials, connect: Connect, retries: Retries | None = None
    ) -> None:
        http = connect(endpoint_of(location), Stage.FETCHING)
        retries = retries or Retries()
        self._client = S3Client(http, location.bucket, location.region, credentials, "source", sleep=retries.sleep)
        self._download = Download(
            lambda headers: self._client.stream("GET", location.key, headers, OPENED),
            self._client.place(location.key),
            etag=location.etag,
            sha256=location.sha256,
            timing=http.timing,
            retries=retries,
        )

    async def stat(self) -> SourceInfo:
        return await self._download.stat()

    async def fetch(self, path: Path, *, max_bytes: int, progress: Progress | None = None) -> Fetched:
        return await self._download.fetch(path, max_bytes, progress)

    async def close(self) -> None:
        await self._client.close()


class StagedObject:
    """The parts of one output. Completing them is the step that publishes."""

    def __init__(
        self,
        key: str,
        pieces: Cut,
        send: Callable[[], Awaitable[MultipartUpload]],
        current_etag: CurrentEtag,
        fence: Fence,
    ) -> None:
        self.key = key
        self._pieces = pieces
        self._send = send
        self._current_etag = current_etag
        self._fence = fence
        self._upload: MultipartUpload | None = None

    async def send(self) -> None:
        """The store may forget an upload; then it is sent once more."""
        try:
            self._upload = await self._send()
        except StorageError as error:
            if error.code != UPLOAD_LOST:
                raise
            self._upload = await self._send()

    async def publish(self) -> Stored:
        assert self._upload is not None
        try:
            etag = await self._upload.publish(self._current_etag, self._fence)
        except StorageError as error:
            # AWS forgets an upload whose completion met another writer (409); it has to be sent again.
            if error.code != UPLOAD_LOST:
                raise
            self._upload = await self._send()
            etag = await self._upload.publish(self._current_etag, self._fence)
        return Stored(self.key, self._pieces.size, self._pieces.sha256, etag)

    async def discard(self) -> None:
        if self._upload is not None:
            await self._upload.discard()


class S3Writer:
    """Outputs of one attempt. Small files go in one PUT, large ones in parts of which several are under way."""

    def __init__(
        self,
        location: S3Destination,
        attempt: UploadAttempt,
        credentials: Credentials,
        ledger: UploadLedger,
        connect: Connect,
        retries: Retries | None = None,
        *,
        single_put_limit: int = SINGLE_PUT_LIMIT,
        part_size: int = PART_SIZE,
    ) -> None:
        http = connect(endpoint_of(location), Stage.UPLOADING)
        self._retries = retries or Retries()
        self._client = S3Client(
            http, location.bucket, location.region, credentials, "destination", sleep=self._retries.sleep
        )
        self._prefix = location.prefix
        self._attempt = attempt
        self._ledger = ledger
        self._cleanup = Cleanup()
        self._single_put_limit = single_put_limit
        self._part_size = part_size

    async def put(
        self, path: Path, name: str, *, content_type: str, fence: Fence, progress: Progress | None = None
    ) -> Stored:
        size = await asyncio.to_thread(_size_of, path)
        if size > self._single_put_limit:
            staged = await self.stage(path, name, content_type=content_type, fence=fence, progress=progress)
            return await staged.publish()
        key = self._key(name)
        pieces = await cut(path, max(size + 1, 1))
        act = partial(self._put_single, path, key, pieces, content_type)
        etag = await publish(act, partial(self._current_etag, key), fence)
        if progress is not None:
            progress(pieces.size)
        return Stored(key, pieces.size, pieces.sha256, etag)

    async def stage(
        self, path: Path, name: str, *, content_type: str, fence: Fence, progress: Progress | None = None
    ) -> StagedObject:
        """All parts of a multipart upload: whole in the store, and invisible until it is completed.

        Credentials that may only write are enough for it; a copy from another key would need the right to read."""
        key = self._key(name)
        size = await asyncio.to_thread(_size_of, path)
        if size > MAX_OBJECT:
            raise StorageError(
                "output.too_large", Category.PERMANENT, Stage.UPLOADING, f"{self._client.place(key)}: over 5 TiB"
            )
        pieces = await cut(path, part_size_for(size, self._part_size))

        async def send() -> MultipartUpload:
            upload = MultipartUpload(
                self._client, self._ledger, self._attempt, key, content_type, self._retries, self._cleanup
            )
            await upload.send(path, pieces, fence, progress)
            return upload

        staged = StagedObject(key, pieces, send, partial(self._current_etag, key), fence)
        await staged.send()
        return staged

    async def etag_at(self, key: str) -> str | None:
        return await self._retries.run(lambda _: self._current_etag(key))

    async def copy(self, key: str, name: str, *, etag: str, fence: Fence) -> str | None:
        into = self._key(name)
        source = {
            "x-amz-copy-source": f"/{encoded(self._client.bucket)}/{encoded(key, keep='/')}",
            "x-amz-copy-source-if-match": etag,
        }

        async def act(condition: Condition) -> str | None:
            answer = await self._client.ask("PUT", into, headers={**source, **condition})
            if is_error_document(answer.body):
                raise late_failure(self._client.place(into), answer.body)
            return etag_in(answer.body)

        return await self._retries.run(lambda _: publish(act, partial(self._current_etag, into), fence))

    async def delete(self, name: str, *, etag: str | None = None, fence: Fence | None = None) -> None:
        key = self._key(name)
        condition: Condition = {}
        if etag is not None:
            # Looked at as well, because many stores ignore a condition on a delete.
            with suppress(StorageError):
                if await self._current_etag(key) != etag:
                    return
            condition = {"if-match": etag}
        if fence is not None:
            await fence()
        await self._retries.run(
            lambda _: self._client.ask("DELETE", key, headers=condition, expect=_DELETED | {412} if etag else _DELETED)
        )

    async def discard_leftovers(self) -> int:
        """Best effort: what the credentials may not abort stays for the bucket's lifecycle rule."""
        left = await self._ledger.left_by_others(self._attempt)
        discarded = 0
        for upload in left:
            with suppress(StorageError):
                await self._abort(upload)
                discarded += 1
        return discarded

    async def remove_older_folders(self, name: str) -> None:
        with suppress(StorageError):
            for folder in self._attempt.older_folders():
                await self._remove_all(self._key(f"{name}/{folder}"))

    async def _remove_all(self, prefix: str) -> None:
        query = [("list-type", "2"), ("prefix", prefix), ("max-keys", str(_LISTED_AT_ONCE))]
        seen: list[str] = []
        while (keys := keys_in((await self._client.ask("GET", "", query=query)).body)) and keys != seen:
            await gathered(lambda key: self._client.ask("DELETE", key, expect=_DELETED), keys)
            seen = keys

    async def close(self) -> None:
        try:
            await self._cleanup.close()
        finally:
            await self._client.close()

    async def _abort(self, upload: OpenUpload) -> None:
        await self._client.ask("DELETE", upload.key, query=[("uploadId", upload.upload_id)], expect=_DELETED)
        await self._ledger.closed(self._attempt, upload)

    async def _put_single(
        self, path: Path, key: str, pieces: Cut, content_type: str, condition: Condition
    ) -> str | None:
        part = pieces.parts[0]

        async def act(number: int) -> str | None:
            answer = await self._client.ask(
                "PUT",
                key,
                headers={"content-type": content_type, "content-md5": part.md5, **condition},
                body=lambda: stream(path, part),
                size=part.size,
                sha256=part.sha256,
                wait_for_go=number > 0,
            )
            return answer.etag

        return await self._retries.run(act)

    async def _current_etag(self, key: str) -> str | None:
        answer = await self._client.ask("HEAD", key, expect=frozenset({200, 404}), may_renew=False)
        return answer.etag if answer.status == 200 else None

    def _key(self, name: str) -> str:
        return f"{self._prefix}{name}"


def _size_of(path: Path) -> int:
    return path.stat().st_size
