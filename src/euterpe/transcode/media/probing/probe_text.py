"""MediaInfo out of what ffmpeg prints about its input, for machines without an ffprobe.

The lines are safe to read although tags are the source's: ffmpeg indents every line of a value and puts a colon first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from euterpe.transcode.media.probing.info import Chapter, MediaInfo, MediaStream
from euterpe.transcode.media.probing.probe_json import clean_tags, kind_of, tagged_length

_INPUT = re.compile(r"^Input #0, (.+), from 'fd:':$")
_DURATION = re.compile(
    r"^  Duration: (?:(\d+):(\d\d):(\d\d\.\d+)|N/A)(?:, start: [-\d.]+)?, bitrate: (?:(\d+) kb/s|N/A)"
)
_STREAM = re.compile(r"^  Stream #0:(\d+)(?:\[0x[0-9a-f]+\])?(?:\([^)]*\))?: (\w+): ([^ ,(]+)(.*)$")
_CHAPTER = re.compile(r"^    Chapter #0:\d+: start (-?[\d.]+), end (-?[\d.]+)$")
_TAG = re.compile(r"^ {6,8}([^:]*[^: ]) *: (.*)$")
_MORE = re.compile(r"^ {20,}: (.*)$")
_LAYOUTS = {"mono": 1, "stereo": 2, "2.1": 3, "3.0": 3, "4.0": 4, "quad": 4, "5.0": 5, "5.1": 6, "6.1": 7, "7.1": 8}
_BITS = {"u8": 8, "s16": 16, "s32": 32, "u8p": 8, "s16p": 16, "s32p": 32}


def read_ffmpeg(metadata: str, dump: str, size: int, estimated: bool) -> MediaInfo:
    lines = list(_input_lines(dump))
    duration_ms, bit_rate = None, None
    for line in lines:
        if match := _DURATION.match(line):
            hours, minutes, seconds, kilobits = match.groups()
            if seconds is not None:
                duration_ms = round((int(hours) * 3600 + int(minutes) * 60 + float(seconds)) * 1000)
            bit_rate = int(kilobits) * 1000 if kilobits else None
            break
    heading = _INPUT.match(lines[0]) if lines else None
    return MediaInfo(
        format=heading.group(1) if heading else "",
        size_bytes=size,
        duration_ms=duration_ms,
        duration_estimated=estimated,
        bit_rate=bit_rate,
        streams=tuple(_streams(lines)),
        tags=clean_tags(read_ffmetadata(metadata)),
        chapters=tuple(_chapters(lines)),
    )


def _input_lines(dump: str) -> Iterator[str]:
    """Only the lines that describe the input: what comes after is about the output."""
    inside = False
    for line in dump.splitlines():
        if _INPUT.match(line):
            inside = True
        elif inside and not line.startswith("  "):
            return
        if inside:
            yield line


def _streams(lines: list[str]) -> Iterator[MediaStream]:
    starts = [index for index, line in enumerate(lines) if _STREAM.match(line)]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=False):
        match = _STREAM.match(lines[start])
        assert match is not None
        number, kind, codec, rest = match.groups()
        yield _stream(int(number), kind.lower(), codec, rest, lines[start + 1 : end])


def _stream(index: int, kind: str, codec: str, rest: str, below: list[str]) -> MediaStream:
    rate = re.search(r", (\d+) Hz", rest)
    layout = re.search(r" Hz, ([^,]+)", rest)
    shown = re.search(r", (\d+)x(\d+)", rest)
    frames = re.search(r", ([\d.]+)(k?) fps", rest)
    tags = _tags_below(below)
    return MediaStream(
        index=index,
        kind=kind_of(kind, attached="(attached pic)" in rest),
        codec=codec,
        sample_rate=int(rate.group(1)) if rate else None,
        channels=_channels(layout.group(1)) if layout else None,
        channel_layout=layout.group(1) if layout else None,
        bits=_bits(codec, rest) if kind == "audio" else None,
        width=int(shown.group(1)) if shown else None,
        height=int(shown.group(2)) if shown else None,
        rotated=any(re.search(r"rotation of -?(90|270)\.00 degrees", line) for line in below),
        frame_rate=float(frames.group(1)) * (1000 if frames.group(2) else 1) if frames else None,
        duration_ms=tagged_length(tags),
        tags=clean_tags(tags),
    )


def _channels(layout: str) -> int | None:
    counted = re.match(r"(\d+) channels", layout)
    return int(counted.group(1)) if counted else _LAYOUTS.get(layout.partition("(")[0].strip())


def _bits(codec: str, rest: str) -> int | None:
    if match := re.search(r"\((\d+) bit\)", rest):
        return int(match.group(1))
    if pcm := re.match(r"pcm_[suf](\d+)", codec):
        return int(pcm.group(1))
    sample = re.search(r", ([us]\d+p?)(?:,| |$)", rest)
    lossless = codec in {"flac", "alac", "ape", "wavpack", "tta", "tak", "truehd"}
    return _BITS.get(sample.group(1)) if sample and lossless else None


def _tags_below(lines: list[str]) -> dict[str, str]:
    tags: dict[str, str] = {}
    last = None
    inside = False
    for line in lines:
        if line.strip() in ("Metadata:", "Side data:"):
            inside = line.strip() == "Metadata:"
        elif inside and last is not None and (more := _MORE.match(line)):
            tags[last] += "\n" + more.group(1)
        elif inside and (tag := _TAG.match(line)):
            last = tag.group(1).strip()
            tags.setdefault(last, tag.group(2))
    return tags


def _chapters(lines: list[str]) -> Iterator[Chapter]:
    starts = [index for index, line in enumerate(lines) if _CHAPTER.match(line)]
    ends = [index for index, line in enumerate(lines) if _STREAM.match(line)]
    for start, end in zip(starts, [*starts[1:], min(ends, default=len(lines))], strict=False):
        match = _CHAPTER.match(lines[start])
        assert match is not None
        first, last = (max(0, round(float(seconds) * 1000)) for seconds in match.groups())
        yield Chapter(first, last, _tags_below(lines[start + 1 : max(start, end)]).get("title", ""))


def read_ffmetadata(text: str) -> dict[str, str]:
    """The tags out of ffmpeg's own text form. Its chapters are moved by the start time: not taken from here."""
    tags: dict[str, str] = {}
    for line in _logical_lines(text):
        if line in ("[CHAPTER]", "[STREAM]"):
            break
        name, separator, value = _split(line)
        if separator and not line.startswith(";"):
            tags.setdefault(name, value)
    return tags


def _logical_lines(text: str) -> Iterator[str]:
    """A backslash before the end of a line keeps the line going; it stays in, for `_split` to read."""
    collected = ""
    for line in text.split("\n"):
        collected += line
        escapes = len(line) - len(line.rstrip("\\"))
        if escapes % 2:
            collected += "\n"
            continue
        yield collected
        collected = ""


def _split(line: str) -> tuple[str, bool, str]:
    """Name and value around the first plain `=`, both without their escapes."""
    parts = [""]
    letters = iter(line)
    for letter in letters:
        if letter == "\\":
            parts[-1] += next(letters, "")
        elif letter == "=" and len(parts) == 1:
            parts.append("")
        else:
            parts[-1] += letter
    return parts[0], len(parts) == 2, parts[-1]
