"""MediaInfo out of the JSON of ffprobe; our own prober writes the same."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

import msgspec

from euterpe.transcode.media.errors import bad_source
from euterpe.transcode.media.probing.info import Chapter, MediaInfo, MediaStream, StreamKind

OPUS_RATE = 48000
QUARTER_TURNS = (90, 270)
STRANGEST_PIXEL = 5.0
"""A pixel that is further from a square than this is a mistake, and is taken for one."""
_NOT_TAGS = frozenset(
    {"major_brand", "minor_version", "compatible_brands", "handler_name", "vendor_id", "duration", "encoder"}
)
"""What some containers say of themselves among the tags."""
_LOSSLESS = frozenset({"flac", "alac", "ape", "wavpack", "tta", "tak", "truehd", "mlp", "wmalossless"})
_SAMPLE_BITS = {"u8": 8, "s16": 16, "s32": 32, "flt": 32, "dbl": 64}


class _SideData(msgspec.Struct):
    rotation: float | None = None


class _Disposition(msgspec.Struct):
    default: int = 0
    attached_pic: int = 0


class _Stream(msgspec.Struct):
    index: int
    codec_type: str = "data"
    codec_name: str = "unknown"
    sample_rate: str | None = None
    channels: int | None = None
    channel_layout: str | None = None
    bits_per_raw_sample: str | None = None
    bits_per_sample: int | None = None
    sample_fmt: str | None = None
    sample_aspect_ratio: str | None = None
    start_time: str | None = None
    initial_padding: int = 0
    width: int | None = None
    height: int | None = None
    avg_frame_rate: str | None = None
    duration: str | None = None
    bit_rate: str | None = None
    disposition: _Disposition = msgspec.field(default_factory=_Disposition)
    side_data_list: list[_SideData] = []
    tags: dict[str, str] = {}


class _Chapter(msgspec.Struct):
    start_time: str = "0"
    end_time: str = "0"
    tags: dict[str, str] = {}


class _Format(msgspec.Struct):
    format_name: str = ""
    start_time: str | None = None
    duration: str | None = None
    bit_rate: str | None = None
    tags: dict[str, str] = {}


class _Document(msgspec.Struct):
    format: _Format
    streams: list[_Stream] = []
    chapters: list[_Chapter] = []


def read_ffprobe(document: bytes, size: int, estimated: bool) -> MediaInfo:
    """Linear in the size of the document. Call it in a thread: tags may be megabytes."""
    try:
        # Tags are whatever bytes somebody wrote; a wrong one is no reason to refuse the file.
        found = msgspec.json.decode(document.decode(errors="replace"), type=_Document, strict=False)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise bad_source("unreadable", "the source cannot be described") from error
    start_ms = _signed(found.format.start_time)
    return MediaInfo(
        format=found.format.format_name,
        size_bytes=size,
        duration_ms=_whole_length(found),
        duration_estimated=estimated,
        bit_rate=_whole(found.format.bit_rate),
        streams=tuple(_stream(each, start_ms) for each in found.streams),
        tags=clean_tags(found.format.tags),
        chapters=tuple(
            Chapter(milliseconds(each.start_time) or 0, milliseconds(each.end_time) or 0, each.tags.get("title", ""))
            for each in found.chapters
        ),
    )


def _whole_length(found: _Document) -> int | None:
    """Ogg counts the samples that an Opus decoder leaves out at the start."""
    length = milliseconds(found.format.duration)
    first = found.streams[0] if found.streams else None
    if length is None or first is None or (found.format.format_name, first.codec_name) != ("ogg", "opus"):
        return length
    return max(0, length - round(first.initial_padding / OPUS_RATE * 1000))


def _stream(found: _Stream, start_ms: int) -> MediaStream:
    sound = found.codec_type == "audio"
    late_ms = max(0, _signed(found.start_time) - start_ms) if found.start_time else 0
    return MediaStream(
        index=found.index,
        kind=kind_of(found.codec_type, attached=bool(found.disposition.attached_pic)),
        codec=found.codec_name,
        sample_rate=_whole(found.sample_rate),
        channels=found.channels,
        channel_layout=found.channel_layout,
        bits=_bits(found) if sound else None,
        width=found.width,
        height=found.height,
        pixel_shape=_pixel_shape(found.sample_aspect_ratio),
        rotated=any(round(abs(side.rotation or 0)) % 360 in QUARTER_TURNS for side in found.side_data_list),
        frame_rate=_ratio(found.avg_frame_rate),
        late_ms=late_ms,
        duration_ms=milliseconds(found.duration) or _tagged_length(found.tags, late_ms),
        default=bool(found.disposition.default),
        bit_rate=_whole(found.bit_rate),
        tags=clean_tags(found.tags),
    )


def _bits(found: _Stream) -> int | None:
    """Only of sound that keeps its samples: a lossy codec has no depth of its own."""
    if not (found.codec_name.startswith("pcm_") or found.codec_name in _LOSSLESS):
        return None
    named = _whole(found.bits_per_raw_sample) or found.bits_per_sample
    return named or _SAMPLE_BITS.get((found.sample_fmt or "").removesuffix("p"))


def _pixel_shape(ratio: str | None) -> float:
    shape = _ratio((ratio or "").replace(":", "/")) or 1.0
    return shape if 1 / STRANGEST_PIXEL <= shape <= STRANGEST_PIXEL else 1.0


def kind_of(codec_type: str, *, attached: bool) -> StreamKind:
    match codec_type:
        case "audio":
            return "audio"
        case "video":
            return "cover" if attached else "video"
        case "subtitle":
            return "subtitle"
        case _:
            return "other"


def clean_tags(tags: Mapping[str, str]) -> dict[str, str]:
    """Lower-case names, as formats disagree on the case; the first of two that then are the same counts."""
    cleaned: dict[str, str] = {}
    for name, value in tags.items():
        if name.lower() not in _NOT_TAGS and value:
            cleaned.setdefault(name.lower(), value)
    return cleaned


def _tagged_length(tags: Mapping[str, str], late_ms: int) -> int | None:
    """Matroska says when a stream ends in a tag: `00:03:20.480000000`."""
    match = re.fullmatch(r"(\d+):(\d\d):(\d\d(?:\.\d+)?)", tags.get("DURATION", ""))
    if match is None:
        return None
    hours, minutes, seconds = match.groups()
    return max(0, round((int(hours) * 3600 + int(minutes) * 60 + float(seconds)) * 1000) - late_ms)


def milliseconds(seconds: str | None) -> int | None:
    try:
        value = float(seconds or "")
    except ValueError:
        return None
    return round(value * 1000) if math.isfinite(value) and value >= 0 else None


def _signed(seconds: str | None) -> int:
    """A time that may lie before zero, or be unknown."""
    try:
        value = float(seconds or "")
    except ValueError:
        return 0
    return round(value * 1000) if math.isfinite(value) else 0


def _whole(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 16 else None


def _ratio(text: str | None) -> float | None:
    top, _, bottom = (text or "").partition("/")
    if not top.isdigit() or not bottom.isdigit() or int(bottom) == 0 or int(top) == 0:
        return None
    return int(top) / int(bottom)
