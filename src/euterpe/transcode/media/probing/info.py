"""What a media file is, as far as anybody asks: format, length, streams, tags, chapters, covers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

StreamKind = Literal["audio", "video", "cover", "subtitle", "other"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaStream:
    index: int
    kind: StreamKind
    codec: str
    sample_rate: int | None = None
    channels: int | None = None
    channel_layout: str | None = None
    bits: int | None = None
    """Bits of a sample where that says something: of lossless audio."""
    width: int | None = None
    height: int | None = None
    pixel_shape: float = 1.0
    """Width of a pixel by its height; anamorphic pictures have pixels that are not square."""
    rotated: bool = False
    """Shown turned by a quarter: width and height change places."""
    frame_rate: float | None = None
    late_ms: int = 0
    """How long after the start of the file it begins."""
    duration_ms: int | None = None
    default: bool = False
    """Marked as the one to play where there are several."""
    bit_rate: int | None = None
    tags: dict[str, str] = field(default_factory=dict)

    @property
    def shown_size(self) -> tuple[int, int]:
        """In square pixels: width and height as a player shows them."""
        width, height = round((self.width or 0) * self.pixel_shape), self.height or 0
        return (height, width) if self.rotated else (width, height)


@dataclass(frozen=True, slots=True)
class Chapter:
    start_ms: int
    end_ms: int
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaInfo:
    format: str
    size_bytes: int
    duration_ms: int | None
    duration_estimated: bool
    """The container does not say how long it lasts; the figure is size by bit rate."""
    bit_rate: int | None
    streams: tuple[MediaStream, ...]
    tags: dict[str, str]
    chapters: tuple[Chapter, ...]

    def of_kind(self, kind: StreamKind) -> tuple[MediaStream, ...]:
        return tuple(stream for stream in self.streams if stream.kind == kind)

    @property
    def audio(self) -> MediaStream | None:
        return self._played("audio")

    @property
    def video(self) -> MediaStream | None:
        return self._played("video")

    def _played(self, kind: StreamKind) -> MediaStream | None:
        """The default one, else the first: what a player takes."""
        return min(self.of_kind(kind), key=lambda stream: not stream.default, default=None)

    @property
    def covers(self) -> tuple[MediaStream, ...]:
        return self.of_kind("cover")
