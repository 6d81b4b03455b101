"""A file cut into parts: each hashed before it is signed, and streamed without ever being in memory."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from euterpe.model.failures.failure import Category
from euterpe.transcode.storage.errors import Stage, StorageError
from euterpe.transcode.storage.threads import Digest, in_thread

CHUNK: Final = 256 * 1024
MIB: Final = 1024 * 1024
SINGLE_PUT_LIMIT: Final = 16 * MIB
PART_SIZE: Final = 16 * MIB
MAX_PARTS: Final = 9_000
MAX_OBJECT: Final = 5 * 1024 * 1024 * MIB


@dataclass(frozen=True, slots=True)
class Part:
    """`number` counts from 1, as stores count."""

    number: int
    offset: int
    size: int
    sha256: str
    md5: str
    """In base64, as Content-MD5 has it: not every store holds a body against the SHA-256 in its signature."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A file as it will be sent. A file that changes afterwards fits its hashes no more, and the store refuses it."""

    size: int
    sha256: str
    parts: tuple[Part, ...]


def part_size_for(size: int, smallest: int = PART_SIZE) -> int:
    """All parts but the last have this size: R2 demands that."""
    needed = -(-size // MAX_PARTS)
    return max(smallest, -(-needed // MIB) * MIB)


async def cut(path: Path, part_size: int) -> Cut:
    return await in_thread(_cut, path, part_size)


def _cut(path: Path, part_size: int) -> Cut:
    whole = hashlib.sha256()
    parts: list[Part] = []
    try:
        with path.open("rb", buffering=0) as file:
            offset = 0
            is_lone = os.fstat(file.fileno()).st_size < part_size
            while True:
                part = _hash_part(file, len(parts) + 1, offset, part_size, None if is_lone else whole)
                if part.size == 0 and parts:
                    break
                parts.append(part)
                offset += part.size
                if part.size < part_size:
                    break
    except OSError as error:
        raise unreadable(error) from None
    return Cut(offset, parts[0].sha256 if is_lone else whole.hexdigest(), tuple(parts))


def _hash_part(file: BinaryIO, number: int, offset: int, part_size: int, whole: Digest | None) -> Part:
    """`whole` is fed as well: the hash of a file of several parts. A lone part has the hash of its file."""
    sha256, md5 = hashlib.sha256(), hashlib.md5(usedforsecurity=False)
    digests: tuple[Digest, ...] = (sha256, md5) if whole is None else (sha256, md5, whole)
    left = part_size
    while left and (data := file.read(min(CHUNK, left))):
        for digest in digests:
            digest.update(data)
        left -= len(data)
    return Part(number, offset, part_size - left, sha256.hexdigest(), base64.b64encode(md5.digest()).decode("ascii"))


async def stream(path: Path, part: Part) -> AsyncIterator[bytes]:
    """The bytes of one part. A file that became shorter ends too early, which the store notices."""
    try:
        descriptor = await in_thread(os.open, path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise unreadable(error) from None
    try:
        offset, end = part.offset, part.offset + part.size
        while offset < end:
            data = await in_thread(os.pread, descriptor, min(CHUNK, end - offset), offset)
            if not data:
                raise unreadable(None)
            offset += len(data)
            yield data
    finally:
        os.close(descriptor)


def unreadable(error: OSError | None) -> StorageError:
    why = "it became shorter" if error is None else error.strerror
    return StorageError(
        "worker.output_lost", Category.SYSTEM, Stage.UPLOADING, f"the output cannot be read from disk ({why})"
    )
