"""Run as a script, inside the sandbox: describes one file with PyAV, in the words of ffprobe's JSON.

`python -I -S prober.py PACKAGES FD DEMUXERS DECODERS`. A process of its own: a hostile file can crash a parser, and
PyAV's wheels hold GPL libraries that are never loaded into the process of Euterpe. It imports nothing of Euterpe.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.stream import Stream

UNREADABLE = 1
"""The exit code of ffprobe for everything that it cannot open."""
Document: TypeAlias = dict[str, object]


def describe(fd: int, demuxers: str, decoders: str) -> Document:
    import av
    import av.logging

    av.logging.restore_default_callback()
    av.logging.set_libav_level(av.logging.WARNING)  # to stderr, where an estimated duration is told
    options = {"fd": str(fd), "protocol_whitelist": "fd", "format_whitelist": demuxers, "codec_whitelist": decoders}
    with av.open("fd:", "r", options=options, metadata_errors="replace") as container:
        # The description is the only place where PyAV tells the bits of a sample and the turn of a picture.
        av.logging.set_level(av.logging.INFO)
        av.logging.set_skip_repeated(False)
        described = dict(_described(container.dumps_format()))  # type: ignore[attr-defined]
        start = Fraction(container.start_time or 0, av.time_base)
        return {
            "format": {
                "format_name": container.format.name,
                "start_time": _seconds(start),
                "duration": _seconds(Fraction(container.duration, av.time_base)) if container.duration else None,
                "bit_rate": str(container.bit_rate),
                "tags": container.metadata,
            },
            "streams": [_stream(stream, described.get(stream.index, "")) for stream in container.streams],
            "chapters": list(_chapters(container)),
        }


def _stream(stream: Stream, described: str) -> Document:
    from av import AudioStream, VideoStream

    context = stream.codec_context
    document: Document = {
        "index": stream.index,
        "codec_type": stream.type or "data",
        "codec_name": context.codec.canonical_name if context is not None else _named(described),
        "start_time": _time(stream, stream.start_time),
        "duration": _time(stream, stream.duration),
        "disposition": {
            "default": int(bool(stream.disposition & stream.disposition.default)),
            "attached_pic": int(bool(stream.disposition & stream.disposition.attached_pic)),
        },
        "tags": stream.metadata,
    }
    if isinstance(stream, AudioStream) and stream.codec_context is not None:
        sound = stream.codec_context
        bits = re.search(r"\((\d+) bit\)", described)
        document |= {
            "sample_rate": str(sound.sample_rate),
            "channels": sound.channels,
            "channel_layout": getattr(sound.layout, "name", None),
            "sample_fmt": getattr(sound.format, "name", None),
            "initial_padding": _skipped_by_opus(sound.extradata),
            "bits_per_raw_sample": bits.group(1) if bits else None,
            "bit_rate": str(sound.bit_rate or ""),
        }
    elif isinstance(stream, VideoStream) and stream.codec_context is not None:
        picture = stream.codec_context
        turned = re.search(r"rotation of (-?[\d.]+) degrees", described)
        shape, rate = stream.sample_aspect_ratio, stream.average_rate
        document |= {
            "width": picture.width,
            "height": picture.height,
            "sample_aspect_ratio": f"{shape.numerator}:{shape.denominator}" if shape else None,
            "avg_frame_rate": f"{rate.numerator}/{rate.denominator}" if rate else None,
            "bit_rate": str(picture.bit_rate or ""),
            "side_data_list": [{"rotation": float(turned.group(1))}] if turned else [],
        }
    return document


def _skipped_by_opus(extradata: bytes | None) -> int:
    """How many samples a decoder leaves out at the start, as the header of Opus says."""
    return int.from_bytes(extradata[10:12], "little") if extradata and extradata[:8] == b"OpusHead" else 0


def _described(text: str) -> Iterator[tuple[int, str]]:
    """The lines of each stream, of which the tags are left out: they are the source's own words."""
    for part in re.split(r"^  (?=Stream #0:\d)", text, flags=re.MULTILINE)[1:]:
        heading, _, below = part.partition("\n")
        _, _, side_data = f"\n{below}".partition("\n    Side data:\n")
        yield int(part[len("Stream #0:") :].partition(":")[0].partition("[")[0].partition("(")[0]), heading + side_data


def _named(described: str) -> str:
    named = re.match(r"Stream #[^ ]+: \w+: (\w+)", described)
    return named.group(1) if named else "unknown"


def _chapters(container: InputContainer) -> Iterator[Document]:
    for chapter in container.chapters():
        base = chapter["time_base"] or Fraction(1)
        yield {
            "start_time": _seconds(chapter["start"] * base),
            "end_time": _seconds(chapter["end"] * base),
            "tags": chapter["metadata"],
        }


def _time(stream: Stream, ticks: int | None) -> str | None:
    return None if ticks is None or stream.time_base is None else _seconds(ticks * stream.time_base)


def _seconds(time: Fraction) -> str:
    return f"{float(time):.6f}"


def main(arguments: list[str]) -> None:
    packages, fd, demuxers, decoders = arguments
    sys.path.append(packages)
    from av.error import FFmpegError

    try:
        document = describe(int(fd), demuxers, decoders)
    except (FFmpegError, ValueError) as error:
        sys.stderr.write(f"{type(error).__name__}\n")
        sys.exit(UNREADABLE)
    # Tags are whatever bytes somebody wrote; a half of a pair that stands alone has no UTF-8.
    sys.stdout.buffer.write(json.dumps(document, ensure_ascii=False).encode(errors="replace"))


if __name__ == "__main__":
    main(sys.argv[1:])
