"""Tags, chapters and covers: what an output takes over, as a metadata file that ffmpeg reads.

A file and not arguments: tags would show in the process list, and a cover is too long for an argument.
"""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from euterpe.transcode.media.kinds.tag_frames import reserved_for
from euterpe.transcode.media.kinds.tag_names import by_meaning, written_names
from euterpe.transcode.media.probing.info import Chapter, MediaInfo, MediaStream
from euterpe.transcode.media.span import TimeSpan
from euterpe.transcode.schema.outputs import Tags

CHAPTERS_AS_TAGS = frozenset({"flac", "ogg", "opus"})
"""Muxers that take chapters only as CHAPTERnnn comments, or not always."""
COVERS_AS_STREAMS = frozenset({"mp3", "ipod", "flac"})
COVERS_AS_TAGS = frozenset({"ogg", "opus"})
PICTURE_TAG = "METADATA_BLOCK_PICTURE"
COVER_TYPES = (
    *("Other", "32x32 pixels 'file icon'", "Other file icon", "Cover (front)", "Cover (back)", "Leaflet page"),
    *("Media (e.g. label side of CD)", "Lead artist/lead performer/soloist", "Artist/performer", "Conductor"),
    *("Band/Orchestra", "Composer", "Lyricist/text writer", "Recording Location", "During recording"),
    *("During performance", "Movie/video screen capture", "A bright coloured fish", "Illustration"),
    *("Band/artist logotype", "Publisher/Studio logotype"),
)
"""As ffmpeg names them, in the order of their numbers in ID3 and FLAC."""
FRONT = 3
MIME = {"mjpeg": "image/jpeg", "png": "image/png"}
_SPECIAL = re.compile(r"[=;#\\\n]")
_OF_ONE_STREAM = frozenset({"language"})


@dataclass(frozen=True, slots=True)
class Cover:
    """A picture as it lay in the source."""

    stream: MediaStream
    data: bytes


def wanted_tags(tags: Tags, info: MediaInfo) -> dict[str, str]:
    """Ogg keeps its tags at the stream, all others at the file; a tag set by the request wins, an empty one removes."""
    wanted: dict[str, str] = {}
    if tags.mode == "copy":
        wanted.update(info.tags)
        if info.audio is not None:
            own = {name: value for name, value in info.audio.tags.items() if name not in _OF_ONE_STREAM}
            wanted = {**own, **wanted}
    wanted = by_meaning(wanted)
    for name, value in tags.set.items():
        (known, meant), *total = by_meaning({name.lower(): value}).items()
        wanted.pop(known, None)
        wanted.update({known: meant, **dict(total)} if value else {})
    return wanted


def wanted_chapters(tags: Tags, info: MediaInfo, span: TimeSpan) -> tuple[Chapter, ...]:
    """Those inside the span, moved to its start."""
    if tags.mode == "strip":
        return ()
    end = span.end_ms if span.end_ms is not None else max((each.end_ms for each in info.chapters), default=0)
    inside = (
        Chapter(max(0, each.start_ms - span.start_ms), min(end, each.end_ms) - span.start_ms, each.title)
        for each in info.chapters
        if each.start_ms < end and each.end_ms > span.start_ms
    )
    return tuple(inside)


def metadata_file(muxer: str, tags: Mapping[str, str], chapters: Sequence[Chapter], covers: Sequence[Cover]) -> str:
    """`tags` by their meaning."""
    lines = [";FFMETADATA1"]
    written = {**written_names(muxer, tags), **reserved_for(muxer, tags)}
    lines += [f"{_escaped(name)}={_escaped(value)}" for name, value in written.items()]
    if muxer in CHAPTERS_AS_TAGS:
        for number, chapter in enumerate(chapters):
            lines.append(f"CHAPTER{number:03d}={_clock(chapter.start_ms)}")
            lines.append(f"CHAPTER{number:03d}NAME={_escaped(chapter.title)}")
    if muxer in COVERS_AS_TAGS:
        # One tag of this name is all that the file can say; the others would overwrite it.
        lines += [f"{PICTURE_TAG}={_escaped(base64.b64encode(picture_block(cover)).decode())}" for cover in covers[:1]]
    if muxer not in CHAPTERS_AS_TAGS:
        for chapter in chapters:
            times = ("TIMEBASE=1/1000", f"START={chapter.start_ms}", f"END={chapter.end_ms}")
            lines += ["[CHAPTER]", *times, f"title={_escaped(chapter.title)}"]
    return "\n".join(lines) + "\n"


def picture_block(cover: Cover) -> bytes:
    """FLAC's picture block, which Ogg carries as a comment."""
    mime = MIME.get(cover.stream.codec, "image/jpeg").encode()
    title = cover.stream.tags.get("title", "").encode()
    return b"".join(
        (
            struct.pack(">II", cover_type(cover.stream), len(mime)) + mime,
            struct.pack(">I", len(title)) + title,
            struct.pack(">IIII", cover.stream.width or 0, cover.stream.height or 0, 24, 0),
            struct.pack(">I", len(cover.data)) + cover.data,
        )
    )


def front_first(covers: Sequence[MediaStream]) -> list[MediaStream]:
    return sorted(covers, key=lambda cover: cover_type(cover) != FRONT)


def cover_type(stream: MediaStream) -> int:
    comment = stream.tags.get("comment", "")
    return COVER_TYPES.index(comment) if comment in COVER_TYPES else FRONT


def _clock(milliseconds: int) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{rest:03d}"


def _escaped(text: str) -> str:
    """A backslash at the end would join the next line to this one, as ffmpeg reads it: a space keeps it apart."""
    escaped = _SPECIAL.sub(r"\\\g<0>", text.replace("\r", "").replace("\0", ""))
    return f"{escaped} " if text.endswith("\\") else escaped
