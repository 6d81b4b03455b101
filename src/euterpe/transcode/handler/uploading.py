"""Encoded files to their destination, and the document of each output that is there.

Every file under a fixed key is published while the claim is current. The files of an HLS output go to a folder of this
attempt first, and the playlist that names them comes last: no reader meets files of two attempts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path, PurePosixPath
from typing import Any, Final

from euterpe.model.errors import StaleLease, Unsupported
from euterpe.model.failures.failure import Category
from euterpe.transcode.handler.progress import ProgressReporter
from euterpe.transcode.media.results import EncodedFile, EncodedOutput
from euterpe.transcode.schema.locations import DestinationLocation, PutUrlDestination, S3Destination
from euterpe.transcode.shared_work import prefix_of
from euterpe.transcode.storage.errors import Stage, StorageError
from euterpe.transcode.storage.local import LocalWriter
from euterpe.transcode.storage.ports import Destination, Fence, Stored, UploadAttempt

log = logging.getLogger("euterpe.transcode")

AT_ONCE: Final = 6
"""Segments under way at the same time."""
MOST_FILES: Final = 500
"""So many files of an output are listed; of more, the playlists alone: a result has a limit."""
UNDO_S: Final = 5.0


class Uploads:
    """Those of one attempt."""

    def __init__(
        self,
        destination: Destination,
        location: DestinationLocation,
        attempt: UploadAttempt,
        fence: Fence,
        reporter: ProgressReporter,
    ) -> None:
        self._destination = destination
        self._location = location
        self._attempt = attempt
        self._fence = fence
        self._reporter = reporter
        self._published: list[tuple[str, str | None]] = []
        """Names, and for those that others may write too, what we have put there."""
        self._total = 0
        self._done = 0

    async def put_all(self, outputs: Sequence[EncodedOutput]) -> list[dict[str, Any]]:
        self._total = sum(output.size_bytes for output in outputs)
        return [await self._put_output(output) for output in outputs]

    async def copy_all(self, documents: Sequence[dict[str, Any]], from_prefix: str) -> list[dict[str, Any]]:
        """Outputs that another job has made, copied by the store; what names other files comes last.

        Raises StorageError with the code `source.changed` where they are not there any more as they were told."""
        copied = []
        for document in documents:
            files = [await self._copy(file, from_prefix) for file in document.get("files", [])[1:]]
            first = await self._copy(document, from_prefix)
            own: dict[str, Any] = {**document, "key": first["key"], "etag": first["etag"]}
            if "files" in document:
                own["files"] = [{**document["files"][0], "key": first["key"], "etag": first["etag"]}, *files]
            copied.append(own)
        return copied

    async def undo(self) -> None:
        """Best effort, and only while the claim is ours: what lies there may belong to a newer attempt by now."""
        with suppress(TimeoutError, StaleLease, StorageError):
            async with asyncio.timeout(UNDO_S):
                await self._fence()
                for name, etag in reversed(self._published):
                    with suppress(StorageError, Unsupported):
                        await self._destination.delete(name, etag=etag, fence=self._fence)
                await self.finish()

    async def finish(self) -> None:
        """Nobody will write for this job any more."""
        if isinstance(self._destination, LocalWriter):
            await self._destination.finish()

    async def _put_output(self, output: EncodedOutput) -> dict[str, Any]:
        if output.kind != "hls":
            stored = [await self._put(file, self._name(output, file), self._fence) for file in output.files]
            return self._document(output, list(zip(output.files, stored, strict=True)))
        master, *others = output.files
        folder = self._attempt.folder
        gate = asyncio.Semaphore(AT_ONCE)

        async def put_part(file: EncodedFile) -> Stored:
            async with gate:
                return await self._put(file, _inside(file.name, folder), _in_a_folder_of_its_own)

        try:
            async with asyncio.TaskGroup() as group:
                parts = [group.create_task(put_part(file)) for file in others]
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        pointing = await asyncio.to_thread(_pointing_into, master, folder)
        stored_master = await self._put(pointing, pointing.name, self._fence)
        files = [(pointing, stored_master), *zip(others, (part.result() for part in parts), strict=True)]
        return self._document(output, files)

    async def _put(self, file: EncodedFile, name: str, fence: Fence) -> Stored:
        is_ours_alone = fence is _in_a_folder_of_its_own
        if is_ours_alone:
            self._published.append((name, None))
        before = self._done

        def moved(size: int) -> None:
            self._reporter.moved("uploading", before + size, self._total)

        stored = await self._destination.put(
            file.path, name, content_type=file.content_type, fence=fence, progress=moved
        )
        self._done += stored.size
        if not is_ours_alone and stored.etag is not None:
            self._published.append((name, stored.etag))
        return stored

    async def _copy(self, document: dict[str, Any], from_prefix: str) -> dict[str, Any]:
        key, etag = document["key"], document["etag"]
        if await self._destination.etag_at(key) != etag:
            raise StorageError("source.changed", Category.PERMANENT, Stage.UPLOADING, f"{key}: it changed")
        name = key.removeprefix(from_prefix)
        own_key = f"{prefix_of(self._location)}{name}"
        if own_key == key:
            return document  # Both jobs write to the same place, and it is there.
        own_etag = await self._destination.copy(key, name, etag=etag, fence=self._fence)
        if own_etag is not None:
            self._published.append((name, own_etag))
        return {**document, "key": own_key, "etag": own_etag}

    def _name(self, output: EncodedOutput, file: EncodedFile) -> str:
        return output.id if isinstance(self._location, PutUrlDestination) else file.name

    def _document(self, output: EncodedOutput, files: Sequence[tuple[EncodedFile, Stored]]) -> dict[str, Any]:
        first, stored = files[0]
        document: dict[str, Any] = {
            "id": output.id,
            "kind": output.kind,
            "bucket": self._location.bucket if isinstance(self._location, S3Destination) else None,
            "key": stored.key,
            "content_type": first.content_type,
            "size_bytes": sum(each.size for _, each in files),
            "sha256": stored.sha256,
            "etag": stored.etag,
            "duration_ms": output.duration_ms,
            "bit_rate": output.bit_rate,
            "codec": output.codec,
            "sample_rate": output.sample_rate,
            "channels": output.channels,
            "width": output.width,
            "height": output.height,
            "loudness": None if output.loudness is None else asdict(output.loudness),
            "encode_seconds": output.encode_seconds,
        }
        if len(files) > 1:
            document["file_count"] = len(files)
            listed = files if len(files) <= MOST_FILES else [each for each in files if each[0].name.endswith(".m3u8")]
            document["files"] = [_file_document(file, put) for file, put in listed[:MOST_FILES]]
        return document


async def _in_a_folder_of_its_own() -> None:
    """No other attempt writes there, and nothing names it yet."""


def _inside(name: str, folder: str) -> str:
    """`hls/aac_96/index.m3u8` -> `hls/attempt-1/aac_96/index.m3u8`"""
    top, _, rest = name.partition("/")
    return f"{top}/{folder}{rest}"


def _pointing_into(master: EncodedFile, folder: str) -> EncodedFile:
    """The master playlist, with its variants in the folder of this attempt."""
    lines = master.path.read_text().splitlines()
    rewritten = [line if not line or line.startswith("#") else f"{folder}{line}" for line in lines]
    path: Path = master.path.with_name(f"{PurePosixPath(master.name).stem}.published.m3u8")
    path.write_text("\n".join(rewritten) + "\n")
    return replace(master, path=path)


def _file_document(file: EncodedFile, stored: Stored) -> dict[str, Any]:
    return {
        "key": stored.key,
        "content_type": file.content_type,
        "size_bytes": stored.size,
        "sha256": stored.sha256,
        "etag": stored.etag,
    }
