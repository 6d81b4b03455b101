"""A large output in parts. A part that fails is sent again, with fresh credentials where needed; never the file."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from euterpe.model.failures.failure import Category
from euterpe.transcode.storage.cleanup import LONGEST_S, Cleanup
from euterpe.transcode.storage.errors import Stage, StorageError, is_error_document, late_failure
from euterpe.transcode.storage.ports import Fence, OpenUpload, Progress, UploadAttempt, UploadLedger
from euterpe.transcode.storage.publishing import Condition, CurrentEtag, etag_in, publish
from euterpe.transcode.storage.retrying import Retries
from euterpe.transcode.storage.s3.client import S3Client
from euterpe.transcode.storage.s3.parts import Cut, Part, stream

UPLOAD_LOST: Final = "storage.upload_lost"
_UNDER_WAY: Final = 3
_UPLOAD_ID: Final = re.compile(rb"<UploadId>([^<]{1,1024})</UploadId>")
_MD5: Final = re.compile(r'"?([0-9a-f]{32})"?', re.ASCII)
_ABORTED: Final = frozenset({200, 204, 404})

Etags = dict[int, str]


class MultipartUpload:
    """One output of one attempt. Whatever ends it, its parts are removed; a killed worker's are found in the ledger."""

    def __init__(
        self,
        client: S3Client,
        ledger: UploadLedger,
        attempt: UploadAttempt,
        key: str,
        content_type: str,
        retries: Retries,
        cleanup: Cleanup,
    ) -> None:
        self._client = client
        self._ledger = ledger
        self._attempt = attempt
        self._key = key
        self._content_type = content_type
        self._retries = retries
        self._cleanup = cleanup
        self._sent = 0
        self._etags: Etags = {}
        self._upload: OpenUpload | None = None
        self._is_completed = False

    async def send(self, path: Path, pieces: Cut, fence: Fence, progress: Progress | None) -> None:
        self._upload = await self._begun()
        async with self._aborting_on_failure(fence):
            self._etags = await self._send_all(self._upload, path, pieces.parts, progress)

    async def publish(self, current_etag: CurrentEtag, fence: Fence) -> str | None:
        ours = expected_etag(self._etags)
        assert self._upload is not None
        async with self._aborting_on_failure(fence):
            etag = await publish(
                partial(self._complete, self._upload, current_etag, ours),
                current_etag,
                fence,
                lambda there: there == ours,
            )
        if self._is_completed:
            await self._ledger.closed(self._attempt, self._upload)
            self._upload = None
        else:
            await self.discard()  # An equal object was there already, and our parts are still in the store.
        return etag

    async def discard(self) -> None:
        """Remove the parts, also while we are being cancelled. Should it fail, the ledger remembers what is left."""
        if self._upload is not None:
            upload, self._upload = self._upload, None
            await asyncio.shield(asyncio.wait([self._cleanup.start(self._abort(upload))]))

    @asynccontextmanager
    async def _aborting_on_failure(self, fence: Fence) -> AsyncIterator[None]:
        try:
            yield
        except BaseException as error:
            await self.discard()
            if isinstance(error, StorageError) and error.store_code == "NoSuchUpload":
                await fence()  # A newer attempt removes what we began; then this says so.
                raise _upload_lost(self._client.place(self._key)) from error
            raise

    async def _begun(self) -> OpenUpload:
        """Begun and noted, or, where we are cancelled meanwhile, aborted as soon as its id is known."""
        beginning = self._cleanup.start(self._begin_and_note())
        try:
            return await asyncio.shield(beginning)
        except asyncio.CancelledError:
            self._cleanup.start(self._abort_when_begun(beginning))
            raise

    async def _begin_and_note(self) -> OpenUpload:
        upload = await self._begin()
        try:
            await self._ledger.opened(self._attempt, upload)
        except BaseException:
            await self._abort(upload)
            raise
        return upload

    async def _abort_when_begun(self, beginning: asyncio.Task[OpenUpload]) -> None:
        with suppress(StorageError):
            await self._abort(await beginning)

    async def _begin(self) -> OpenUpload:
        answer = await self._retries.run(
            lambda _: self._client.ask(
                "POST", self._key, query=[("uploads", "")], headers={"content-type": self._content_type}
            )
        )
        found = _UPLOAD_ID.search(answer.body)
        if found is None:
            raise StorageError(
                "storage.protocol", Category.TEMPORARY, Stage.UPLOADING, "the store began an upload without an id"
            )
        return OpenUpload(self._key, found.group(1).decode("utf-8", "replace"))

    async def _send_all(
        self, upload: OpenUpload, path: Path, parts: tuple[Part, ...], progress: Progress | None
    ) -> Etags:
        waiting, etags = iter(parts), Etags()

        async def send_some(waiting: Iterator[Part]) -> None:
            for part in waiting:
                etags[part.number] = await self._send(upload, path, part)
                self._sent += part.size
                if progress is not None:
                    progress(self._sent)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(_UNDER_WAY, len(parts))):
                    group.create_task(send_some(waiting))
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None
        return etags

    async def _send(self, upload: OpenUpload, path: Path, part: Part) -> str:
        async def act(number: int) -> str:
            answer = await self._client.ask(
                "PUT",
                self._key,
                query=[("partNumber", str(part.number)), ("uploadId", upload.upload_id)],
                headers={"content-md5": part.md5},
                body=lambda: stream(path, part),
                size=part.size,
                sha256=part.sha256,
                # A store that refuses early may cut the line before its reason is read; so it is asked first.
                wait_for_go=number > 0,
            )
            if answer.etag is None:
                raise StorageError(
                    "storage.protocol", Category.TEMPORARY, Stage.UPLOADING, "the store took a part without an ETag"
                )
            return answer.etag

        return await self._retries.run(act)

    async def _complete(
        self, upload: OpenUpload, current_etag: CurrentEtag, ours: str | None, condition: Condition
    ) -> str | None:
        document = _completion(self._etags)

        async def act(number: int) -> str | None:
            try:
                answer = await self._client.ask(
                    "POST",
                    self._key,
                    query=[("uploadId", upload.upload_id)],
                    headers={"content-type": "application/xml", **condition},
                    body=document,
                )
            except StorageError as error:
                if number and error.store_code == "NoSuchUpload" and ours is not None and await current_etag() == ours:
                    self._is_completed = True
                    return ours  # An earlier try did it, and its answer was lost.
                raise
            if is_error_document(answer.body):
                raise late_failure(self._client.place(self._key), answer.body)
            self._is_completed = True
            return etag_in(answer.body)

        return await self._retries.run(act)

    async def _abort(self, upload: OpenUpload) -> None:
        async with asyncio.timeout(LONGEST_S):
            await self._client.ask(
                "DELETE", self._key, query=[("uploadId", upload.upload_id)], expect=_ABORTED, may_renew=False
            )
        await self._ledger.closed(self._attempt, upload)


def expected_etag(etags: Etags) -> str | None:
    """What stores that follow S3 call an object of these parts; None where they call parts otherwise."""
    digests = [_MD5.fullmatch(etags[number]) for number in sorted(etags)]
    if not all(digests):
        return None
    joined = b"".join(bytes.fromhex(found.group(1)) for found in digests if found)
    return f'"{hashlib.md5(joined, usedforsecurity=False).hexdigest()}-{len(digests)}"'


def _completion(etags: Etags) -> bytes:
    parts = "".join(
        f"<Part><PartNumber>{number}</PartNumber><ETag>{escape(etags[number])}</ETag></Part>"
        for number in sorted(etags)
    )
    namespace = "http://s3.amazonaws.com/doc/2006-03-01/"
    return f'<CompleteMultipartUpload xmlns="{namespace}">{parts}</CompleteMultipartUpload>'.encode()


def _upload_lost(place: str) -> StorageError:
    return StorageError(
        UPLOAD_LOST,
        Category.TEMPORARY,
        Stage.UPLOADING,
        f"{place}: the store knows its upload no more",
        http_status=404,
        store_code="NoSuchUpload",
    )
