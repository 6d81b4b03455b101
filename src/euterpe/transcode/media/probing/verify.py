"""An output counts only after it was read again: exit 0 is no success, a source that breaks off gives one too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from euterpe.model.failures.failure import Category
from euterpe.transcode.media.errors import MediaError, truncated
from euterpe.transcode.media.ffmpeg.limits import MediaLimits
from euterpe.transcode.media.ffmpeg.source import DEMUXERS
from euterpe.transcode.media.ffmpeg.tools import Tools
from euterpe.transcode.media.kinds.tag_names import by_meaning
from euterpe.transcode.media.prepared import Prepared
from euterpe.transcode.media.probing.info import MediaInfo
from euterpe.transcode.media.probing.probe import describe
from euterpe.transcode.media.span import TimeSpan

TOLERANCE_MS = 150
"""Delay and padding of encoders, and the last frame of a video."""
TOLERANCE_SHARE = 0.002


async def read_again(
    path: Path, *, tools: Tools, limits: MediaLimits, output_id: str, demuxers: Sequence[str] = DEMUXERS
) -> MediaInfo:
    size = _size(path)
    if size == 0:
        raise broken("empty", "the encoder wrote nothing", output_id)
    try:
        return await describe(path, size, tools=tools, limits=limits, demuxers=demuxers)
    except MediaError as error:
        raise broken("unreadable", "the encoder wrote a file that cannot be read", output_id) from error


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def check_length(span: TimeSpan, length_ms: int | None, output_id: str) -> Iterator[str]:
    """Yields warnings; raises where the length is known and wrong."""
    if span.length_ms is None:
        yield "length_unknown"
        return
    if length_ms is None:
        raise broken("no_length", "the output has no length", output_id)
    tolerance = TOLERANCE_MS + TOLERANCE_SHARE * span.length_ms
    least = span.length_ms if span.least_ms is None else span.least_ms
    if length_ms < least - tolerance and span.exact:
        raise truncated(output_id)
    if abs(span.length_ms - length_ms) > tolerance:
        yield "length_differs"


def check_stream(info: MediaInfo, codec: str, output_id: str, *, picture: bool) -> None:
    stream = info.video if picture else info.audio
    if stream is None or not stream.codec.startswith(codec):
        raise broken("wrong_stream", f"the output has no {codec} stream", output_id)


def lost_metadata(prepared: Prepared, found: MediaInfo) -> Iterator[str]:
    """What the container could not carry, said and not hidden."""
    kept = by_meaning({**(found.audio.tags if found.audio else {}), **found.tags})
    lost = sorted(name for name in prepared.tags if name not in kept)
    if lost:
        yield f"tags_dropped:{','.join(lost)}"
    if len(found.covers) < len(prepared.covers):
        yield "cover_dropped"
    if len(found.chapters) < len(prepared.chapters):
        yield "chapters_dropped"


def broken(code: str, message: str, output_id: str) -> MediaError:
    """Ours and not the source's: another try may well succeed."""
    return MediaError(f"output.{code}", Category.SYSTEM, message, output_id=output_id)
