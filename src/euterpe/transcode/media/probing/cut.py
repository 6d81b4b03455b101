"""Whether a file breaks off: whether its headers promise more bytes than follow. Nothing is decoded for it."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from euterpe.transcode.media.ffmpeg.source import opened

OGG_HEADER = 27
OGG_PAGE_MOST = OGG_HEADER + 255 + 255 * 255
STREAMED_FROM = 0x7FFF0000
"""A WAV that was written into a pipe did not know its end, and says a size near one of the largest."""
MOST_CHUNKS = 10_000
MP4_BOXES = frozenset({b"mdat", b"moov", b"moof"})


@dataclass(frozen=True, slots=True)
class Chunk:
    kind: bytes
    begin: int
    """Where its content begins."""
    size: int

    @property
    def end(self) -> int:
        return self.begin + self.size


def is_cut(source: Path) -> bool:
    with opened(source) as fd:
        size = os.fstat(fd).st_size
        head = os.pread(fd, 12, 0)
        if head[:4] == b"OggS":
            return _is_cut_ogg(fd, size)
        if head[4:8] == b"ftyp":
            return any(box.kind in MP4_BOXES and box.end > size for box in boxes_of(fd))
        if head[:4] == b"RIFF" and head[8:] == b"WAVE":
            return any(
                each.kind == b"data" and size < each.end and each.size < STREAMED_FROM
                for each in _chunks(fd, size, "<I")
            )
        if head[:4] == b"FORM" and head[8:] in (b"AIFF", b"AIFC"):
            return any(each.kind == b"SSND" and each.end > size for each in _chunks(fd, size, ">I"))
    return False


def is_chained(source: Path) -> bool:
    """Whether an Ogg file of one stream goes on with another after it, of which its length says nothing."""
    with opened(source) as fd:
        size = os.fstat(fd).st_size
        first = os.pread(fd, OGG_HEADER, 0)
        tail = os.pread(fd, OGG_PAGE_MOST, max(0, size - OGG_PAGE_MOST))
    last = tail[max(0, tail.rfind(b"OggS")) :]
    return first[:4] == b"OggS" and first[14:18] != last[14:18]


def forgives_errors(source: Path, form: str) -> bool:
    """Formats without a frame around the whole: junk between or after the frames is common there, and every player
    passes over it. So is a WAV that does not know its end, or that ends within a sample.
    """
    return form in ("mp3", "aac") or (form == "wav" and _ends_anywhere(source))


def _ends_anywhere(source: Path) -> bool:
    with opened(source) as fd:
        chunks = {each.kind: each for each in _chunks(fd, os.fstat(fd).st_size, "<I")}
        form, data = chunks.get(b"fmt "), chunks.get(b"data")
        block = os.pread(fd, 2, form.begin + 12) if form is not None else b""
    if data is None or len(block) < 2:
        return False
    return data.size >= STREAMED_FROM or data.size % max(1, int.from_bytes(block, "little")) != 0


def _is_cut_ogg(fd: int, size: int) -> bool:
    """Ogg has no length of its own, so a cut-off file only shows in its last page."""
    tail = os.pread(fd, OGG_PAGE_MOST, max(0, size - OGG_PAGE_MOST))
    page = tail.rfind(b"OggS")
    if page < 0:
        return True
    if len(tail) < page + OGG_HEADER:
        return True
    segments = tail[page + OGG_HEADER - 1]
    lacing = tail[page + OGG_HEADER : page + OGG_HEADER + segments]
    return len(lacing) < segments or len(tail) < page + OGG_HEADER + segments + sum(lacing)


def _chunks(fd: int, size: int, length: str) -> Iterator[Chunk]:
    """Of RIFF and AIFF, which begin alike; a chunk of an odd size is followed by a byte of nothing."""
    at = 12
    for _ in range(MOST_CHUNKS):
        head = os.pread(fd, 8, at)
        if at >= size or len(head) < 8:
            return
        chunk = Chunk(head[:4], at + 8, struct.unpack(length, head[4:])[0])
        yield chunk
        at = chunk.end + chunk.size % 2


def boxes_of(fd: int) -> Iterator[Chunk]:
    """The outermost ones of an MP4. One of size 0 goes to the end, wherever that is."""
    size, at = os.fstat(fd).st_size, 0
    for _ in range(MOST_CHUNKS):
        head = os.pread(fd, 16, at)
        if at >= size or len(head) < 8:
            return
        length, begin = int.from_bytes(head[:4], "big"), at + 8
        if length == 1:
            length, begin = int.from_bytes(head[8:16], "big"), at + 16
        if length == 0 or at + length < begin:
            return
        yield Chunk(head[4:8], begin, at + length - begin)
        at += length
