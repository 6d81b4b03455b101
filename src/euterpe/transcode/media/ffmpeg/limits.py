"""How much one source may cost: bytes, time, pixels, streams, memory. No limit can be switched off."""

from __future__ import annotations

from dataclasses import dataclass

GIB = 1024**3


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaLimits:
    max_source_bytes: int = 20 * GIB
    max_duration_s: float = 12 * 3600.0
    max_pixels: int = 8192 * 8192
    """Width times height of one frame or cover."""
    max_streams: int = 32
    max_cover_bytes: int = 32 * 1024**2
    max_output_bytes: int = 20 * GIB
    """One output; all files of an HLS output together."""
    max_job_bytes: int = 20 * GIB
    """All outputs of one job together."""
    max_segments: int = 50_000
    """Files of all HLS outputs of one job together."""
    output_ratio: float = 2.0
    """An output may be this many times as large as its source, where the source is larger than `ratio_from_bytes`."""
    ratio_from_bytes: int = 1_000_000_000
    memory_bytes: int = 6 * GIB
    """Address space of one child process."""
    probe_timeout_s: float = 20.0
    timeout_s: float = 6 * 3600.0
    """Wall clock of one encode with all its passes."""
    stall_s: float = 60.0
    """A run that makes no progress for this long is killed."""
    threads: int = 0
    """Threads of one encoder; 0 leaves it to ffmpeg."""
    nice: int = 5

    def output_bytes(self, source_bytes: int) -> int:
        if source_bytes > self.ratio_from_bytes:
            return min(self.max_output_bytes, int(source_bytes * self.output_ratio))
        return self.max_output_bytes
