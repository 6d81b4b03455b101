"""What came out of an encode."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from euterpe.transcode.media.kinds.loudness import LoudnessReport


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedFile:
    name: str
    """Under the destination, with forward slashes: `a.mp3`, `hls/aac_96/index.m3u8`."""
    path: Path
    content_type: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedOutput:
    id: str
    kind: str
    files: tuple[EncodedFile, ...]
    """The one to open first comes first: an HLS output's master playlist."""
    duration_ms: int | None = None
    bit_rate: int | None = None
    codec: str | None = None
    sample_rate: int | None = None
    channels: int | None = None
    width: int | None = None
    height: int | None = None
    loudness: LoudnessReport | None = None
    encode_seconds: float = 0.0
    """Wall time of the pass that made it; outputs of one pass share it."""
    warnings: tuple[str, ...] = ()

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)
