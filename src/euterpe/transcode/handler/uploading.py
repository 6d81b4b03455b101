"""Upload encoded files to their destination, and describe each output that is there.

Everything is uploaded first, under names of this attempt or staged where no reader sees it; then each output is
published under its own key. So an attempt that fails or is cancelled before leaves every key as it was. The files of an
HLS output lie in a folder of the attempt, and the playlist that names them is published after them.

A key that held something before is replaced, and never deleted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, Final

import msgspec

from euterpe.model.errors import StaleLease, Unsupported
from euterpe.model.failures.failure import Category
from euterpe.transcode.handler.progress import ProgressReporter
from euterpe.transcode.media.results import EncodedFile, EncodedOutput
from euterpe.transcode.schema.locations import DestinationLocation, PutUrlDestination, S3Destination
from euterpe.transcode.shared_work import prefix_of
from euterpe.transcode.storage.errors import Stage, StorageError
from euterpe.transcode.storage.local import LocalWriter
from euterpe.transcode.storage.ports import Destination, Fence, Staged, Stored, UploadAttempt
from euterpe.transcode.storage.retrying import gathered

log = logging.getLogger("euterpe.transcode")

LISTED_BYTES: Final = 256_000
"""What the lists of files of all outputs may take of a result, which has a limit of 1 MB."""
UNDO_S: Final = 5.0
_UNKNOWN: Final = "unknown"
"""What a key held before, where the credentials may not look. No entity tag is without quotes."""


@dataclass(frozen=True, slots=True)
class _Planned:
    """A file and its name in the destination."""

    file: EncodedFile
    name: str


@dataclass(frozen=True, slots=True)
class _Plan:
    """The files of one output: `heads` under keys that readers know, `parts` in the folder of the attempt."""

    output: EncodedOutput
    heads: tuple[_Planned, ...]
    parts: tuple[_Planned, ...] = ()


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
        self._plans: list[_Plan] = []
        self._staged: dict[str, Staged] = {}
        self._held: dict[str, str | None] = {}
        """What the key of a name held when we began to publish there: an entity tag, None for nothing, or _UNKNOWN."""
        self._published: list[tuple[str, str]] = []
        """Names whose keys were free, and what we have put there."""
        self._total = 0
        self._moved: dict[str, int] = {}

    async def put_all(self, outputs: Sequence[EncodedOutput]) -> list[dict[str, Any]]:
        self._total = sum(output.size_bytes for output in outputs)
        self._plans = [await asyncio.to_thread(self._planned, output) for output in outputs]
        heads = [head for plan in self._plans for head in plan.heads]
        parts = [part for plan in self._plans for part in plan.parts]
        stored = dict(zip(parts, await gathered(self._put_part, parts), strict=True))
        if len(heads) > 1:  # A lone file is whole or not there by itself.
            await gathered(self._stage, heads)
        for head in heads:
            stored[head] = await self._publish(head)
        for plan in self._plans:
            if plan.parts and self._attempt.claim_version > 1:
                await self._destination.remove_older_folders(_top(plan.heads[0].name))
        return bounded(
            [
                self._document(plan.output, [(each.file, stored[each]) for each in (*plan.heads, *plan.parts)])
                for plan in self._plans
            ]
        )

    async def copy_all(self, documents: Sequence[dict[str, Any]], from_prefix: str) -> list[dict[str, Any]]:
        """Outputs that another job has made, copied by the store; what names other files comes last.

        Raises StorageError with the code `source.changed` where they are not there any more as they were told."""
        every = [file for document in documents for file in document.get("files") or [document]]
        await gathered(self._check_there, every)
        parts = [file for document in documents for file in document.get("files", [])[1:]]
        own = dict(zip((file["key"] for file in parts), await self._copied(parts, from_prefix), strict=True))
        copied = []
        for document in documents:
            first = await self._copy_head(document, from_prefix)
            place = {"key": first["key"], "etag": first["etag"]}
            if "files" in document:
                others = [own[file["key"]] for file in document["files"][1:]]
                place["files"] = [{**document["files"][0], **place}, *others]
            copied.append({**document, **place})
        return copied

    async def undo(self) -> None:
        """Best effort, and only while the claim is ours: what lies there may belong to a newer attempt by now."""
        with suppress(TimeoutError, StaleLease, StorageError):
            async with asyncio.timeout(UNDO_S):
                await gathered(lambda staged: staged.discard(), self._staged.values())
                await self._fence()
                for name, etag in reversed(self._published):
                    await self._delete(name, etag)
                for plan in self._plans:
                    if plan.parts and await self._is_as_before(plan.heads[0].name):
                        await gathered(self._delete, [part.name for part in plan.parts])
                await self.finish()

    async def finish(self) -> None:
        """Nobody will write for this job any more."""
        if isinstance(self._destination, LocalWriter):
            await self._destination.finish()

    def _planned(self, output: EncodedOutput) -> _Plan:
        if output.kind != "hls":
            is_by_id = isinstance(self._location, PutUrlDestination)
            return _Plan(output, tuple(_Planned(each, output.id if is_by_id else each.name) for each in output.files))
        master, *others = output.files
        folder = self._attempt.folder
        return _Plan(
            output,
            (_Planned(_pointing_into(master, folder), master.name),),
            tuple(_Planned(each, _inside(each.name, folder)) for each in others),
        )

    async def _put_part(self, part: _Planned) -> Stored:
        return await self._destination.put(
            part.file.path,
            part.name,
            content_type=part.file.content_type,
            fence=_in_a_folder_of_its_own,
            progress=lambda size: self._report(part.name, size),
        )

    async def _stage(self, head: _Planned) -> None:
        self._staged[head.name] = await self._destination.stage(
            head.file.path,
            head.name,
            content_type=head.file.content_type,
            fence=self._fence,
            progress=lambda size: self._report(head.name, size),
        )

    async def _publish(self, head: _Planned) -> Stored:
        await self._look(head.name)
        if (staged := self._staged.get(head.name)) is not None:
            stored = await staged.publish()
        else:
            stored = await self._destination.put(
                head.file.path,
                head.name,
                content_type=head.file.content_type,
                fence=self._fence,
                progress=lambda size: self._report(head.name, size),
            )
        self._note_published(head.name, stored.etag)
        return stored

    async def _look(self, name: str) -> None:
        try:
            self._held[name] = await self._destination.etag_at(self._key(name))
        except (StorageError, Unsupported):
            self._held[name] = _UNKNOWN

    def _note_published(self, name: str, etag: str | None) -> None:
        if self._held[name] is None and etag is not None:
            self._published.append((name, etag))

    async def _is_as_before(self, name: str) -> bool:
        """Whether the key surely holds what it held before this attempt, so that it names none of our files."""
        if name not in self._held:
            return True
        held = self._held[name]
        return held != _UNKNOWN and await self._destination.etag_at(self._key(name)) == held

    async def _delete(self, name: str, etag: str | None = None) -> None:
        with suppress(StorageError, Unsupported):
            await self._destination.delete(name, etag=etag, fence=self._fence)

    def _report(self, name: str, size: int) -> None:
        self._moved[name] = size
        self._reporter.moved("uploading", sum(self._moved.values()), self._total)

    async def _check_there(self, document: dict[str, Any]) -> None:
        if await self._destination.etag_at(document["key"]) != document["etag"]:
            raise StorageError("source.changed", Category.PERMANENT, Stage.UPLOADING, f"{document['key']}: it changed")

    async def _copied(self, parts: Sequence[dict[str, Any]], from_prefix: str) -> list[dict[str, Any]]:
        """They keep the folder of the attempt that made them. Another job may copy them there too, so no undo deletes
        them."""

        async def copy(part: dict[str, Any]) -> dict[str, Any]:
            return await self._copy(part, part["key"].removeprefix(from_prefix))

        return await gathered(copy, parts)

    async def _copy_head(self, document: dict[str, Any], from_prefix: str) -> dict[str, Any]:
        name = document["key"].removeprefix(from_prefix)
        await self._look(name)
        copied = await self._copy(document, name)
        self._note_published(name, copied["etag"])
        return copied

    async def _copy(self, document: dict[str, Any], name: str) -> dict[str, Any]:
        key = self._key(name)
        if key == document["key"]:
            return document  # Both jobs write to the same place, and it is there.
        etag = await self._destination.copy(document["key"], name, etag=document["etag"], fence=self._fence)
        return {**document, "key": key, "etag": etag}

    def _key(self, name: str) -> str:
        return f"{prefix_of(self._location)}{name}"

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
            document["files"] = [_file_document(file, put) for file, put in files]
        return document


def bounded(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Shorten the lists of files until a result can hold them, the longest first: to the playlists, then to nothing.

    `file_count` tells how many there are. All is published by now; a result that is too large would fail the job."""

    def size_of(document: dict[str, Any]) -> int:
        return len(msgspec.json.encode(document.get("files", [])))

    for keeps in (lambda file: file["key"].endswith(".m3u8"), lambda _file: False):
        for document in sorted(documents, key=size_of, reverse=True):
            if sum(map(size_of, documents)) > LISTED_BYTES and "files" in document:
                document["files"] = [file for file in document["files"] if keeps(file)]
    return documents


async def _in_a_folder_of_its_own() -> None:
    """No other attempt writes there, and nothing names it yet."""


def _top(name: str) -> str:
    """The folder of an HLS output."""
    return name.partition("/")[0]


def _inside(name: str, folder: str) -> str:
    """`hls/aac_96/index.m3u8` -> `hls/attempt-<job>-1/aac_96/index.m3u8`"""
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
