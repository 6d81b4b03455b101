"""What is in a file, found out in a child process: a hostile file may crash a parser, and then only that child dies."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from euterpe.model.failures.failure import Category
from euterpe.transcode.media.errors import MediaError, bad_source, truncated
from euterpe.transcode.media.ffmpeg.exit_codes import CRASHED, INVALID_DATA, error_for_exit
from euterpe.transcode.media.ffmpeg.limits import MediaLimits
from euterpe.transcode.media.ffmpeg.process import STDOUT_MOST_BYTES, Finished, Watch, run_contained
from euterpe.transcode.media.ffmpeg.source import (
    ALLOWED_DECODERS,
    DEMUXERS,
    checked_size,
    input_options,
    opened,
)
from euterpe.transcode.media.ffmpeg.tools import Tools, pyav_folder
from euterpe.transcode.media.kinds.tag_frames import read_tempo
from euterpe.transcode.media.probing import prober
from euterpe.transcode.media.probing.cut import is_chained, is_cut
from euterpe.transcode.media.probing.info import MediaInfo
from euterpe.transcode.media.probing.probe_json import read_ffprobe

MP4 = "mp4"
ESTIMATED = "Estimating duration from bitrate"
_EXIT_INVALID_DATA = 183


async def probe(source: Path, *, tools: Tools, limits: MediaLimits) -> MediaInfo:
    """Raises MediaError `media.*` where it is no media file, or more of one than the limits allow."""
    size = checked_size(source, limits)
    try:
        info = await describe(source, size, tools=tools, limits=limits)
    except MediaError as error:
        if error.code == INVALID_DATA and is_cut(source):
            raise truncated() from error
        raise
    _hold_limits(info, limits)
    if is_cut(source):
        raise truncated()
    if info.format == "ogg" and len(info.streams) == 1 and is_chained(source):
        return replace(info, duration_estimated=True)
    return info


async def describe(
    source: Path, size: int, *, tools: Tools, limits: MediaLimits, demuxers: Sequence[str] = DEMUXERS
) -> MediaInfo:
    watch = Watch(deadline=time.monotonic() + limits.probe_timeout_s, stall_s=limits.probe_timeout_s)
    with opened(source) as fd:
        argv = _prober(tools, fd, demuxers)
        try:
            done = await run_contained(
                argv, limits=limits, file_bytes=0, cwd=source.parent, watch=watch, pass_fds=[fd], collect=True
            )
        except MediaError as error:
            if error.category is Category.TIMEOUT:
                raise bad_source("probe_timeout", "the source could not be read in time") from error
            raise
    if done.returncode != 0:
        # ffprobe says 1 for everything that it cannot open.
        failed = error_for_exit(_EXIT_INVALID_DATA if done.returncode == 1 else done.returncode)
        raise bad_source("unreadable", "the source makes the parser crash") if failed.code == CRASHED.code else failed
    if len(done.stdout) > STDOUT_MOST_BYTES:
        raise bad_source("too_much_metadata", "the source has more metadata than can be read")
    return await asyncio.to_thread(_read, done, source, size)


def _read(done: Finished, source: Path, size: int) -> MediaInfo:
    info = read_ffprobe(done.stdout, size, ESTIMATED in done.stderr)
    if MP4 not in info.format.split(","):
        return info
    with opened(source) as fd:
        tempo = read_tempo(fd)
    return info if tempo is None else replace(info, tags={**info.tags, "bpm": str(tempo)})


def _prober(tools: Tools, fd: int, demuxers: Sequence[str]) -> list[str]:
    if tools.ffprobe is None:
        script = [sys.executable, "-I", "-S", prober.__file__, str(pyav_folder()), str(fd)]
        return [*script, ",".join(demuxers), ALLOWED_DECODERS]
    return [
        *(str(tools.ffprobe), "-hide_banner", "-loglevel", "warning", *input_options(fd, demuxers)),
        *("-show_format", "-show_streams", "-show_chapters", "-of", "json=compact=1"),
    ]


def _hold_limits(info: MediaInfo, limits: MediaLimits) -> None:
    if not info.of_kind("audio") and not info.of_kind("video"):
        raise bad_source("no_streams", "the source has neither sound nor picture")
    if len(info.streams) > limits.max_streams:
        raise bad_source("too_many_streams", f"the source has more than {limits.max_streams} streams")
    if (info.duration_ms or 0) > limits.max_duration_s * 1000:
        raise bad_source("too_long", f"the source is longer than {limits.max_duration_s:g} seconds")
    for stream in info.streams:
        if (stream.width or 0) * (stream.height or 0) > limits.max_pixels:
            raise bad_source("too_many_pixels", f"a picture of the source has more than {limits.max_pixels} pixels")
