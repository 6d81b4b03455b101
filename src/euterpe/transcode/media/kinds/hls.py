"""HLS with fMP4 segments: ffmpeg writes one playlist a variant, we write the master that names them.

The master is ours because only finished segments tell the true peak bandwidth and the exact codecs.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from euterpe.transcode.media.errors import bad_output

MASTER = "master.m3u8"
PLAYLIST = "index.m3u8"
INIT = "init.mp4"
CONTENT_TYPES = {
    ".m3u8": "application/vnd.apple.mpegurl",
    ".m4s": "video/iso.segment",
    ".mp4": "video/mp4",
}
AAC_LC = "mp4a.40.2"


@dataclass(frozen=True, slots=True)
class Segment:
    uri: str
    seconds: float
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedVariant:
    name: str
    segments: tuple[Segment, ...]
    codecs: str
    width: int | None
    height: int | None
    frame_rate: float | None

    @property
    def seconds(self) -> float:
        return sum(segment.seconds for segment in self.segments)

    @property
    def average_bandwidth(self) -> int:
        return round(8 * sum(segment.size_bytes for segment in self.segments) / max(self.seconds, 0.001))

    @property
    def peak_bandwidth(self) -> int:
        """Of the busiest segment; one much shorter than the rest would exaggerate, so it is held against their time."""
        usual = max(segment.seconds for segment in self.segments)
        return max(round(8 * each.size_bytes / max(each.seconds, usual / 2)) for each in self.segments)


def muxer_options(folder: str, segment_seconds: int) -> list[str]:
    """`folder` is relative to where ffmpeg runs."""
    return [
        *("-f", "hls", "-hls_time", str(segment_seconds), "-hls_playlist_type", "vod", "-hls_list_size", "0"),
        *("-hls_segment_type", "fmp4", "-hls_fmp4_init_filename", INIT, "-hls_flags", "independent_segments"),
        *("-hls_segment_filename", f"{folder}/%05d.m4s", f"{folder}/{PLAYLIST}"),
    ]


def keyframe_options(segment_seconds: int) -> list[str]:
    """Every variant is cut at the same times, so that a player can change from one to another."""
    return ["-force_key_frames", f"expr:gte(t,n_forced*{segment_seconds})", "-sc_threshold", "0"]


def read_segments(folder: Path) -> tuple[Segment, ...]:
    text = (folder / PLAYLIST).read_text()
    if "#EXT-X-ENDLIST" not in text:
        raise bad_output("incomplete", "a playlist was not finished")
    found = re.findall(r"^#EXTINF:([\d.]+),[^\n]*\n([^#\n]+)$", text, re.MULTILINE)
    segments = tuple(Segment(uri, float(length), (folder / uri).stat().st_size) for length, uri in found)
    if not segments or any(segment.size_bytes == 0 for segment in segments):
        raise bad_output("incomplete", "a playlist has no segments, or empty ones")
    return segments


def write_sample(folder: Path, segment: Segment, target: Path) -> None:
    """The init segment and one other make a file that any program can read."""
    with target.open("wb") as file:
        for name in (INIT, segment.uri):
            with (folder / name).open("rb") as part:
                shutil.copyfileobj(part, file)


def codecs_of(init: bytes, *, picture: bool, sound: bool) -> str:
    """RFC 6381, out of the init segment: profile, constraints and level stand right behind the version byte of avcC."""
    names = []
    if picture:
        at = init.find(b"avcC")
        if at < 0:
            raise bad_output("incomplete", "a variant has no video")
        names.append(f"avc1.{init[at + 5 : at + 8].hex()}")
    if sound:
        names.append(AAC_LC)
    return ",".join(names)


def master_playlist(variants: Sequence[FinishedVariant]) -> str:
    """The best sound-and-picture first, as players start with the first that they can play; sound alone comes last."""
    lines = ["#EXTM3U", "#EXT-X-VERSION:7", "#EXT-X-INDEPENDENT-SEGMENTS"]
    for variant in sorted(variants, key=lambda each: (each.height is None, -each.average_bandwidth)):
        attributes = [
            f"BANDWIDTH={variant.peak_bandwidth}",
            f"AVERAGE-BANDWIDTH={variant.average_bandwidth}",
            f'CODECS="{variant.codecs}"',
        ]
        if variant.width and variant.height:
            attributes.append(f"RESOLUTION={variant.width}x{variant.height}")
        if variant.frame_rate:
            attributes.append(f"FRAME-RATE={variant.frame_rate:.3f}")
        lines += [f"#EXT-X-STREAM-INF:{','.join(attributes)}", f"{variant.name}/{PLAYLIST}"]
    return "\n".join(lines) + "\n"
